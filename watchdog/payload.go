package watchdog

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Payload is a message as it came: of the session that an Ask has in focus, and
// of no other. Its bytes are hostile.
type Payload struct {
	Source   Source
	Age      time.Duration // since it came, or since it was read again if Standing
	Standing bool          // it stood there already when somebody began to look: it is older than Age
	Refused  bool          // it did not count as a beat, because of Why
	Why      Refusal
	Size     int    // of the message in bytes; Raw may hold less
	Raw      []byte // its first PayloadMost bytes
}

// PayloadMost is how many bytes of one message are kept: the size of the
// largest beat.
const PayloadMost = 16 << 10

// Messages are kept of what is in focus, and of what was until a moment ago, so
// that looking elsewhere for a moment loses nothing.
const (
	payloadLinger  = time.Minute
	payloadWatched = 64 // sessions; more screens than that look through no engine
)

// payloads keeps the newest messages of watched sessions. Who is not watched
// costs a look into a small map, and no memory.
type payloads struct {
	mu      sync.Mutex // who changes the map
	watched atomic.Pointer[map[ID]*watchedPayload]
}

// watchedPayload is what is kept of one session.
type watchedPayload struct {
	asked atomic.Int64 // Mono of the last ask

	mu   sync.Mutex
	kept []keptPayload // one of each source, and one refused one
}

type keptPayload struct {
	Payload
	at time.Duration // Mono
}

func (p *payloads) of(id ID) *watchedPayload {
	if m := p.watched.Load(); m != nil {
		return (*m)[id]
	}
	return nil
}

// watch begins, or goes on, to keep the messages of a session.
func (p *payloads) watch(id ID, now time.Duration) {
	if w := p.of(id); w != nil {
		w.asked.Store(int64(now))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[ID]*watchedPayload{}
	if m := p.watched.Load(); m != nil {
		maps.Copy(next, *m)
		maps.DeleteFunc(next, func(_ ID, w *watchedPayload) bool {
			return now-time.Duration(w.asked.Load()) > payloadLinger
		})
	}
	for len(next) >= payloadWatched {
		oldest := ID("")
		for other, w := range next {
			if oldest == "" || w.asked.Load() < next[oldest].asked.Load() {
				oldest = other
			}
		}
		delete(next, oldest)
	}
	if next[id] == nil {
		next[id] = &watchedPayload{}
	}
	next[id].asked.Store(int64(now))
	p.watched.Store(&next)
}

// note keeps a message in place of the one before it of the same kind.
func (w *watchedPayload) note(p Payload, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.kept, func(k keptPayload) bool { return k.Source == p.Source && k.Refused == p.Refused })
	p.Raw = p.Raw[:min(len(p.Raw), PayloadMost)]
	switch {
	case i < 0:
		w.kept = append(w.kept, keptPayload{})
		i = len(w.kept) - 1
	case p.Standing && bytes.Equal(w.kept[i].Raw, p.Raw):
		return // it was seen to come
	}
	p.Raw = bytes.Clone(p.Raw)
	w.kept[i] = keptPayload{p, at}
}

// list gives what is kept of a session, the newest first.
func (p *payloads) list(id ID, now time.Duration) []Payload {
	w := p.of(id)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.kept, func(a, b keptPayload) int { return cmp.Compare(b.at, a.at) })
	out := make([]Payload, len(w.kept))
	for i, k := range w.kept {
		out[i] = k.Payload
		out[i].Age = max(now-k.at, 0)
	}
	return out
}

// beat keeps the message that a beat came in, if its session is watched.
func (p *payloads) beat(b *Beat) {
	if b.Raw == nil {
		return
	}
	m := p.watched.Load()
	if m == nil {
		return
	}
	if w := (*m)[ID(b.ID)]; w != nil {
		w.note(Payload{Source: b.Source, Standing: b.AgeKind != AgeExact, Size: len(b.Raw), Raw: b.Raw}, b.Received)
	}
}

// Watches reports whether the messages of a session are kept: somebody looks at
// it. A source asks before it reads one again.
func (e *Engine) Watches(id ID) bool { return e.tracker.payloads.of(id) != nil }

// NoteRefused is told of a message that did not count as a beat, before it is
// forgotten. The bytes are copied if the session is watched.
func (e *Engine) NoteRefused(source Source, id ID, raw []byte, size int, why Refusal, at time.Duration) {
	if w := e.tracker.payloads.of(id); w != nil {
		w.note(Payload{Source: source, Refused: true, Why: why, Size: size, Raw: raw}, at)
	}
}

// NoteStanding is told of a message that still stands where it was read before.
func (e *Engine) NoteStanding(source Source, id ID, raw []byte, at time.Duration) {
	if w := e.tracker.payloads.of(id); w != nil {
		w.note(Payload{Source: source, Standing: true, Size: len(raw), Raw: raw}, at)
	}
}
