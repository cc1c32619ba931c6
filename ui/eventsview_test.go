package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// eventfulWindow has a night's worth of events of every kind.
func eventfulWindow() watchdog.Window {
	w := sickWindow()
	ago := func(d time.Duration) watchdog.Instant {
		return watchdog.Instant{Mono: watched - d, Wall: at.Add(-d).UnixNano()}
	}
	w.Events = append(w.Events[:0:0],
		watchdog.Transition{Kind: watchdog.EventGroup, From: watchdog.Silent, To: watchdog.Silent, At: ago(10 * sec), Text: "400 of 2,000 went silent together: all on hosts eu2-*"},
		watchdog.Transition{ID: "team.a.job-1", Generation: 1, From: watchdog.Running, To: watchdog.Silent, At: ago(12 * sec), Text: "2 beats missed"},
		watchdog.Transition{ID: "indexer", Generation: 2, From: watchdog.Running, To: watchdog.Stalled, At: ago(31 * sec), Text: "no work for 5m00"},
		watchdog.Transition{ID: "etl-nightly", Generation: 9, From: watchdog.Restarting, To: watchdog.CrashLoop, At: ago(100 * sec), Text: "3 exits in 52s, code 1"},
		watchdog.Transition{ID: "etl-nightly", Generation: 9, Kind: watchdog.EventSupervisor, At: ago(101 * sec), Text: "held: it failed 3 times in a row, each within 60s; a person has to start it again, since nothing else will"},
		watchdog.Transition{ID: "batch-job-9", Generation: 1, Kind: watchdog.EventSettled, From: watchdog.Lost, To: watchdog.Lost, At: ago(38 * mins), Text: "3 beats missed; settled by sweeper"},
		watchdog.Transition{ID: "batch-job-9", Generation: 1, From: watchdog.Silent, To: watchdog.Lost, At: ago(38 * mins), Text: "3 beats missed"},
		watchdog.Transition{Kind: watchdog.EventSight, From: watchdog.Unknown, To: watchdog.Unknown, At: ago(50 * mins), Text: "NATS is seen again after 41s; nobody was accused"},
		watchdog.Transition{Kind: watchdog.EventLedger, At: ago(55 * mins), Text: "ends can be settled, by jetstream k3x9"},
		watchdog.Transition{ID: "user:42:chat:research-eu-1f9c", Generation: 3, Kind: watchdog.EventNumbered, At: ago(time.Hour), Text: "boot k3x9 is generation 3"},
	)
	for i := range 90 {
		w.Events = append(w.Events, watchdog.Transition{ID: watchdog.ID(fmt.Sprintf("batch-job-%04d", i+1)), Generation: 1, To: watchdog.Running, New: true, At: ago(2*time.Hour + time.Duration(i)*sec)})
	}
	return w
}

// eventsOf answers an ask for events like a lens.
func eventsOf(w watchdog.Window, a watchdog.Ask) watchdog.Window {
	w.Events = slices.DeleteFunc(slices.Clone(w.Events), func(t watchdog.Transition) bool { return a.EventsOf != "" && t.ID != a.EventsOf })
	n := a.Events
	if n == 0 {
		n = 64
	}
	w.Events = w.Events[:min(n, len(w.Events))]
	return w
}

func TestEventsView(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 120, 40)
	s.press("3")
	if a := s.feed.last(); a.Events < 200 || a.EventsOf != "" {
		t.Fatalf("asked for %d events of %q", a.Events, a.EventsOf)
	}
	s.show(eventsOf(w, s.feed.last()))
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"EVENTS  of all sessions", "newest first", "running > silent", "settled lost", "numbered", "sight", "supervisor", "group", "new running"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	s.press("esc")
	if a := s.feed.last(); s.m.top() != viewSessions || a.Events != 0 {
		t.Errorf("back in %d, asking for %d events", s.m.top(), a.Events)
	}
}

func TestEventsOfOneSession(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("e")
	if a := s.feed.last(); a.EventsOf != "indexer" {
		t.Fatalf("asked for those of %q", a.EventsOf)
	}
	// An answer to an older ask is of all sessions: it is not shown as this one's.
	old := w
	old.AskSeq = s.m.events.seq - 1
	s.send(windowArrived{gen: s.m.gen, window: old})
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "3 exits") {
		t.Errorf("other sessions' events are shown:\n%s", frame)
	}
	s.show(eventsOf(w, s.feed.last()))
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "EVENTS  of indexer") || !strings.Contains(frame, "no work for 5m00") {
		t.Errorf("its events are not shown:\n%s", frame)
	}
	s.press("3")
	if s.feed.last().EventsOf != "" || len(s.m.layers) != 1 {
		t.Error("3 does not lead to the events of all")
	}
}

// New events come in above; the cursor stays on the event that is read.
func TestEventsHoldStillWhileRead(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("3")
	s.show(w)
	s.press("j", "j")
	if s.m.pager().follow {
		t.Fatal("it still follows")
	}
	read := s.m.events.list[s.m.pager().cur]
	more := w
	more.Events = append([]watchdog.Transition{
		{ID: "new-2", To: watchdog.Running, New: true, At: watchdog.Instant{Mono: watched + 2, Wall: at.UnixNano()}},
		{ID: "new-1", To: watchdog.Running, New: true, At: watchdog.Instant{Mono: watched + 1, Wall: at.UnixNano()}},
	}, w.Events...)
	s.show(more)
	if got := s.m.events.list[s.m.pager().cur]; got != read {
		t.Errorf("the cursor went from %v to %v", read, got)
	}
	s.press("F")
	s.m.frame()
	if s.m.pager().cur != 0 {
		t.Error("F does not follow the newest")
	}
	s.press("enter")
	if s.m.top() != viewWhy || s.m.table.cursor != "new-2" {
		t.Errorf("enter leads to %q", s.m.table.cursor)
	}
}

func TestSearchInEvents(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("3")
	s.show(w)
	s.press("n")
	if !strings.Contains(s.m.note.text, "nothing is looked for") {
		t.Errorf("n says %q", s.m.note.text)
	}
	s.press("/")
	s.press(strings.Split("ETL", "")...)
	if a := s.feed.last(); a.Events != eventsMost {
		t.Errorf("a search looks at %d events only", a.Events)
	}
	s.press("enter")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, `1 of 2 have "ETL"`) || s.m.pager().cur != 3 {
		t.Errorf("the cursor is on %d in\n%s", s.m.pager().cur, frame)
	}
	s.press("n")
	if s.m.pager().cur != 4 {
		t.Errorf("n leads to %d", s.m.pager().cur)
	}
	s.press("n")
	if s.m.pager().cur != 3 || !strings.Contains(s.m.note.text, "from the other end") {
		t.Errorf("n leads to %d and says %q", s.m.pager().cur, s.m.note.text)
	}
	s.press("N")
	if s.m.pager().cur != 4 {
		t.Errorf("N leads to %d", s.m.pager().cur)
	}
	s.press("/", "z", "z", "z")
	if s.m.prompt.err == "" {
		t.Error("a search without a match says nothing")
	}
	s.press("esc")
	if s.m.pager().search != "ETL" || s.m.pager().cur != 4 {
		t.Error("esc does not restore the search before")
	}
}

func TestEventsWrapAndTimes(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("3")
	s.show(w)
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "nothing else will") || !strings.Contains(frame, "03:12:34Z") {
		t.Errorf("a long line is whole, or times are missing:\n%s", frame)
	}
	s.press("w", "t")
	frame := strings.Join(strings.Fields(ansi.Strip(s.m.frame())), " ")
	if !strings.Contains(frame, "nothing else will") || strings.Contains(frame, "03:12:34Z") {
		t.Errorf("w does not wrap, or t leaves times:\n%s", frame)
	}
	for range 60 { // the cursor stays in sight whatever the heights
		s.press("j")
		if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "\n>") {
			t.Fatalf("the cursor is out of sight:\n%s", frame)
		}
	}
}

func TestFoldedIndex(t *testing.T) {
	for _, c := range []struct {
		text, want string
		at         int
	}{{"Running", "run", 0}, {"a RUN", "run", 2}, {"ru", "run", -1}, {"", "x", -1}, {"[x]", "[", 0}, {"{x}", "[", -1}, {"ÄRGER in X", "ärger", 0}, {"日本 Log", "log", 7}, {"aab", "ab", 1}} {
		if at := foldedIndex(c.text, c.want); at != c.at {
			t.Errorf("%q in %q: %d, not %d", c.want, c.text, at, c.at)
		}
	}
}

// TestEventsStandInTheOrderOfTheirTimes, whenever they were noticed; and what stood
// before we watched is not told as if we had seen it begin.
func TestEventsStandInTheOrderOfTheirTimes(t *testing.T) {
	w := sickWindow()
	moment := func(ago time.Duration) watchdog.Instant { return watchdog.Instant{Wall: at.Add(-ago).UnixNano()} }
	w.Events = []watchdog.Transition{
		{ID: "late-noticed", Generation: 1, From: watchdog.Running, To: watchdog.Disputed, At: moment(40 * sec), Text: "b"},
		{ID: "soon", Generation: 1, From: watchdog.Running, To: watchdog.Silent, At: moment(20 * sec), Text: "a"},
		{ID: "number", Generation: 1, Kind: watchdog.EventNumbered, At: moment(30 * sec), Text: "the ledger gave its execution number 1"},
		{ID: "joined", Generation: 1, To: watchdog.Stalled, New: true, At: moment(time.Hour), Text: "no work 1h00, limit 5m"},
		{ID: "old", Generation: 1, To: watchdog.Stalled, New: true, At: moment(watched + time.Hour), Text: "no work 4h00, limit 5m"},
	}
	for _, keys := range []string{"3", ""} {
		s := newScreen(t, w, About{Name: "prod"}, 200, 60)
		s.press(strings.Fields(keys)...)
		s.show(w)
		frame := ansi.Strip(s.m.frame())
		last := 0
		for _, want := range []string{"soon #1", "late-noticed #1", "joined #1", "stood so when first seen: no wo", "old #1", "so since before we watched: no"} {
			found := strings.Index(frame, want)
			if found < last {
				t.Fatalf("%q is not behind what is newer, after %q:\n%s", want, keys, frame)
			}
			last = found
		}
		if told := strings.Contains(frame, "number #1"); told != (keys == "3") {
			t.Errorf("after %q the number is told: %v", keys, told)
		}
	}
	w.Events = w.Events[2:3]
	if frame := ansi.Strip(newScreen(t, w, About{Name: "prod"}, 200, 60).m.frame()); !strings.Contains(frame, "nothing happened since we watch") {
		t.Errorf("where a number is all that was told:\n%s", frame)
	}
}

// TestEventsOfOneSecondStandAsTheyWereTold: a session that began is not new again
// above its own first verdict.
func TestEventsOfOneSecondStandAsTheyWereTold(t *testing.T) {
	second := at.Truncate(time.Second)
	moment := func(after time.Duration) watchdog.Instant {
		return watchdog.Instant{Wall: second.Add(after).UnixNano()}
	}
	told := []watchdog.Transition{ // the newest first
		{ID: "s", To: watchdog.Running, At: moment(100 * time.Millisecond)},
		{ID: "s", To: watchdog.Unknown, New: true, At: moment(900 * time.Millisecond)},
		{ID: "s", To: watchdog.Stopped, At: moment(-time.Millisecond)},
	}
	for i, e := range newestFirst(told) {
		if e != told[i] {
			t.Errorf("%d: %v, told %v", i, e.To, told[i].To)
		}
	}
}
