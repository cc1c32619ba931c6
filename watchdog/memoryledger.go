package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Call names what a ledger was asked to do.
type Call string

// The calls of a Ledger that may be made to fail.
const (
	CallCheck     Call = "check"
	CallWriteOnce Call = "write once"
	CallRecord    Call = "record"
	CallHead      Call = "head"
	CallSwapHead  Call = "swap head"
	CallOutbox    Call = "outbox"
	CallTold      Call = "told"
)

// Fault is what goes wrong with one call.
type Fault uint8

// The faults that real stores have shown.
const (
	FaultNone     Fault = iota
	FaultAway           // refused before anything was done
	FaultLost           // not done, and the caller is not told so: the store crashed before
	FaultApplied        // done, but the caller runs into its time limit
	FaultStale          // a read is answered from what stood one write before
	FaultForeign        // the subject holds something that does not decode
	FaultConflict       // somebody else was faster, with the same head
)

// MemoryLedger is a Ledger that lives as long as its process: for tests, for
// the demo, and for a registry that has no store. Several of them may share one
// store, as processes share a server; each has faults of its own.
type MemoryLedger struct {
	store *memoryStore
	clock Clock
	seen  uint64 // sequence at the last check
	fault func(Call, ID) Fault
}

type memoryStore struct {
	mu        sync.Mutex
	identity  string
	sequence  uint64
	heads     map[ID]*memoryHead
	records   map[generationKey]Record
	outbox    []generationKey
	foreign   map[generationKey]bool
	followers map[*memoryFollower]struct{}
}

type generationKey struct {
	id ID
	g  Generation
}

type memoryHead struct {
	head, before Head
	rev          uint64
}

// memoryFollower is who follows, and what he was not told yet.
type memoryFollower struct {
	queue []Event
	wake  chan struct{}
}

// NewMemoryLedger makes an empty store. Identity tells it from others; the clock
// stamps what followers are told, and may be nil.
func NewMemoryLedger(identity string, clock Clock) *MemoryLedger {
	return &MemoryLedger{clock: clock, store: &memoryStore{identity: identity, heads: map[ID]*memoryHead{},
		records: map[generationKey]Record{}, foreign: map[generationKey]bool{}, followers: map[*memoryFollower]struct{}{}}}
}

// Share opens the same store once more, as another process would.
func (l *MemoryLedger) Share(clock Clock) *MemoryLedger {
	return &MemoryLedger{store: l.store, clock: clock}
}

// SetFault asks f before each call what is to go wrong with it. It is called
// without any lock held, so it may use the store itself, as somebody who comes
// between would. It is set before the ledger is used.
func (l *MemoryLedger) SetFault(f func(Call, ID) Fault) { l.fault = f }

func (l *MemoryLedger) faultOf(ctx context.Context, c Call, id ID) (Fault, error) {
	if err := ctx.Err(); err != nil {
		return FaultNone, fmt.Errorf("%w: %w", ErrAuthorityAway, err)
	}
	if l.fault == nil {
		return FaultNone, nil
	}
	switch f := l.fault(c, id); f {
	case FaultAway:
		return f, fmt.Errorf("%w: the memory ledger does not answer", ErrAuthorityAway)
	case FaultLost:
		return f, fmt.Errorf("%w: the memory ledger crashed", ErrUnknown)
	default:
		return f, nil
	}
}

var errLateAnswer = fmt.Errorf("%w: the memory ledger answered too late", ErrUnknown)

// Authority is "memory" and the identity given.
func (l *MemoryLedger) Authority() Authority {
	return Authority{Name: AuthorityMemory, Identity: l.store.identity}
}

// Check refuses a store that has gone back behind what this ledger saw.
func (l *MemoryLedger) Check(ctx context.Context) error {
	if _, err := l.faultOf(ctx, CallCheck, ""); err != nil {
		if !errors.Is(err, ErrAuthorityAway) {
			err = fmt.Errorf("%w: %w", ErrAuthorityAway, err)
		}
		return err
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sequence < l.seen {
		return fmt.Errorf("%w: the store is at %d and was at %d: it lost records; restore it", ErrAuthorityAway, s.sequence, l.seen)
	}
	l.seen = s.sequence
	return nil
}

// WriteOnce writes a record unless one stands.
func (l *MemoryLedger) WriteOnce(ctx context.Context, r Record) (Record, error) {
	fault, err := l.faultOf(ctx, CallWriteOnce, r.ID)
	if err != nil {
		return Record{}, err
	}
	s, key := l.store, generationKey{r.ID, r.Generation}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault == FaultForeign {
		s.foreign[key] = true
		s.tell(TerminalSeen{ID: r.ID, Generation: r.Generation, Foreign: true, At: l.now()})
	}
	if s.foreign[key] {
		return Record{}, fmt.Errorf("%w: %s generation %d", ErrForeignRecord, r.ID, r.Generation)
	}
	standing, found := s.records[key]
	if !found {
		standing = r
		s.sequence++
		s.records[key] = r
		s.outbox = append(s.outbox, key)
		s.tell(r.Seen(l.now()))
	}
	if fault == FaultApplied {
		return Record{}, errLateAnswer
	}
	return standing, nil
}

// Record reads the record of a generation.
func (l *MemoryLedger) Record(ctx context.Context, id ID, g Generation) (Record, bool, error) {
	fault, err := l.faultOf(ctx, CallRecord, id)
	if err != nil {
		return Record{}, false, err
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign[generationKey{id, g}] {
		return Record{}, false, fmt.Errorf("%w: %s generation %d", ErrForeignRecord, id, g)
	}
	if fault == FaultStale {
		return Record{}, false, nil
	}
	r, found := s.records[generationKey{id, g}]
	return r, found, nil
}

// Head reads a session's newest generation.
func (l *MemoryLedger) Head(ctx context.Context, id ID) (Head, Revision, error) {
	fault, err := l.faultOf(ctx, CallHead, id)
	if err != nil {
		return Head{}, "", err
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.heads[id]
	if h == nil {
		return Head{}, "", nil
	}
	if fault == FaultStale {
		if h.rev == 1 {
			return Head{}, "", nil
		}
		return h.before.clone(), memoryRevision(h.rev - 1), nil
	}
	return h.head.clone(), memoryRevision(h.rev), nil
}

// SwapHead replaces a head that did not change since.
func (l *MemoryLedger) SwapHead(ctx context.Context, next Head, rev Revision) (Revision, error) {
	fault, err := l.faultOf(ctx, CallSwapHead, next.ID)
	if err != nil {
		return "", err
	}
	if fault == FaultConflict {
		return "", ErrConflict
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.heads[next.ID]
	if h == nil && rev != "" || h != nil && rev != memoryRevision(h.rev) {
		return "", ErrConflict
	}
	if h == nil {
		h = &memoryHead{}
		s.heads[next.ID] = h
	}
	h.before, h.head = h.head, next.clone()
	h.rev++
	s.sequence++
	s.tell(HeadSeen{Head: next.clone(), At: l.now()})
	if fault == FaultApplied {
		return "", errLateAnswer
	}
	return memoryRevision(h.rev), nil
}

// Follow tells what stands in the store and then each change.
func (l *MemoryLedger) Follow(ctx context.Context, post func(Event)) error {
	f := l.store.follow(l.now())
	defer l.store.unfollow(f)
	for {
		for _, ev := range l.store.take(f) {
			post(ev)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
	}
}

func (s *memoryStore) follow(at time.Duration) *memoryFollower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &memoryFollower{queue: s.all(at), wake: make(chan struct{}, 1)}
	s.followers[f] = struct{}{}
	return f
}

func (s *memoryStore) unfollow(f *memoryFollower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.followers, f)
}

// take gives what f was not told yet.
func (s *memoryStore) take(f *memoryFollower) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := f.queue
	f.queue = nil
	return told
}

// all are the events that tell a store to somebody who knows nothing of it, in
// the order of ids.
func (s *memoryStore) all(at time.Duration) []Event {
	var out []Event
	for _, h := range s.heads {
		out = append(out, HeadSeen{Head: h.head.clone(), At: at})
	}
	slices.SortFunc(out, func(a, b Event) int { return compareIDs(a.(HeadSeen).Head.ID, b.(HeadSeen).Head.ID) })
	var ends []TerminalSeen
	for _, r := range s.records {
		ends = append(ends, r.Seen(at))
	}
	for key := range s.foreign {
		ends = append(ends, TerminalSeen{ID: key.id, Generation: key.g, Foreign: true, At: at})
	}
	slices.SortFunc(ends, func(a, b TerminalSeen) int {
		if c := compareIDs(a.ID, b.ID); c != 0 {
			return c
		}
		return int(a.Generation) - int(b.Generation)
	})
	for _, e := range ends {
		out = append(out, e)
	}
	return append(out, FollowedUp{At: at})
}

func compareIDs(a, b ID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// tell hands an event to all who follow. The caller holds the lock.
func (s *memoryStore) tell(ev Event) {
	for f := range s.followers {
		f.queue = append(f.queue, ev)
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// Outbox gives what is not known to be told.
func (l *MemoryLedger) Outbox(ctx context.Context, limit int) ([]Record, error) {
	if _, err := l.faultOf(ctx, CallOutbox, ""); err != nil {
		return nil, err
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Record
	for _, key := range s.outbox[:min(max(limit, 0), len(s.outbox))] {
		out = append(out, s.records[key])
	}
	return out, nil
}

// Told takes a record out of the outbox.
func (l *MemoryLedger) Told(ctx context.Context, r Record) error {
	fault, err := l.faultOf(ctx, CallTold, r.ID)
	if err != nil {
		return err
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outbox = slices.DeleteFunc(s.outbox, func(k generationKey) bool { return k == generationKey{r.ID, r.Generation} })
	if fault == FaultApplied {
		return errLateAnswer
	}
	return nil
}

func (l *MemoryLedger) now() time.Duration {
	if l.clock == nil {
		return 0
	}
	return l.clock.Now().Mono
}

func memoryRevision(n uint64) Revision { return Revision(strconv.FormatUint(n, 10)) }

func (h Head) clone() Head {
	h.Executions, h.Overruled = slices.Clone(h.Executions), slices.Clone(h.Overruled)
	return h
}
