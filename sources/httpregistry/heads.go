package httpregistry

import (
	"context"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// headFresh is how long a head that was read counts without another look.
	headFresh = 2 * time.Second
	// headsKept bounds the cache; beyond it the oldest half is dropped.
	headsKept = 200_000
)

// headCache remembers the heads that were read, so that the heartbeats of a
// known session need no ledger while it is away.
type headCache struct {
	mu    sync.Mutex
	known map[watchdog.ID]cachedHead
}

type cachedHead struct {
	head watchdog.Head
	at   time.Time
}

// SawHead takes what the ledger told elsewhere: a head that is newer than ours.
func (r *Registry) SawHead(h watchdog.Head) {
	r.heads.mu.Lock()
	defer r.heads.mu.Unlock()
	if c, ok := r.heads.known[h.ID]; ok && !newer(h, c.head) {
		return
	}
	r.heads.put(h, wall(r.o.Clock))
}

// newer reports whether h is a later state of a session than old.
func newer(h, old watchdog.Head) bool {
	return h.Generation > old.Generation || h.Generation == old.Generation && h.Ended && !old.Ended
}

func (c *headCache) put(h watchdog.Head, at time.Time) {
	if len(c.known) >= headsKept {
		for id := range c.known { // any half: a miss costs one look at the ledger
			if delete(c.known, id); len(c.known) <= headsKept/2 {
				break
			}
		}
	}
	c.known[h.ID] = cachedHead{h, at}
}

func (c *headCache) get(id watchdog.ID) (cachedHead, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.known[id]
	return h, ok
}

// head reads the head of a session. stale is true if the ledger could not be
// read and an older answer stands for it.
func (r *Registry) head(ctx context.Context, id watchdog.ID, fresh bool) (h watchdog.Head, stale bool, err error) {
	now := wall(r.o.Clock)
	cached, ok := r.heads.get(id)
	if ok && !fresh && now.Sub(cached.at) < headFresh {
		return cached.head, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	h, err = r.o.Ends.Head(ctx, id)
	if err != nil {
		if ok && !fresh {
			return cached.head, true, nil
		}
		return watchdog.Head{}, false, err
	}
	h.ID = id
	r.heads.mu.Lock()
	r.heads.put(h, now)
	r.heads.mu.Unlock()
	return h, false, nil
}
