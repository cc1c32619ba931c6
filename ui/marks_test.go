package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// manyWindow has a fleet of n, all of it at hand.
func manyWindow(n int) watchdog.Window {
	w := quietWindow()
	w.Rows = nil
	for i := range n {
		w.Rows = append(w.Rows, runningRow(i+1))
	}
	w.Total, w.Matched, w.Focus = n, n, detailOf(w.Rows[0])
	w.Focus.Can = canAll()
	return w
}

func marked(s *screen) []string {
	var out []string
	for _, id := range s.m.marks.ids {
		out = append(out, strings.TrimPrefix(string(id), "batch-job-00"))
	}
	return out
}

func TestMarks(t *testing.T) {
	w := manyWindow(40)
	s := questionScreen(t, w, "j space j j j V", 80, 24)
	if got := marked(s); !slices.Equal(got, []string{"02", "03", "04", "05"}) {
		t.Errorf("marked %v", got)
	}
	s.wants("4 sessions marked", "●+running batch-job-0002")
	slices.Reverse(w.Rows) // they belong to sessions
	s.show(w)
	s.press("space")
	if got := marked(s); !slices.Equal(got, []string{"02", "03", "04"}) {
		t.Errorf("marked %v, and the cursor was on 05", got)
	}
	w.Rows = slices.DeleteFunc(w.Rows, func(r watchdog.Row) bool { return r.ID == "batch-job-0003" })
	w.Matched = len(w.Rows)
	s.show(w)
	if got := marked(s); !slices.Equal(got, []string{"02", "04"}) {
		t.Errorf("one is gone, and marked are %v", got)
	}
	s.press("esc")
	if got := marked(s); len(got) > 0 {
		t.Errorf("esc leaves %v", got)
	}
	s.do("space j space U")
	if got := marked(s); len(got) > 0 {
		t.Errorf("U leaves %v", got)
	}
	s.press("V")
	if !strings.Contains(s.m.note.text, "nothing is marked") {
		t.Errorf("V says %q", s.m.note.text)
	}
}

func TestMarkedGetACommandEach(t *testing.T) {
	s := questionScreen(t, manyWindow(40), "j space j space j space ... S", 80, 24)
	s.wants("STOP 3 sessions ?", "3 running", "batch-job-0002, batch-job-0003, batch-job-0004")
	s.feed.do = func(c watchdog.Command) (watchdog.Action, error) {
		switch c.Session {
		case "batch-job-0003":
			return watchdog.Action{}, errors.New("connection refused")
		case "batch-job-0004":
			return watchdog.Action{Command: c, Fate: watchdog.FateRefused, Detail: "it has ended"}, nil
		}
		return watchdog.Action{Command: c, Fate: watchdog.FateRequested}, nil
	}
	s.do("... y")
	s.asksFor("stop batch-job-0002 #1", "stop batch-job-0003 #1", "stop batch-job-0004 #1")
	s.wants("STOP 3: 1 requested, 1 not asked, 1 refused")
	s.press("4")
	s.wants("not asked stop batch-job-0003 #1", "refused stop batch-job-0004 #1", "requested stop batch-job-0002 #1")
}

// One after another: the next one is asked for when the source has the one before.
func TestMarkedAreAskedForOneByOne(t *testing.T) {
	s := questionScreen(t, manyWindow(40), "j space j space j space ... X", 80, 24)
	s.now += time.Second
	s.listen()
	_, cmd := s.m.Update(key("y"))
	_, cmd = s.m.Update(cmd()) // the burst is none
	_ = cmd
	s.asksFor()
	o := s.m.orders.list[0]
	if o.next != 1 || len(o.list) != 3 {
		t.Fatalf("%d of %d were sent at once", o.next, len(o.list))
	}
	s.send(actionTaken{gen: s.m.gen + 1, of: o, which: 0})
	if o.next != 1 {
		t.Error("the answer of another feed sends the next")
	}
	s.send(actionTaken{gen: s.m.gen, of: o, which: 0, action: o.list[0].action})
	s.asksFor("expire batch-job-0003 #1", "expire batch-job-0004 #1") // the first is still on its way, in this test
}

func TestHiddenMarksAreNamedAndLeftOut(t *testing.T) {
	s := questionScreen(t, manyWindow(40), "j space j space j space / (03) enter ... R", 80, 24)
	s.wants("RESTART batch-job-0003 #1 ?", "2 marked, hidden by the filter and left out: batch-job-0002, batch-job-0004")
	s.do("... y")
	s.asksFor("restart batch-job-0003 #1")
	s = questionScreen(t, manyWindow(40), "j space / (31) enter ... R", 80, 24)
	if s.m.top() == viewQuestion || !strings.Contains(s.m.note.text, "the filter hides all marked") {
		t.Errorf("the screen says %q", s.m.note.text)
	}
	s = questionScreen(t, manyWindow(40), "j space j j i ... R", 80, 24) // in why, the session that is shown is meant
	s.wants("RESTART batch-job-0004 #1 ?")
}

func TestManyWantTheirWordsTyped(t *testing.T) {
	for key, word := range map[string]string{"R": "restart", "X": "expire", "S": "stop", "T": "dump"} {
		s := questionScreen(t, manyWindow(40), "j space pgdown V ... "+key, 80, 24)
		n := len(s.m.marks.ids)
		if n <= 10 {
			t.Fatalf("only %d are marked", n)
		}
		words := fmt.Sprintf("%s %d", word, n)
		s.wants(fmt.Sprintf("%s %d sessions ?", strings.ToUpper(word), n), "y type "+words)
		s.do("... y")
		s.asksFor()
		s.wants("Type " + words)
		s.do("... y enter")
		s.asksFor()
		s.send(tea.PasteMsg{Content: words + "\n"})
		s.press("enter")
		s.asksFor()
		s.do("... (" + word + ") enter") // without the number
		s.asksFor()
		s.do("... (" + strings.ReplaceAll(words, " ", "_") + ") enter")
		if len(s.feed.commands) != n {
			t.Errorf("%s: %d were asked for, not %d: %s", key, len(s.feed.commands), n, s.m.note.text)
		}
	}
	s := questionScreen(t, manyWindow(40), "j space j j j j j j j j j V ... S", 80, 24) // ten are not many
	s.do("... y")
	if len(s.feed.commands) != 10 {
		t.Errorf("%d were asked for, not 10", len(s.feed.commands))
	}
}

func TestMovedOnesOfManyAreLeftOut(t *testing.T) {
	w := manyWindow(40)
	s := questionScreen(t, w, "j space j space j space ... S", 80, 24)
	w.Rows[2].Generation = 2
	s.show(w)
	s.wants("1 session left out: batch-job-0003 (#2 is current now, and is not touched)")
	s.do("... y")
	s.asksFor("stop batch-job-0002 #1", "stop batch-job-0004 #1")
}
