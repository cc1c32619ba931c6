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

func fleet(n int) watchdog.Window {
	w := baseWindow()
	for i := range n {
		w.Rows = append(w.Rows, runningRow(i))
	}
	w.Total, w.Matched, w.Fleet.Live, w.Fleet.Assessed = n, n, n, n
	return w
}

// fault 44
func TestCursorBelongsToASession(t *testing.T) {
	w := fleet(100)
	s := newScreen(t, w, About{}, 80, 24)
	s.press("j", "j", "j")
	if s.m.table.cursor != "batch-job-0003" {
		t.Fatalf("the cursor is on %s", s.m.table.cursor)
	}
	s.now += 2 * time.Second
	// Five newcomers that need attention push everything down.
	for i := range 5 {
		w.Rows = slices.Insert(w.Rows, 0, row(watchdog.Stalled, watchdog.AttentionAct, fmt.Sprintf("new-%d", i), sec, sec, 6*mins, "no work"))
	}
	w.Total, w.Matched = 105, 105
	s.show(w)
	if s.m.table.cursor != "batch-job-0003" || s.m.table.at != 8 {
		t.Errorf("the cursor is on %s at %d", s.m.table.cursor, s.m.table.at)
	}
	if s.m.table.top != 0 {
		t.Error("the urgent rows at the top were scrolled out of sight")
	}
}

func TestUntouchedCursorRestsOnTheFirstRow(t *testing.T) {
	w := fleet(10)
	s := newScreen(t, w, About{}, 80, 24)
	w.Rows = slices.Insert(w.Rows, 0, row(watchdog.Lost, watchdog.AttentionBadEnd, "gone", sec, sec, sec, "3 beats missed"))
	s.show(w)
	if s.m.table.cursor != "gone" {
		t.Errorf("the cursor is on %s", s.m.table.cursor)
	}
	if s.feed.last().Focus != "gone" {
		t.Error("the strip does not explain it")
	}
}

func TestOrderHoldsStillAfterAMove(t *testing.T) {
	w := fleet(20)
	s := newScreen(t, w, About{}, 80, 24)
	s.press("j")
	slices.Reverse(w.Rows)
	for i := range w.Rows {
		w.Rows[i].Task = "fresh"
	}
	s.show(w)
	if s.m.table.rows[0].ID != "batch-job-0000" {
		t.Error("rows moved at once")
	}
	if s.m.table.rows[0].Task != "fresh" {
		t.Error("the rows show old facts while they hold still")
	}
	s.now += holdStill
	s.show(w)
	if s.m.table.rows[0].ID != "batch-job-0019" || s.m.table.cursor != "batch-job-0001" {
		t.Error("rows never moved, or the cursor did")
	}
}

func TestGoneSession(t *testing.T) {
	w := fleet(20)
	s := newScreen(t, w, About{}, 80, 24)
	s.press("j", "j")
	s.now += 2 * time.Second
	w.Rows = slices.Delete(w.Rows, 2, 3)
	w.Matched--
	s.show(w)
	if s.m.table.cursor != "batch-job-0003" || !strings.Contains(s.m.note.text, "batch-job-0002 is gone") {
		t.Errorf("the cursor is on %s, the screen says %q", s.m.table.cursor, s.m.note.text)
	}
}

func TestMovesThroughALongList(t *testing.T) {
	w := fleet(5000)
	s := newScreen(t, w, About{}, 80, 24)
	at := func(want int) {
		t.Helper()
		s.show(w)
		if id := watchdog.ID(fmt.Sprintf("batch-job-%04d", want)); s.m.table.cursor != id || s.m.table.at != want {
			t.Fatalf("the cursor is on %s at %d, not on %s", s.m.table.cursor, s.m.table.at, id)
		}
		if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, ">") || !strings.Contains(frame, fmt.Sprintf("batch-job-%04d", want)) {
			t.Fatalf("row %d is not on the screen:\n%s", want, frame)
		}
	}
	s.press("G")
	at(4999)
	s.press("k")
	at(4998)
	s.press("g")
	at(0)
	for range 3 {
		s.press("pgdown")
		s.show(w)
	}
	at(3 * s.m.bodyRows())
	for range 300 {
		s.press("j")
	}
	at(3*s.m.bodyRows() + 300)
	s.press("pgup")
	at(2*s.m.bodyRows() + 300)
}

func TestNextAttention(t *testing.T) {
	w := sickWindow()
	s := newScreen(t, w, About{}, 80, 24)
	var went []string
	for range 4 {
		s.press("n")
		w.NextAttention, w.PrevAttention = neighbours(w.Rows, s.m.table.cursor)
		s.show(w)
		went = append(went, string(s.m.table.cursor))
	}
	if got := strings.Join(went, " "); got != "etl-nightly user:42:chat:research-eu-1f9c batch-job-9 batch-job-7" {
		t.Errorf("n went to %s", got)
	}
	s.press("N")
	if s.m.table.cursor != "batch-job-9" {
		t.Errorf("N went to %s", s.m.table.cursor)
	}
	q := newScreen(t, quietWindow(), About{}, 80, 24)
	q.press("n")
	if !strings.Contains(q.m.note.text, "nothing") {
		t.Errorf("n in a healthy fleet says %q", q.m.note.text)
	}
}

// A press that comes before the answer to the last one is not lost.
func TestNextAttentionBeforeTheAnswer(t *testing.T) {
	w := sickWindow()
	s := newScreen(t, w, About{}, 80, 24)
	s.press("n")
	w.NextAttention, _ = neighbours(w.Rows, s.m.table.cursor)
	s.press("n", "n")
	for range 3 {
		w.NextAttention, _ = neighbours(w.Rows, s.m.table.cursor)
		s.send(windowArrived{gen: s.m.gen, window: s.answer(w)})
	}
	if s.m.table.cursor != "batch-job-9" || s.m.table.pending != 0 {
		t.Errorf("three presses led to %s, %d still wait", s.m.table.cursor, s.m.table.pending)
	}
}

func neighbours(rows []watchdog.Row, id watchdog.ID) (next, previous watchdog.ID) {
	var sick []watchdog.ID
	for i := range rows {
		if rows[i].Attention < watchdog.AttentionUnknown {
			sick = append(sick, rows[i].ID)
		}
	}
	at := slices.Index(sick, id)
	return sick[(at+1)%len(sick)], sick[(at-1+len(sick))%len(sick)]
}

func TestFreeze(t *testing.T) {
	w := sickWindow()
	s := newScreen(t, w, About{}, 80, 24)
	s.press("Z")
	w.Rows = slices.Clone(w.Rows)
	slices.Reverse(w.Rows)
	w.Fleet.NeedYou = 77
	s.show(w)
	frame := ansi.Strip(s.m.frame())
	if !strings.Contains(frame, "FROZEN since 03:12:44Z") || !strings.Contains(frame, "77 NEED YOU") || !strings.Contains(frame, "crash-loop 1m40 etl-nightly") {
		t.Errorf("frozen shows\n%s", frame)
	}
	s.press("j", "j")
	if s.m.table.cursor != "user:42:chat:research-eu-1f9c" {
		t.Errorf("in frozen rows the cursor is on %s", s.m.table.cursor)
	}
	s.press("Z")
	s.now += 2 * time.Second
	s.show(w)
	if strings.Contains(ansi.Strip(s.m.frame()), "FROZEN") {
		t.Error("still frozen")
	}
}

func TestTwinsShowMoreTail(t *testing.T) {
	w := fleet(0)
	for _, id := range []string{
		"team.alpha.research.job-00000017-x", "team.alpha.research.job-00000018-x",
		"user:1:chat:aaaaaaaaaaaaaaaaaaaaaa", "user:1:chat:aaaaaaaaaaaaaaaaaaaaab",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaXbbbbbbbbbbbbbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaYbbbbbbbbbbbbbbbbbbbbbbbbbbb",
	} {
		w.Rows = append(w.Rows, row(watchdog.Running, watchdog.AttentionNone, id, sec, sec, sec, ""))
	}
	var n nameCuts
	got := n.of(w.Rows, 0, shortName)
	for i, name := range got {
		if cells(name) > shortName {
			t.Errorf("%q is wider than its column", name)
		}
		if i%2 == 1 && i < 4 && got[i-1] == name {
			t.Errorf("twins look the same: %q", name)
		}
	}
}

func TestEmptyTableSaysWhyAndHow(t *testing.T) {
	w := sickWindow()
	s := newScreen(t, w, About{}, 80, 24)
	s.press("/")
	s.press(strings.Split("nosuch", "")...)
	s.press("enter")
	s.show(w)
	frame := ansi.Strip(s.m.frame())
	if !strings.Contains(frame, "no session matches  nosuch") || !strings.Contains(frame, "esc clears the filter") {
		t.Errorf("an empty table shows\n%s", frame)
	}
}

// The columns that the configuration names are shown, as far as there is room,
// and no others; the menu goes on from there.
func TestColumnsByConfiguration(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24, func(o *Options) { o.Columns = []string{"host", "GEN"} })
	heading := func() string {
		return strings.Join(strings.Fields(strings.Split(ansi.Strip(s.m.frame()), "\n")[2]), " ")
	}
	if got := heading(); got != "VERDICT SESSION GEN HOST WHY / TASK" {
		t.Errorf("the heading is %q", got)
	}
	s.press("C", "g", "enter", "esc")
	if got := heading(); !strings.Contains(got, "FOR") {
		t.Errorf("the menu does not show FOR: %q", got)
	}
	if err := Columns([]string{"for", "HOST", "src"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"session", "x", ""} {
		if err := Columns([]string{name}); err == nil || !strings.Contains(err.Error(), "choose among for, gen, up") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestColumnsByWidth(t *testing.T) {
	for _, c := range []struct {
		width       int
		has, hasNot string
	}{
		{80, "FOR SESSION BEAT WORK WHY", "GEN"},
		{69, "FOR SESSION BEAT WHY", "WORK"},
		{59, "FOR SESSION WHY", "BEAT"},
		{54, "FOR SESSION WHY", "BEAT"},
		{40, "VERDICT FOR SESSION", "BEAT"},
		{39, "VERDICT SESSION", "FOR"},
		{120, "FOR SESSION GEN UP BEAT WORK CREDIT HOST WHY", "SRC"},
		{132, "FOR SESSION GEN UP BEAT WORK CREDIT HOST SRC WHY", "x"},
	} {
		s := newScreen(t, sickWindow(), About{}, c.width, 24)
		heading := strings.Split(ansi.Strip(s.m.frame()), "\n")[2]
		at := 0
		for _, name := range strings.Fields(c.has) {
			i := strings.Index(heading[at:], name)
			if i < 0 {
				t.Errorf("%d: %q lacks %s", c.width, heading, name)
				break
			}
			at += i
		}
		if strings.Contains(heading, c.hasNot) {
			t.Errorf("%d: %q has %s", c.width, heading, c.hasNot)
		}
	}
}

// Who named a command to run is told that it starts, and is not asked what to
// watch.
func TestWhatWasStartedIsAwaited(t *testing.T) {
	s := newScreen(t, emptyWindow(refusedLinks()...), About{Name: "local", Supervised: []watchdog.ID{"agent.py"}}, 80, 24)
	frame := ansi.Strip(s.m.frame())
	if !strings.Contains(frame, "started: agent.py") || strings.Contains(frame, "demo: simulated agents") {
		t.Errorf("before the first beat of what was started:\n%s", frame)
	}
	s.press("d")
	if s.m.top() == viewQuestion || s.m.opening.gen != 0 {
		t.Error("d opens the demo")
	}
}
