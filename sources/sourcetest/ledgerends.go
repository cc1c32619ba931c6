//go:build unix

package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// endsOnce lets 50 writers race for each of many generations.
func endsOnce(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 2)
	const writers, generations = 50, 20
	for g := watchdog.Generation(1); g <= generations; g++ {
		var race sync.WaitGroup
		stands := make([]watchdog.Record, writers)
		for w := range writers {
			race.Go(func() {
				r := endOf("racer", g, fmt.Sprintf("nonce-%d-%d", g, w))
				r.Reason = r.Nonce
				r.Outcome = watchdog.OutcomeCompleted + watchdog.Outcome(w%5)
				stands[w] = h.settle(t, all[w%len(all)], r)
			})
		}
		race.Wait()
		winner := stands[0]
		if winner.Nonce == "" || winner.Reason != winner.Nonce {
			t.Fatalf("generation %d ended as %+v", g, winner)
		}
		for w := range stands {
			if diff := cmp.Diff(winner, stands[w]); diff != "" {
				t.Fatalf("two writers of generation %d learned two ends:\n%s", g, diff)
			}
		}
		for _, l := range all {
			if r, found := h.record(t, l, "racer", g); !found || cmp.Diff(winner, r) != "" {
				t.Fatalf("generation %d ended as %+v, and %+v is read, %v", g, winner, r, found)
			}
		}
	}
}

func knowsItsOwn(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 2)
	own := endOf("own", 1, "mine")
	for range 3 {
		if got := h.settle(t, all[0], own); cmp.Diff(own, got) != "" {
			t.Fatalf("%+v was written, and %+v stands", own, got)
		}
	}
	other := endOf("own", 1, "theirs")
	other.Outcome, other.SettledBy, other.Reason = watchdog.OutcomeExpired, watchdog.ByOperator, "gone"
	for _, l := range all {
		if got := h.settle(t, l, other); cmp.Diff(own, got) != "" {
			t.Fatalf("the end that stood was %+v, and the loser learned %+v", own, got)
		}
	}
}

func keepsApart(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 1)
	l := all[0]
	want := map[string]watchdog.Record{}
	for i, id := range ids() {
		for _, g := range []watchdog.Generation{1, 2, 11, 4294967295} {
			r := endOf(id, g, fmt.Sprintf("%d-%d", i, g))
			r.Reason = r.Nonce
			if got := h.settle(t, l, r); cmp.Diff(r, got) != "" {
				t.Errorf("%q#%d was written, and %+v stands", id, g, got)
			}
			want[fmt.Sprintf("%s#%d", id, g)] = r
		}
		h.swap(t, l, watchdog.Head{ID: id, Generation: watchdog.Generation(i + 1)}, "")
	}
	for i, id := range ids() {
		for _, g := range []watchdog.Generation{1, 2, 11, 4294967295} {
			if r, found := h.record(t, l, id, g); !found || cmp.Diff(want[fmt.Sprintf("%s#%d", id, g)], r) != "" {
				t.Errorf("%q#%d is read as %+v, %v", id, g, r, found)
			}
		}
		if _, found := h.record(t, l, id, 3); found {
			t.Errorf("%q#3 never ended, and a record is found", id)
		}
		head, _, err := l.Head(t.Context(), id)
		if err != nil || head.ID != id || head.Generation != watchdog.Generation(i+1) {
			t.Errorf("the head of %q is read as %+v, %v", id, head, err)
		}
	}
}

func findsNothing(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 1)
	if r, found := h.record(t, all[0], "nobody", 1); found {
		t.Errorf("a record that nobody wrote: %+v", r)
	}
	head, rev, err := all[0].Head(t.Context(), "nobody")
	if err != nil || rev != "" || head.Generation != 0 {
		t.Errorf("a head that nobody wrote: %+v, %q, %v", head, rev, err)
	}
	left, err := all[0].Outbox(t.Context(), 10)
	if err != nil || len(left) > 0 {
		t.Errorf("an outbox that nobody filled: %+v, %v", left, err)
	}
}

func writesNoNonsense(t *testing.T, h LedgerHarness) {
	if h.InMemory {
		t.Skip("it keeps values as they are")
	}
	_, all := h.serve(t, 1)
	for name, change := range map[string]func(*watchdog.Record){
		"without an outcome":    func(r *watchdog.Record) { r.Outcome = watchdog.OutcomeNone },
		"without a nonce":       func(r *watchdog.Record) { r.Nonce = "" },
		"without a generation":  func(r *watchdog.Record) { r.Generation = 0 },
		"of an id that is none": func(r *watchdog.Record) { r.ID = "a b" },
		"of every id":           func(r *watchdog.Record) { r.ID = ">" },
		"by nobody":             func(r *watchdog.Record) { r.SettledBy = "" },
	} {
		r := endOf("nonsense", 1, "n")
		change(&r)
		if got, err := all[0].WriteOnce(t.Context(), r); err == nil {
			t.Errorf("a record %s was written: %+v", name, got)
		}
	}
	if r, found := h.record(t, all[0], "nonsense", 1); found {
		t.Errorf("it stands: %+v", r)
	}
}

func swapsHeads(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 2)
	first, last := all[0], all[len(all)-1]
	head := watchdog.Head{
		ID: "head", Generation: 2, Cadence: 45*time.Second + 1, Sources: watchdog.SourceNATS.Set() | watchdog.SourceHTTP.Set(),
		Executions: []watchdog.Execution{
			{Generation: 2, BootID: "k3x9", Start: time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC), Supervised: true}, {Generation: 1},
		},
	}
	created := h.swap(t, first, head, "")
	if _, err := last.SwapHead(t.Context(), watchdog.Head{ID: "head", Generation: 1}, ""); !errors.Is(err, watchdog.ErrConflict) {
		t.Errorf("a head was created twice: %v", err)
	}
	got, rev, err := last.Head(t.Context(), "head")
	if err != nil || rev != created || cmp.Diff(head, got) != "" {
		t.Fatalf("the head is read at %q (written at %q), %v, with\n%s", rev, created, err, cmp.Diff(head, got))
	}
	head.Ended = true
	h.swap(t, first, head, rev)
	if _, err := last.SwapHead(t.Context(), watchdog.Head{ID: "head", Generation: 9}, rev); !errors.Is(err, watchdog.ErrConflict) {
		t.Errorf("a head was replaced that had changed: %v", err)
	}
	_, rev, _ = first.Head(t.Context(), "head")
	var race sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 20 {
		race.Go(func() {
			_, err := all[i%len(all)].SwapHead(t.Context(), watchdog.Head{ID: "head", Generation: watchdog.Generation(i + 3)}, rev)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, watchdog.ErrConflict) {
				t.Errorf("neither won nor lost: %v", err)
			}
		})
	}
	race.Wait()
	if won != 1 {
		t.Errorf("%d of 20 replaced the same head", won)
	}
}

func allocatesOnce(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*h.Patience)
	defer cancel()
	const claimers = 12
	var race sync.WaitGroup
	var mu sync.Mutex
	fresh, same := map[watchdog.Generation]int{}, map[watchdog.Generation]int{}
	claim := func(l watchdog.Ledger, c watchdog.Claim, into map[watchdog.Generation]int) {
		g, err := watchdog.Allocate(ctx, l, c)
		if err != nil {
			t.Errorf("no number: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		into[g]++
	}
	for i := range claimers {
		race.Go(func() { claim(all[i%len(all)], watchdog.Claim{ID: "fresh", New: true}, fresh) })
		race.Go(func() { claim(all[i%len(all)], watchdog.Claim{ID: "same", BootID: "k3x9"}, same) })
	}
	race.Wait()
	for g := watchdog.Generation(1); g <= claimers; g++ {
		if fresh[g] != 1 {
			t.Errorf("number %d was given out %d times", g, fresh[g])
		}
	}
	if same[1] != claimers {
		t.Errorf("one boot id was given the numbers %v", same)
	}
	end := h.settle(t, all[0], endOf("same", 1, "n"))
	if err := watchdog.CloseHead(ctx, all[0], end); err != nil {
		t.Fatal(err)
	}
	head, _, err := all[len(all)-1].Head(ctx, "same")
	if err != nil || !head.Ended || head.Generation != 1 {
		t.Errorf("the head that was closed is %+v, %v", head, err)
	}
	if g, err := watchdog.Allocate(ctx, all[0], watchdog.Claim{ID: "same", New: true}); g != 2 || err != nil {
		t.Errorf("the number after an end is %d, %v", g, err)
	}
}

func tellsFollowers(t *testing.T, h LedgerHarness) {
	_, all := h.serve(t, 2)
	writer, reader := all[0], all[len(all)-1]
	const before = 40
	for i := range before {
		id := watchdog.ID(fmt.Sprintf("before-%d", i))
		h.settle(t, writer, endOf(id, 1, "n"))
		rev := h.swap(t, writer, watchdog.Head{ID: id, Generation: 1}, "")
		h.swap(t, writer, watchdog.Head{ID: id, Generation: 2, Ended: true}, rev)
	}
	rec, stop := h.follow(t, reader)
	defer stop()
	rec.Wait(t, h.Patience, "that all has been told", func() bool { return len(EventsOf[watchdog.FollowedUp](rec, 0)) > 0 })
	told, heads := terminals(rec), headsOf(rec)
	for i := range before {
		id := watchdog.ID(fmt.Sprintf("before-%d", i))
		want := endOf(id, 1, "n")
		ev, known := told[fmt.Sprintf("%s#1", id)]
		ev.At = 0
		if !known || cmp.Diff(want.Seen(0), ev) != "" {
			t.Fatalf("FollowedUp came before the end of %s, or it is told as %+v", id, ev)
		}
		if heads[id].Generation != 2 || !heads[id].Ended {
			t.Fatalf("FollowedUp came before the head of %s, or it is told as %+v", id, heads[id])
		}
	}
	for _, id := range ids() {
		h.settle(t, writer, endOf(id, 7, "n"))
		h.swap(t, writer, watchdog.Head{ID: id, Generation: 7, Cadence: time.Second, Executions: []watchdog.Execution{{Generation: 7, BootID: "b"}}}, "")
	}
	rec.Wait(t, h.Patience, "each new end and head", func() bool {
		told, heads := terminals(rec), headsOf(rec)
		for _, id := range ids() {
			if told[fmt.Sprintf("%s#7", id)].Outcome != watchdog.OutcomeLost || heads[id].Generation != 7 || len(heads[id].Executions) != 1 {
				return false
			}
		}
		return true
	})
	for _, ev := range EventsOf[watchdog.TerminalSeen](rec, 0) {
		if ev.Foreign {
			t.Errorf("what this program wrote is told as foreign: %+v", ev)
		}
	}
	stop()
}

func headsOf(rec *Recorder) map[watchdog.ID]watchdog.Head {
	out := map[watchdog.ID]watchdog.Head{}
	for _, ev := range EventsOf[watchdog.HeadSeen](rec, 0) {
		out[ev.Head.ID] = ev.Head
	}
	return out
}

func keepsOutbox(t *testing.T, h LedgerHarness) {
	s := h.Serve(t)
	first, crash := h.open(t, s)
	for i := range 6 {
		h.settle(t, first, endOf("told", watchdog.Generation(i+1), "n"))
	}
	if err := first.Told(t.Context(), endOf("told", 3, "n")); err != nil {
		t.Fatal(err)
	}
	crash() // nothing of the rest was told
	second, stop := h.open(t, s)
	defer stop()
	expect := func(l watchdog.Ledger, limit int, want ...watchdog.Generation) {
		t.Helper()
		ctx, cancel := h.limited(t)
		defer cancel()
		left, err := l.Outbox(ctx, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []watchdog.Generation
		for _, r := range left {
			got = append(got, r.Generation)
			if r.ID != "told" || r.Nonce != "n" || r.Outcome != watchdog.OutcomeLost {
				t.Errorf("the outbox holds %+v", r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the outbox holds others:\n%s", diff)
		}
	}
	expect(second, 100, 1, 2, 4, 5, 6)
	expect(second, 2, 1, 2)
	for _, g := range []watchdog.Generation{1, 1, 6} {
		if err := second.Told(t.Context(), endOf("told", g, "n")); err != nil {
			t.Fatal(err)
		}
	}
	expect(second, 100, 2, 4, 5)
	third := second
	if !h.Exclusive {
		l, stop := h.open(t, s)
		defer stop()
		third = l
	}
	h.settle(t, third, endOf("told", 7, "n"))
	h.settle(t, third, endOf("told", 7, "another")) // lost: adds nothing
	var sweepers sync.WaitGroup
	for i, g := range []watchdog.Generation{2, 4, 5} {
		sweepers.Go(func() {
			if err := []watchdog.Ledger{second, third}[i%2].Told(t.Context(), endOf("told", g, "n")); err != nil {
				t.Error(err)
			}
		})
	}
	sweepers.Wait()
	expect(second, 100, 7)
	if err := third.Told(t.Context(), endOf("told", 7, "n")); err != nil {
		t.Fatal(err)
	}
	expect(second, 100)
	expect(third, 100)
}

// refusesHostile puts what is no record where one belongs.
func refusesHostile(t *testing.T, h LedgerHarness) {
	s, all := h.serve(t, 1)
	vandal, ok := s.(Vandal)
	if !ok {
		t.Skip("nobody else can write into this store")
	}
	l := all[0]
	rec, stop := h.follow(t, l)
	defer stop()
	hostile := [][]byte{
		nil, []byte("ended"), []byte("{}"), []byte("null"), []byte("\x00\xff\x1b]52;c;\x07"), bytes.Repeat([]byte("["), 5000),
		[]byte(`{"session_id":"somebody-else","generation":1,"outcome":"lost","settled_by":"sweeper","nonce":"n"}`),
		[]byte(`{"session_id":"hostile","generation":1,"outcome":"lost","settled_by":"sweeper"}`),
		[]byte(`{"payload":"{}","key_id":"k","signature":"AAAA"}`),
	}
	for i, stored := range hostile {
		g := watchdog.Generation(i + 1)
		if !vandal.PutTerminal(t, "hostile", g, stored) {
			continue
		}
		if r, _, err := l.Record(t.Context(), "hostile", g); !errors.Is(err, watchdog.ErrForeignRecord) {
			t.Errorf("%.60q is read as %+v, %v", stored, r, err)
		}
		if r, err := l.WriteOnce(t.Context(), endOf("hostile", g, "n")); !errors.Is(err, watchdog.ErrForeignRecord) {
			t.Errorf("over %.60q was written %+v, %v", stored, r, err)
		}
		rec.Wait(t, h.Patience, "that the record is foreign", func() bool { return terminals(rec)[fmt.Sprintf("hostile#%d", g)].Foreign })
	}
	for i, stored := range hostile {
		id := watchdog.ID(fmt.Sprintf("head-%d", i))
		if !vandal.PutHead(t, id, stored) {
			continue
		}
		if head, _, err := l.Head(t.Context(), id); err == nil && len(stored) > 0 {
			t.Errorf("%.60q is read as the head %+v", stored, head)
		}
	}
	h.settle(t, l, endOf("honest", 1, "n"))
	rec.Wait(t, h.Patience, "an honest end after them", func() bool { return terminals(rec)["honest#1"].Outcome == watchdog.OutcomeLost })
	left, err := l.Outbox(t.Context(), 100)
	if err != nil || len(left) != 1 || left[0].ID != "honest" {
		t.Errorf("the outbox holds %+v, %v", left, err)
	}
}
