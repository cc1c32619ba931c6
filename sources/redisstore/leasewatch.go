package redisstore

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// leasePolls is how many poll intervals lie between two looks at the leases:
// they live for several beats, and nobody waits for one to end.
const leasePolls = 5

// leaseWatch looks at the leases of publishers of our own: those that stood when
// we came, whose sessions may be stalled and have no other key; those of new
// keys; and those of beats that carry a boot id. The loop of the store owns it.
type leaseWatch struct {
	poller *poller
	out    *outbox

	known   map[watchdog.ID]*lease
	fresh   []watchdog.ID // of new keys, which may have a lease
	keys    []any         // of known, in the order of ids; rebuilt when that changes
	ids     []watchdog.ID
	dirty   bool
	scanned bool // all masters were asked for leases that stand
	denied  bool // we may not read them
	looked  time.Duration
	began   bool
}

// lease is what was last told of one.
type lease struct {
	held       bool
	generation watchdog.Generation
	bootID     string
	alive      time.Duration // Mono when it was last held, or its session last beat
}

func newLeaseWatch(p *poller, out *outbox) *leaseWatch {
	return &leaseWatch{poller: p, out: out, known: make(map[watchdog.ID]*lease)}
}

// meet takes up the session of a beat that carries a boot id.
func (w *leaseWatch) meet(id watchdog.ID, now time.Duration) {
	if l, ok := w.known[id]; ok {
		l.alive = now
		return
	}
	w.known[id] = &lease{alive: now}
	w.dirty = true
}

// note takes up a new key: its session has a lease beside it, or never gets one.
func (w *leaseWatch) note(key string) {
	if id, ok := wire.IDFromKey(key); ok && w.scanned && !w.denied {
		w.fresh = append(w.fresh, watchdog.ID(id))
	}
}

// restart looks for all leases anew: another server may answer.
func (w *leaseWatch) restart() { w.scanned, w.denied = false, false }

// look tells which leases are held, if it is time to. It follows a good poll.
// An error tells nothing of them.
func (w *leaseWatch) look(ctx context.Context, v *survey) error {
	now := w.poller.clock.Now().Mono
	if w.denied || w.began && now-w.looked < leasePolls*w.poller.target.PollInterval {
		return nil
	}
	w.looked, w.began = now, true
	err := w.read(ctx, v, now)
	if err != nil && explain(err, "").kind == failedDenied {
		w.denied = true
		return nil
	}
	return err
}

func (w *leaseWatch) read(ctx context.Context, v *survey, now time.Duration) error {
	if !w.scanned {
		for _, n := range v.nodes {
			if err := scanNode(ctx, n, wire.LeaseKeyPattern, func(keys []string) error { w.find(keys, now); return nil }); err != nil {
				return err
			}
		}
		w.scanned = true
	}
	w.order()
	if err := w.ask(ctx, w.keys, func(i int, value []byte) { w.compare(w.ids[i], value, now) }); err != nil {
		return err
	}
	return w.askFresh(ctx, now)
}

// ask reads leases. What visit does may change them all.
func (w *leaseWatch) ask(ctx context.Context, keys []any, visit func(i int, value []byte)) error {
	if len(keys) == 0 {
		return nil
	}
	values := make([][]byte, len(keys))
	err := w.poller.mget(ctx, keys, func(i int, value []byte) {
		if value != nil {
			values[i] = append([]byte{}, value...) // the buffer is used again
		}
	})
	if err != nil {
		return err
	}
	for i, value := range values {
		visit(i, value)
	}
	return nil
}

// askFresh takes up those of the new keys that have a lease.
func (w *leaseWatch) askFresh(ctx context.Context, now time.Duration) error {
	fresh := w.fresh
	keys := make([]any, len(fresh))
	for i, id := range fresh {
		keys[i] = wire.LeaseKey(id)
	}
	err := w.ask(ctx, keys, func(i int, value []byte) {
		if value != nil {
			w.meet(fresh[i], now)
			w.compare(fresh[i], value, now)
		}
	})
	if err == nil {
		w.fresh = nil
	}
	return err
}

// find takes up the sessions of leases that stand.
func (w *leaseWatch) find(keys []string, now time.Duration) {
	for _, key := range keys {
		if id, _, ok := wire.IDFromLedgerKey(key); ok && len(w.known) < w.poller.target.MaxKeys {
			w.meet(id, now)
		}
	}
}

// order lists the keys of all known leases; those of one slot stand together.
func (w *leaseWatch) order() {
	if !w.dirty {
		return
	}
	w.keys, w.ids, w.dirty = w.keys[:0], w.ids[:0], false
	for id := range w.known {
		w.keys, w.ids = append(w.keys, wire.LeaseKey(id)), append(w.ids, id)
	}
}

// compare tells what changed of one lease, and forgets one that is gone for so
// long that its session is too.
func (w *leaseWatch) compare(id watchdog.ID, value []byte, now time.Duration) {
	l := w.known[id]
	g, bootID, ok := readLease(value)
	if value == nil || !ok {
		if now-l.alive > goneMemory {
			delete(w.known, id)
			w.dirty = true
		}
		if !l.held {
			return
		}
		l.held = false
		w.tell(id, l, now)
		return
	}
	l.alive = now
	if l.held && l.generation == g && l.bootID == bootID {
		return
	}
	l.held, l.generation, l.bootID = true, g, bootID
	w.tell(id, l, now)
}

func (w *leaseWatch) tell(id watchdog.ID, l *lease, now time.Duration) {
	w.out.post(watchdog.LeaseSeen{ID: id, Generation: l.generation, BootID: l.bootID, Held: l.held, At: now})
}
