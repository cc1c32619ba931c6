package watchdog

import (
	"slices"
	"time"

	"pgregory.net/rapid"
)

// drawNotes makes a board as colleagues, or anybody, may have written it.
func (f *fate) drawNotes(t *rapid.T) Noted {
	var notes []AlertNote
	for _, a := range f.tr.alertsShown(8).List {
		if rapid.Bool().Draw(t, "answer") {
			notes = append(notes, AlertNote{Key: a.Key, Evidence: a.Evidence, Kind: NoteKind(rapid.IntRange(0, 3).Draw(t, "kind"))})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "mute") == 0 {
		pattern := rapid.SampledFrom([]string{"s1*", "*", "s?", "[", ""}).Draw(t, "pattern")
		notes = append(notes, AlertNote{Key: MatchKey(pattern), Kind: NoteMute})
	}
	for i := range notes {
		notes[i].Author, notes[i].At = "ops1", time.Unix(0, f.now.Wall)
		if rapid.Bool().Draw(t, "end") {
			notes[i].Until = time.Unix(0, f.now.Wall).Add(time.Duration(rapid.IntRange(-1, 3600).Draw(t, "secs")) * time.Second)
		}
	}
	return Noted{Notes: notes, At: f.now.Mono}
}

// told counts how often each alert was raised for the first time.
type told map[*alert]int

func (n told) take(t *rapid.T, tr *Tracker, effects []Effect) {
	seen := map[AlertKey]bool{} // what came and went within one batch cannot be told apart
	for _, e := range effects {
		r, ok := e.(Raise)
		if !ok {
			continue
		}
		if r.Alert.Standing != AlertOpen || r.Alert.Text == "" {
			t.Fatalf("raised %+v", r)
		}
		at := slices.IndexFunc(tr.alerts.all, func(a *alert) bool { return a.key() == r.Alert.Key })
		again := seen[r.Alert.Key]
		seen[r.Alert.Key] = true
		if at < 0 || again || r.Again != "" {
			continue // it is over already, or told again
		}
		if n[tr.alerts.all[at]]++; n[tr.alerts.all[at]] > 1 {
			t.Fatalf("raised twice: %+v", r)
		}
	}
}

// checkAlerts: every verdict that needs somebody has exactly one alert, the
// members of a group none of their own, and all the books agree.
func checkAlerts(t *rapid.T, tr *Tracker) {
	as := &tr.alerts
	telling := map[*alert]int{}
	for n := range uint32(tr.store.used) {
		r := tr.store.at(n)
		if r.birth == 0 {
			if as.of[n] != nil || as.loops[n] != nil || as.credits[n] != nil || as.covered[n] != nil {
				t.Fatalf("a forgotten session has alerts")
			}
			continue
		}
		a, id := tr.alertOf(n, r), tr.store.idOf(r)
		if r.attention.Counted() != (a != nil) {
			t.Fatalf("%s is %v, rank %d, and its alert is %+v", id, r.verdict, r.attention, a)
		}
		if answered := a != nil && a.standing != AlertOpen; answered != (r.flags&flagAnswered != 0) {
			t.Fatalf("%s: answered is %v in the list, %v in the queue; %+v", id, !answered, answered, a)
		}
		if a == nil {
			continue
		}
		telling[a]++
		if own := as.of[n]; own != nil && own != a {
			t.Fatalf("%s has an alert of its own beside %+v", id, a)
		}
		if a.cause != CauseGroup && a.cause != CauseCrashLoop && (a.cause != causeOf(r.verdict, r.rule, r.attention) || a.generation != r.generation) {
			t.Fatalf("%s #%d is %v, its alert is %+v", id, r.generation, r.verdict, a)
		}
	}
	var counts [len(standingNames)]int
	keys := map[AlertKey]bool{}
	for i, a := range as.all {
		counts[a.standing]++
		if a.standing == AlertOpen && a.tellAt == 0 && !a.raised {
			t.Fatalf("never told: %+v", a)
		}
		if a.index != i || keys[a.key()] || (a.standing == AlertOpen) != (a.note == nil) {
			t.Fatalf("alert %d: %+v", i, a)
		}
		keys[a.key()] = true
		switch a.cause {
		case CauseGroup:
			if a.size() != telling[a] {
				t.Fatalf("a group of %d stands for %d", a.size(), telling[a])
			}
		case CauseCrashLoop, CauseCredits, CauseAction, CauseReapRate:
		default:
			if telling[a] != 1 {
				t.Fatalf("an alert of nothing: %+v", a)
			}
		}
	}
	if counts != as.counts {
		t.Fatalf("counted %v, there are %v", as.counts, counts)
	}
	v := tr.alertsShown(1000)
	if v.Total != len(as.all) || len(v.List) != v.Total || v.Open+v.Acked+v.Quiet != v.Total {
		t.Fatalf("shown %d of %d", len(v.List), v.Total)
	}
	for i := range v.List {
		if a := &v.List[i]; a.Text == "" || a.Text[len(a.Text)-1] != '.' || a.Since < 0 || a.Key == "" {
			t.Fatalf("shown: %+v", a)
		}
	}
}
