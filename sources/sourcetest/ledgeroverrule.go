//go:build unix

package sourcetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// overrulesForeign lets an operator expire a generation at whose place something
// foreign stands: it stays there, and ends nothing, but the head does.
func overrulesForeign(t *testing.T, h LedgerHarness) {
	s, all := h.serve(t, 2)
	vandal, ok := s.(Vandal)
	if !ok {
		t.Skip("nobody else can write into this store")
	}
	first, last := all[0], all[len(all)-1]
	rec, stop := h.follow(t, last)
	defer stop()
	const id = "overruled"
	for want := watchdog.Generation(1); want <= 2; want++ {
		if g, err := watchdog.Allocate(t.Context(), first, watchdog.Claim{ID: id, New: true}); g != want || err != nil {
			t.Fatalf("generation %d, %v", g, err)
		}
	}
	for g := watchdog.Generation(1); g <= 2; g++ {
		if !vandal.PutTerminal(t, id, g, []byte(`{"outcome":"completed"}`)) {
			t.Skip("the store lets nobody else write")
		}
	}
	settlers := []*watchdog.Settler{
		watchdog.NewSettler(watchdog.SettlerConfig{Ledger: first, Writer: "one"}),
		watchdog.NewSettler(watchdog.SettlerConfig{Ledger: last, Writer: "two"}),
	}
	end := endOf(id, 2, "")
	if stands, err := settlers[0].Settle(t.Context(), end); !errors.Is(err, watchdog.ErrForeignRecord) {
		t.Errorf("a sweeper overruled: %+v, %v", stands, err)
	}
	end.Writer, end.Outcome, end.SettledBy, end.Reason = "", watchdog.OutcomeExpired, watchdog.ByOperator, "ticket 4711"
	stands, err := settlers[0].Settle(t.Context(), end)
	if err != nil || stands.Outcome != watchdog.OutcomeExpired || stands.SettledBy != watchdog.ByOperator || stands.Writer != "one" || stands.Nonce == "" || stands.Reason != "ticket 4711" {
		t.Fatalf("the expire became %+v, %v", stands, err)
	}
	if again, err := settlers[1].Settle(t.Context(), end); err != nil || cmp.Diff(stands, again) != "" {
		t.Errorf("a second operator learned %v and\n%s", err, cmp.Diff(stands, again))
	}
	older := end
	older.Generation = 1
	if got, err := settlers[1].Settle(t.Context(), older); err != nil || got.Generation != 1 {
		t.Errorf("the expire of the older one became %+v, %v", got, err)
	}
	for _, l := range all {
		head, _, err := l.Head(t.Context(), id)
		if err != nil || !head.Ended || head.Generation != 2 || len(head.Overruled) != 2 || head.Overruled[0].Generation != 2 {
			t.Errorf("the head is %+v, %v", head, err)
		}
		if got, found, err := watchdog.EndOf(t.Context(), l, id, 2); err != nil || !found || cmp.Diff(stands, got) != "" {
			t.Errorf("how it ended is read as %v, %v and\n%s", found, err, cmp.Diff(stands, got))
		}
		if r, _, err := l.Record(t.Context(), id, 2); !errors.Is(err, watchdog.ErrForeignRecord) {
			t.Errorf("the foreign record is read as %+v, %v", r, err)
		}
	}
	rec.Wait(t, h.Patience, "the head that ends it", func() bool { head := headsOf(rec)[id]; return head.Ended && len(head.Overruled) == 2 })
	if g, err := watchdog.Allocate(t.Context(), last, watchdog.Claim{ID: id, New: true}); g != 3 || err != nil {
		t.Errorf("the next generation is %d, %v", g, err)
	}
	if head, _, err := first.Head(t.Context(), id); err != nil || head.Ended || len(head.Overruled) != 2 {
		t.Errorf("the next head is %+v, %v", head, err)
	}
}
