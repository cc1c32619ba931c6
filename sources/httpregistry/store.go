package httpregistry

import (
	"context"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Status is the word in a session's hash.
type Status string

// The words of the wire format.
const (
	Alive   Status = "alive"
	Reaped  Status = "reaped"
	Expired Status = "expired"
)

// Entry is the hash of one session.
type Entry struct {
	ID       watchdog.ID
	AgentID  string
	LastSeen time.Time     // our clock; the zero time is last_seen 0: an operator expired it
	TTL      time.Duration // the hash's own value decides
	Status   Status
}

// Store keeps the hashes. Its calls must not outlive ctx.
type Store interface {
	// Beat notes a heartbeat in one step: it makes or renews the whole hash, and
	// never changes one whose status is not alive or whose last_seen is 0. It
	// gives the hash that stood before; found is false if there was none.
	Beat(ctx context.Context, e Entry) (before Entry, found bool, err error)
	// Entry reads one hash.
	Entry(ctx context.Context, id watchdog.ID) (e Entry, found bool, err error)
	// Entries calls each for every hash, in no order, in bounded steps. A hash
	// that cannot be read costs only itself: each gets its id and the error.
	Entries(ctx context.Context, each func(e Entry, err error)) error
	// Register makes the hash of a new generation anew, whatever stood there.
	Register(ctx context.Context, e Entry) error
	// Mark sets the status of a hash that is still as it was read: reaped keeps
	// last_seen, expired sets it to 0. changed is false if it is not.
	Mark(ctx context.Context, as Entry, to Status) (changed bool, err error)
	// Forget removes the hash of a session that ended by its own word.
	Forget(ctx context.Context, id watchdog.ID) error
	// ReaperRan writes reaper:last_run; LastRun reads it.
	ReaperRan(ctx context.Context, at time.Time) error
	LastRun(ctx context.Context) (at time.Time, found bool, err error)
}

// MemoryStore keeps the hashes in this process: the registry without Redis.
type MemoryStore struct {
	mu      sync.Mutex
	entries map[watchdog.ID]Entry
	lastRun time.Time
}

// NewMemoryStore makes an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{entries: map[watchdog.ID]Entry{}}
}

// Beat notes a heartbeat.
func (m *MemoryStore) Beat(_ context.Context, e Entry) (before Entry, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, found = m.entries[e.ID]
	if found && !before.open() {
		return before, true, nil
	}
	if found && e.AgentID == "" {
		e.AgentID = before.AgentID
	}
	e.Status = Alive
	m.entries[e.ID] = e
	return before, found, nil
}

// open reports whether a heartbeat renews the hash.
func (e *Entry) open() bool { return e.Status == Alive && !e.LastSeen.IsZero() }

// Entry reads one hash.
func (m *MemoryStore) Entry(_ context.Context, id watchdog.ID) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[id]
	return e, ok, nil
}

// Entries calls each for every hash.
func (m *MemoryStore) Entries(ctx context.Context, each func(Entry, error)) error {
	m.mu.Lock()
	all := make([]Entry, 0, len(m.entries))
	for _, e := range m.entries {
		all = append(all, e)
	}
	m.mu.Unlock()
	for _, e := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		each(e, nil)
	}
	return nil
}

// Register makes the hash of a new generation anew.
func (m *MemoryStore) Register(_ context.Context, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Status = Alive
	m.entries[e.ID] = e
	return nil
}

// Mark sets the status of a hash that is still as it was read.
func (m *MemoryStore) Mark(_ context.Context, as Entry, to Status) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[as.ID]
	if !ok || !e.LastSeen.Equal(as.LastSeen) || e.Status != as.Status {
		return false, nil
	}
	if e.Status = to; to == Expired {
		e.LastSeen = time.Time{}
	}
	m.entries[as.ID] = e
	return true, nil
}

// Forget removes a hash.
func (m *MemoryStore) Forget(_ context.Context, id watchdog.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, id)
	return nil
}

// ReaperRan notes when the reaper ran.
func (m *MemoryStore) ReaperRan(_ context.Context, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastRun = at
	return nil
}

// LastRun tells when the reaper ran.
func (m *MemoryStore) LastRun(context.Context) (time.Time, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastRun, !m.lastRun.IsZero(), nil
}
