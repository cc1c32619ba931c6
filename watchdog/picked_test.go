package watchdog

import (
	"testing"
	"time"
)

// fault 44
func TestPickedTellsExecutionsApart(t *testing.T) {
	a := Picked{ID: "a", Generation: 2, BootID: "k3x9", FirstSeen: time.Minute}
	for name, c := range map[string]struct {
		change func(*Picked)
		same   bool
	}{
		"itself":             {func(*Picked) {}, true},
		"judged otherwise":   {func(p *Picked) { p.Verdict, p.Shown = Lost, true }, true},
		"its number came":    {func(p *Picked) { p.Generation = 0 }, true},
		"its boot id came":   {func(p *Picked) { p.BootID = "" }, true},
		"another session":    {func(p *Picked) { p.ID = "b" }, false},
		"another generation": {func(p *Picked) { p.Generation = 3 }, false},
		"another boot":       {func(p *Picked) { p.BootID = "x" }, false},
		"seen anew":          {func(p *Picked) { p.FirstSeen++ }, false},
	} {
		b := a
		c.change(&b)
		if a.SameExecution(&b) != c.same || b.SameExecution(&a) != c.same {
			t.Errorf("%s: same is %v", name, !c.same)
		}
	}
}

func TestPickedAreThoseThatAreKnown(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	boot := func(b *Beat, word string) { b.BootID = []byte(word) }
	r.worker("a", 20*time.Second, func(b *Beat, _ int64) { boot(b, "one") })
	r.worker("b", 20*time.Second, func(b *Beat, _ int64) { boot(b, "one") })
	onlyA := func(c *Candidate) bool { return string(c.ID) == "a" }
	look := func() []Picked { return r.tr.Look(Ask{Picked: []ID{"a", "gone", "b"}, Match: onlyA}).Picked }
	before := look()
	if len(before) != 2 || before[0].ID != "a" || !before[0].Shown || before[1].Shown || before[0].BootID != "one" || before[0].Can.May != 0 {
		t.Fatalf("picked %+v", before)
	}
	r.worker("a", 20*time.Second, func(b *Beat, _ int64) { boot(b, "one") })
	if now := look(); !now[0].SameExecution(&before[0]) {
		t.Errorf("%+v is taken for another than %+v", now[0], before[0])
	}
	r.worker("a", 20*time.Second, func(b *Beat, _ int64) { boot(b, "two") })
	if now := look(); now[0].SameExecution(&before[0]) {
		t.Errorf("%+v is taken for %+v", now[0], before[0])
	}
}

// Who may not act is told what could be done elsewhere all the same.
func TestReadOnlyStillTellsWhatWouldBePossible(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS)
	r.tr.SetActs(Acts{ReadOnly: true})
	r.worker("five", 20*time.Second, func(*Beat, int64) {})
	r.worker("v2", 20*time.Second, func(b *Beat, _ int64) { b.BootID = []byte("one") })
	for id, want := range map[string]OpSet{"five": OpSetOf(OpExpire), "v2": OpSetOf(Ops()...)} {
		d := r.detail(id)
		if d.Can.May != 0 || d.Can.Would != want || d.Can.Not(OpStop) != "read-only" {
			t.Errorf("%s: may %v, would %v, %q", id, d.Can.May.Ops(), d.Can.Would.Ops(), d.Can.Not(OpStop))
		}
	}
}
