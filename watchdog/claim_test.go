package watchdog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"
)

func wallAfter(d time.Duration) time.Time { return time.Unix(1_800_000_000, 0).UTC().Add(d) }

// headOf makes a head by claims, the last of which is the newest.
func headOf(claims ...Claim) Head {
	var h Head
	for _, c := range claims {
		c.ID = "s"
		h, _, _ = h.Claim(c)
	}
	return h
}

func TestClaimDecidesTheNumber(t *testing.T) {
	const s = time.Second
	ended := func(h Head) Head { h.Ended = true; return h }
	boot := headOf(Claim{BootID: "a", Start: wallAfter(0)})
	plain := headOf(Claim{Start: wallAfter(0)})
	supervised := headOf(Claim{New: true, BootID: "sup", Start: wallAfter(0)})
	two := headOf(Claim{BootID: "a", Start: wallAfter(0)}, Claim{BootID: "b", Start: wallAfter(100 * s)})
	for _, c := range []struct {
		name string
		head Head
		ask  Claim
		want Generation
	}{
		{"the first by boot id", Head{}, Claim{BootID: "a"}, 1},
		{"the first by start", Head{}, Claim{Start: wallAfter(0)}, 1},
		{"the first by nothing", Head{}, Claim{}, 1},
		{"the first that a supervisor starts", Head{}, Claim{New: true, BootID: "x"}, 1},
		{"a number that is named", Head{}, Claim{Generation: 7, BootID: "x"}, 7},
		{"a lower number that is named", two, Claim{Generation: 1, BootID: "x"}, 1},

		{"a known boot id", two, Claim{BootID: "a"}, 1},
		{"a known boot id of an ended head", ended(boot), Claim{BootID: "a", Start: wallAfter(0)}, 1},
		{"another boot id", boot, Claim{BootID: "b"}, 2},
		{"another boot id after the end", ended(boot), Claim{BootID: "b", Start: wallAfter(50 * s)}, 2},
		{"a boot id of an execution known by its start", plain, Claim{BootID: "a", Start: wallAfter(3 * s)}, 1},
		{"a boot id that starts later than it", plain, Claim{BootID: "a", Start: wallAfter(30 * s)}, 2},
		{"a child's own boot id", supervised, Claim{BootID: "child", Start: wallAfter(s)}, 1},
		{"a boot id from before the supervisor's child", supervised, Claim{BootID: "old", Start: wallAfter(-60 * s), Knew: 1}, 2},
		{"a boot id after a supervised end", ended(supervised), Claim{BootID: "child", Start: wallAfter(s), Knew: 1}, 2},
		{"a boot id that started before, not heard since", two, Claim{BootID: "c", Start: wallAfter(50 * s), Knew: 1}, 0},
		{"a boot id that started with the newest, not heard since", two, Claim{BootID: "c", Start: wallAfter(102 * s), Knew: 1}, 0},
		{"a boot id that started before and goes on", two, Claim{BootID: "c", Start: wallAfter(50 * s), Knew: 2}, 3},
		{"a boot id that started later, told by a first beat", two, Claim{BootID: "c", Start: wallAfter(150 * s)}, 3},
		{"a boot id of unknown start", two, Claim{BootID: "c"}, 3},

		{"new", boot, Claim{New: true, BootID: "sup"}, 2},
		{"new, asked again", supervised, Claim{New: true, BootID: "sup"}, 1},
		{"new, with a number", boot, Claim{New: true, BootID: "sup", Generation: 9}, 2},

		{"the same start", two, Claim{Start: wallAfter(4 * s)}, 1},
		{"the newest start", two, Claim{Start: wallAfter(96 * s)}, 2},
		{"a start between the known ones", two, Claim{Start: wallAfter(50 * s)}, 0},
		{"a later start", two, Claim{Start: wallAfter(200 * s)}, 3},
		{"a later start, told by a first beat", two, Claim{Start: wallAfter(200 * s), First: true}, 0},
		{"a later start after the end, told by a first beat", ended(two), Claim{Start: wallAfter(200 * s), First: true}, 3},
		{"no start, while the head is open", plain, Claim{}, 1},
		{"no start, once it has ended", ended(plain), Claim{}, 0},
		{"five fields under a supervisor", supervised, Claim{Start: wallAfter(40 * s)}, 1},
		{"five fields after a supervised end", ended(supervised), Claim{Start: wallAfter(40 * s)}, 2},
		{"the same start, but seen to begin later", plain, Claim{Start: wallAfter(3 * s), After: 1}, 2},
		{"no start, but seen to begin later", plain, Claim{After: 1}, 2},

		{"numbers are used up", Head{ID: "s", Generation: math.MaxUint32}, Claim{BootID: "z"}, 0},
	} {
		c.ask.ID = "s"
		next, g, changed := c.head.Claim(c.ask)
		if g != c.want {
			t.Errorf("%s: %d, want %d", c.name, g, c.want)
			continue
		}
		if g == 0 {
			if changed {
				t.Errorf("%s: no number, but the head changed", c.name)
			}
			continue
		}
		if next.Generation < c.head.Generation || next.Generation < g {
			t.Errorf("%s: the head went from %d to %d for number %d", c.name, c.head.Generation, next.Generation, g)
		}
		if next.Generation > c.head.Generation && next.Ended {
			t.Errorf("%s: a new generation is born ended", c.name)
		}
		if _, again, changed := next.Claim(c.ask); again != g || changed {
			t.Errorf("%s: asked again it is %d, changed %v", c.name, again, changed)
		}
	}
}

func TestHeadKeepsWhatASweeperNeeds(t *testing.T) {
	h := headOf(Claim{BootID: "a", Start: wallAfter(2 * time.Second), Cadence: time.Second, Sources: SourceNATS.Set()})
	h, _, _ = h.Claim(Claim{ID: "s", BootID: "a", Start: wallAfter(0), Cadence: 30 * time.Second, Sources: SourceRedis.Set()})
	if h.Cadence != 30*time.Second || h.Sources != SourceNATS.Set()|SourceRedis.Set() || !h.Executions[0].Start.Equal(wallAfter(0)) {
		t.Errorf("%+v", h)
	}
	h, _, _ = h.Claim(Claim{ID: "s", BootID: "b", Start: wallAfter(time.Hour)})
	if h.Cadence != 0 || h.Sources != 0 {
		t.Errorf("a new generation inherits %v and %v", h.Cadence, h.Sources)
	}
	for i := range 20 {
		h, _, _ = h.Claim(Claim{ID: "s", BootID: fmt.Sprint("boot", i)})
	}
	if len(h.Executions) != MaxExecutions || h.Executions[0].Generation != 22 || h.Generation != 22 {
		t.Errorf("%d executions, the newest %d, head %d", len(h.Executions), h.Executions[0].Generation, h.Generation)
	}
}

func TestEndTouchesOnlyItsOwnGeneration(t *testing.T) {
	h := headOf(Claim{BootID: "a"}, Claim{BootID: "b"})
	for _, c := range []struct {
		ends    Generation
		changed bool
		head    Generation
		ended   bool
	}{{1, false, 2, false}, {2, true, 2, true}, {5, true, 5, true}} {
		next, changed := h.End(Record{ID: "s", Generation: c.ends})
		if changed != c.changed || next.Generation != c.head || next.Ended != c.ended {
			t.Errorf("the end of %d: %+v, changed %v", c.ends, next, changed)
		}
		if _, again := next.End(Record{ID: "s", Generation: c.ends}); again {
			t.Errorf("the end of %d changes the head twice", c.ends)
		}
	}
}

// fault 29: many ask at once, of a ledger that fails in every way; no number is
// given to two.
func TestAllocateGivesEachExecutionItsOwnNumber(t *testing.T) {
	l := NewMemoryLedger("x", nil)
	var mu sync.Mutex
	calls := 0
	l.SetFault(func(c Call, _ ID) Fault {
		mu.Lock()
		defer mu.Unlock()
		calls++
		switch {
		case c == CallSwapHead && calls%7 == 0:
			return FaultApplied
		case c == CallSwapHead && calls%11 == 0:
			return FaultLost
		case c == CallHead && calls%5 == 0:
			return FaultStale
		}
		return FaultNone
	})
	const n = 50
	got := make([]Generation, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for got[i] == 0 {
				g, err := Allocate(t.Context(), l, Claim{ID: "s", BootID: fmt.Sprint("b", i), New: true})
				if err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
					return
				}
				got[i] = g
			}
		})
	}
	all.Wait()
	seen := map[Generation]int{}
	for i, g := range got {
		if g == 0 || seen[g] != 0 {
			t.Errorf("execution %d got %d, as did %d", i, g, seen[g]-1)
		}
		seen[g] = i + 1
	}
}

func TestAllocateSaysWhyNot(t *testing.T) {
	l := NewMemoryLedger("x", nil)
	l.SetFault(func(Call, ID) Fault { return FaultAway })
	if _, err := Allocate(t.Context(), l, Claim{ID: "s"}); !errors.Is(err, ErrAuthorityAway) {
		t.Error(err)
	}
	if _, err := Allocate(t.Context(), l, Claim{}); err == nil {
		t.Error("a claim without an id got a number")
	}
	l.SetFault(func(c Call, _ ID) Fault {
		if c == CallSwapHead {
			return FaultConflict
		}
		return FaultNone
	})
	if _, err := Allocate(t.Context(), l, Claim{ID: "s"}); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Allocate(ctx, l, Claim{ID: "s"}); err == nil {
		t.Error("a number came after its time")
	}
}
