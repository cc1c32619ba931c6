package watchdog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// road is a way by which a receiver may listen.
type road struct {
	name  string
	takes time.Duration // until its receiver has done it; below 0: it is kept, and nobody takes it
	fails error

	mu        sync.Mutex
	went      int
	concluded []Answer
}

func (r *road) WayName() string { return r.name }
func (r *road) Carries(ID) bool { return true }

func (r *road) Carry(ctx context.Context, c Command, heard func(Answer)) (Answer, error) {
	r.mu.Lock()
	r.went++
	r.mu.Unlock()
	a := Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: FateRequested, By: r.name}
	switch {
	case r.fails != nil:
		return Answer{}, r.fails
	case r.takes < 0:
		heard(a)
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
	a.Fate = FateDelivered
	heard(a)
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	a.Fate, a.Detail = FateEffective, "done"
	return a, nil
}

func (r *road) Conclude(_ context.Context, a Answer) (Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.concluded = append(r.concluded, a)
	return a, nil
}

// A command goes where its receiver listens: by the way on which its session was
// heard, and by another one only if nobody takes it there.
func TestCommandGoesWhereItsReceiverListens(t *testing.T) {
	away := errors.New("may not publish")
	for name, tt := range map[string]struct {
		nats, redis *road
		heard       []string
		fate        Fate
		way         string
		went        [2]int // by NATS, by Redis
		within      time.Duration
	}{
		"it listens on NATS":                    {&road{}, &road{takes: -1}, []string{"nats", "redis"}, FateEffective, "nats", [2]int{1, 0}, time.Second},
		"it listens on Redis alone":             {&road{takes: -1}, &road{}, []string{"nats", "redis"}, FateEffective, "redis", [2]int{1, 1}, otherWayAfter + time.Second},
		"heard on Redis alone, as it listens":   {&road{takes: -1}, &road{}, []string{"redis"}, FateEffective, "redis", [2]int{0, 1}, time.Second},
		"heard on Redis alone, listens on NATS": {&road{}, &road{takes: -1}, []string{"redis"}, FateEffective, "nats", [2]int{1, 1}, otherWayAfter + time.Second},
		"it takes its time":                     {&road{takes: time.Minute}, &road{}, []string{"nats", "redis"}, FateEffective, "nats", [2]int{1, 0}, time.Minute + time.Second},
		"nobody listens on NATS":                {&road{fails: ErrNobody}, &road{}, []string{"nats"}, FateEffective, "redis", [2]int{1, 1}, time.Second},
		"nobody listens anywhere":               {&road{fails: ErrNobody}, &road{fails: ErrNobody}, nil, FateUndeliverable, "nats", [2]int{1, 1}, time.Second},
		"NATS does not let us":                  {&road{fails: away}, &road{}, nil, FateEffective, "redis", [2]int{1, 1}, time.Second},
		"neither lets us":                       {&road{fails: ErrNobody}, &road{fails: away}, nil, FateRefused, "redis", [2]int{1, 1}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nats, redis := tt.nats, tt.redis
				nats.name, redis.name = "nats", "redis"
				engine, _ := operated(t, OperatorConfig{Ways: []CommandWay{nats, redis}, Heard: func(_ ID, way string) bool { return slices.Contains(tt.heard, way) }})
				a, err := engine.Do(t.Context(), Command{Op: OpDump, Session: "a", Generation: 2})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.within)
				synctest.Wait()
				if got := fateOf(t, engine, a.ID); got.Fate != tt.fate || got.Way != tt.way {
					t.Errorf("%v by %q (%s); want %v by %q", got.Fate, got.Way, got.Detail, tt.fate, tt.way)
				}
				if got := [2]int{nats.went, redis.went}; got != tt.went {
					t.Errorf("it went %v times by NATS and Redis, want %v", got, tt.went)
				}
				for _, r := range []*road{nats, redis} {
					want := 0
					if r.went > 0 && r.name != tt.way && tt.fate == FateEffective {
						want = 1
					}
					if len(r.concluded) != want {
						t.Errorf("%s has the results %v, want %d: who comes later is to find one", r.name, r.concluded, want)
					}
				}
			})
		})
	}
}
