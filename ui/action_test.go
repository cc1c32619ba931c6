package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (s *screen) frame() string { return ansi.Strip(s.m.frame()) }

func (s *screen) wants(text ...string) {
	s.t.Helper()
	frame := strings.Join(strings.Fields(s.frame()), " ")
	for _, want := range text {
		if !strings.Contains(frame, want) {
			s.t.Errorf("no %q in\n%s", want, s.frame())
		}
	}
}

// ops lists what was asked for: "stop indexer #2".
func (s *screen) ops() []string {
	var out []string
	for _, c := range s.feed.commands {
		out = append(out, fmt.Sprintf("%s %s #%d", c.Op, c.Session, c.Generation))
	}
	return out
}

func (s *screen) asksFor(want ...string) {
	s.t.Helper()
	if got := s.ops(); !slices.Equal(got, want) {
		s.t.Errorf("asked for %q, not %q; the screen says %q", got, want, s.m.note.text)
	}
}

func TestEachActionAsksAndOnlyYDoesIt(t *testing.T) {
	for key, op := range map[string]string{"R": "restart", "X": "expire", "S": "stop"} {
		for _, no := range []string{"n", "enter", "esc", "q", "ctrl+c", "alt+y", "Y", "j", "space", "r esc ... n"} {
			s := questionScreen(t, hungWindow(), "j k ... "+key+" ... "+no, 80, 24)
			s.asksFor()
		}
		s := questionScreen(t, hungWindow(), "j k ... "+key, 80, 24)
		s.wants(strings.ToUpper(op)+" indexer #2 ?", "If #2 is no longer current, nothing happens. Audited as ops1.")
		s.press("y") // too soon
		s.asksFor()
		s.do("... y")
		s.asksFor(op + " indexer #2")
		c := s.feed.commands[0]
		if c.BootID != "k3x9" || c.IssuedBy != "ops1" || c.ID == "" {
			t.Errorf("the command is %+v", c)
		}
		if s.m.top() != viewSessions {
			t.Error("the question stays")
		}
	}
}

func TestReasonGoesWithTheCommand(t *testing.T) {
	s := questionScreen(t, hungWindow(), "j k ... S ... r (hangs_on_a_lock) enter", 80, 24)
	s.wants("reason hangs on a lock")
	s.press("y") // the enter before it is not long ago
	s.asksFor()
	s.do("... y")
	if s.asksFor("stop indexer #2"); s.feed.commands[0].Reason != "hangs on a lock" {
		t.Errorf("the reason is %q", s.feed.commands[0].Reason)
	}
	s = questionScreen(t, hungWindow(), "j k ...", 80, 24)
	s.palette("expire node is gone")
	s.wants("EXPIRE indexer #2 ?", "reason node is gone")
}

// A kill takes two things that nobody does by accident: its own key, and its
// word by hand.
//
// fault 45
func TestKillIsTypedByHand(t *testing.T) {
	s := questionScreen(t, hungWindow(), "j k ... S ... K", 80, 24)
	s.wants("KILL indexer #2 ?", "no grace: it cannot save anything", "KILL at once", "Type kill :")
	s.do("(kill) enter") // no quiet before it
	s.asksFor()
	s.wants("keys are settling")
	s.do("... (kil) enter")
	s.asksFor()
	s.wants("that is not kill")
	s.send(tea.PasteMsg{Content: "kill"})
	s.press("enter")
	s.asksFor()
	s.do("... (kill) enter")
	s.asksFor("kill indexer #2")

	s = questionScreen(t, hungWindow(), "j k ... S ... K ...", 80, 24)
	for _, k := range []string{"k", "i", "l", "l", "enter"} { // a paste that comes as keys
		s.now += time.Millisecond
		s.send(key(k))
	}
	s.asksFor()
	s.do("... esc")
	if s.m.top() != viewSessions || s.m.prompt != nil {
		t.Error("esc does not cancel it")
	}
	for _, k := range []string{"R", "X"} {
		s = questionScreen(t, hungWindow(), "j k ... "+k+" ... K ... y", 80, 24)
		if len(s.feed.commands) != 1 || s.feed.commands[0].Op == watchdog.OpKill {
			t.Errorf("%s turned into %v", k, s.ops())
		}
	}
}

func TestDumpAsksOnlyIfItPausesOrIsForMore(t *testing.T) {
	s := questionScreen(t, hungWindow(), "j k ... T", 80, 24)
	s.asksFor("dump indexer #2")
	s = questionScreen(t, pausingWindow(), "j k ... T", 80, 24)
	s.asksFor()
	s.wants("DUMP indexer #2 ?", "it may stop for a moment")
	s = questionScreen(t, hungWindow(), "j k space j space ... T", 80, 24)
	s.asksFor()
	s.wants("DUMP 2 sessions ?")
	s.do("... y")
	s.asksFor("dump indexer #2", "dump etl-nightly #9")
}

// fault 44: what moved on while somebody read the question is not touched.
func TestQuestionIsBoundToItsExecution(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*watchdog.Window)
		want   string
	}{
		"a new generation":  {func(w *watchdog.Window) { w.Rows[0].Generation, w.Focus.Generation = 3, 3 }, "#3 is current now"},
		"a new boot":        {func(w *watchdog.Window) { w.Focus.BootID = "other" }, "another run of it is current now"},
		"a new first sight": {func(w *watchdog.Window) { w.Focus.Watched -= time.Minute }, "another run of it is current now"},
		"gone":              {func(w *watchdog.Window) { w.Rows = w.Rows[1:]; w.Focus = nil }, "it is not known any more"},
	} {
		s := questionScreen(t, hungWindow(), "j k ... S", 80, 24)
		w := hungWindow()
		c.change(&w)
		s.show(w)
		s.wants(c.want)
		s.do("... y")
		if s.asksFor(); !strings.Contains(s.m.note.text, c.want) || s.m.top() != viewSessions {
			t.Errorf("%s: the screen says %q", name, s.m.note.text)
		}
	}
	s := questionScreen(t, hungWindow(), "j k ... S", 80, 24) // its number was learned meanwhile: it is the same
	w := hungWindow()
	w.Rows[0].Verdict, w.Focus.Verdict, w.Focus.Why, w.Focus.For = watchdog.Running, watchdog.Running, "", sec
	w.Focus.Attention = watchdog.AttentionNone
	s.show(w)
	s.wants("running 5s")
	s.do("... y")
	s.asksFor("stop indexer #2")
}

func TestRefusalsComeBeforeAnyQuestion(t *testing.T) {
	cases := map[string]struct {
		about About
		can   func(watchdog.ID) watchdog.Can
		ended bool
		want  string
	}{
		"read-only":    {About{Name: "prod", ReadOnly: true}, nil, false, "prod is READ-ONLY"},
		"a recording":  {About{Name: "night", Replay: &fakeReplay{}}, nil, false, "this is a recording"},
		"nobody there": {ops1(), func(watchdog.ID) watchdog.Can { return canNothing("nobody supervises it") }, false, "indexer: nobody supervises it"},
		"ended":        {ops1(), nil, true, "the feed has closed"},
	}
	for name, c := range cases {
		for _, k := range []string{"R", "X", "S", "T"} {
			s := newScreen(t, hungWindow(), c.about, 80, 24)
			s.can = c.can
			s.show(hungWindow())
			if c.ended {
				s.send(windowArrived{gen: s.m.gen, about: c.about, closed: true})
			}
			s.do("j k ... " + k)
			if s.m.top() == viewQuestion || !strings.Contains(s.m.note.text, c.want) || len(s.feed.commands) > 0 {
				t.Errorf("%s: %s says %q", name, k, s.m.note.text)
			}
		}
	}
}

func TestFateIsSeenUntilItWasRead(t *testing.T) {
	s := questionScreen(t, hungWindow(), "j k ... S ... y", 80, 24)
	s.wants("STOP indexer #2 requested")
	w := hungWindow()
	a := watchdog.Action{Command: s.feed.commands[0], Fate: watchdog.FateAcknowledged, Age: 4 * sec, Since: 3 * sec}
	w.Actions = []watchdog.Action{a}
	s.show(w)
	s.wants("STOP indexer #2 acknowledged 4s", "act stop #2 acknowledged 4s")
	s.do("... esc") // it is under way: nothing to put away
	s.wants("STOP indexer #2 acknowledged 4s")
	a.Fate, a.Detail, a.Next, a.Age, a.Since = watchdog.FateIneffective, "it still beats", "expire", 70*sec, sec
	w.Actions[0] = a
	s.show(w)
	s.wants("STOP indexer #2 ineffective in 1m09; next: X expire", "act stop #2 ineffective in 1m09. Next: X expire: it still beats")
	a.Age, a.Since = time.Hour, 58*mins+50*sec
	w.Actions[0] = a
	s.show(w)
	s.wants("STOP indexer #2 ineffective in 1m10") // it waits to be read
	s.press("4")
	s.wants("COMMANDS", "ineffective", "next X expire", "it still beats")
	s.show(w)
	s.press("esc")
	if frame := s.frame(); strings.Contains(frame, "STOP indexer") || strings.Contains(frame, "failed action") {
		t.Errorf("it was read, and still stands there:\n%s", frame)
	}

	s = questionScreen(t, hungWindow(), "j k ... S ... y", 80, 24)
	w = hungWindow()
	w.Actions = []watchdog.Action{{Command: s.feed.commands[0], Fate: watchdog.FateEffective, Age: 4 * sec}}
	s.show(w)
	s.wants("STOP indexer #2 effective in 4s")
	s.press("esc")
	if frame := s.frame(); strings.Contains(frame, "STOP indexer") {
		t.Errorf("esc does not put it away:\n%s", frame)
	}
}

func TestWhatIsNotAskedForIsSaid(t *testing.T) {
	s := questionScreen(t, hungWindow(), "j k ...", 80, 24)
	s.feed.do = func(watchdog.Command) (watchdog.Action, error) {
		return watchdog.Action{}, errors.New("the serve does not answer")
	}
	s.press("S")
	s.do("... y") // nobody has told yet who is current
	s.asksFor()
	s.wants("[wait: asking what is current]")
	s.show(hungWindow())
	s.do("... y")
	s.wants("STOP indexer #2 not asked", "the serve does not answer")
	s.do("4 ... esc 4")
	s.wants("not asked stop indexer #2", "the serve does not answer") // nobody else knows of it
}

func TestAnAnswerThatDoesNotComeIsNotTakenForNo(t *testing.T) {
	s := questionScreen(t, hungWindow(), "j k ...", 80, 24)
	s.feed.do = func(watchdog.Command) (watchdog.Action, error) {
		return watchdog.Action{}, fmt.Errorf("asking the serve: %w", context.DeadlineExceeded)
	}
	s.press("S")
	s.show(hungWindow())
	s.do("... y")
	s.wants("STOP indexer #2 no answer", "whether it was asked for is not known")
	w := hungWindow()
	w.Actions = []watchdog.Action{{Command: s.feed.commands[0], Fate: watchdog.FateAcknowledged, Age: 20 * sec}}
	s.show(w) // it was
	s.wants("STOP indexer #2 acknowledged 20s")
}

func TestAllIsNotWellWhileAnActionFailed(t *testing.T) {
	w := quietWindow()
	w.Focus.Can = canAll()
	s := questionScreen(t, w, "j k ... S ... y", 80, 24)
	s.wants("ALL WELL")
	w.Actions = []watchdog.Action{{Command: s.feed.commands[0], Fate: watchdog.FateUndeliverable}}
	s.show(w)
	s.wants("1 failed action 2,000 live")
	s.do("... esc")
	s.wants("ALL WELL")
}

func TestNextLeadsToFailedActions(t *testing.T) {
	w := hungWindow()
	w.Matched = len(w.Rows)
	s := questionScreen(t, w, "G k k ... S ... y ... j", 200, 60)
	where := s.feed.commands[0].Session
	if where == w.Rows[0].ID {
		t.Fatal("G stays at the top")
	}
	w.Actions = []watchdog.Action{{Command: s.feed.commands[0], Fate: watchdog.FateTimedOut}}
	w.NextAttention, w.PrevAttention = w.Rows[0].ID, w.Rows[9].ID
	s.show(w)
	s.press("n")
	if s.m.table.cursor != where {
		t.Errorf("n leads to %s, not to %s", s.m.table.cursor, where)
	}
	s.show(w)
	s.press("n")
	if s.m.table.cursor != w.Rows[0].ID {
		t.Errorf("n leads on to %s", s.m.table.cursor)
	}
	s.show(w)
	s.press("4", "esc", "G")
	s.show(w)
	s.press("n")
	if s.m.table.cursor == where {
		t.Error("n leads to an action that was looked at")
	}
}

// The cursor may go to another session by itself: who pressed a key just then
// meant the one before.
func TestACursorThatMovedByItselfIsNotMeant(t *testing.T) {
	s := questionScreen(t, hungWindow(), "", 80, 24)
	w := hungWindow()
	w.Rows = w.Rows[1:]
	s.show(w)
	s.press("S")
	if s.m.top() == viewQuestion || !strings.Contains(s.m.note.text, "went to etl-nightly by itself") {
		t.Errorf("it asks; the screen says %q", s.m.note.text)
	}
	s.do("... S")
	s.wants("STOP etl-nightly #9 ?")
}

// Who moved it on from there has moved it from where nobody had put it, and is told
// so.
func TestACursorMovedOnFromWhereItWentByItselfIsNotMeant(t *testing.T) {
	s := questionScreen(t, hungWindow(), "", 80, 24)
	w := hungWindow()
	w.Rows = w.Rows[1:]
	s.show(w)
	s.press("j")
	to := string(s.m.table.cursor)
	w.Focus = detailOf(w.Rows[1])
	w.Focus.Can = canAll()
	s.show(w)
	s.press("S")
	if s.m.top() == viewQuestion || to == "etl-nightly" || !strings.Contains(s.m.note.text, "went to etl-nightly by itself just now, before it was moved to "+to) {
		t.Errorf("on %s; the screen says %q", to, s.m.note.text)
	}
}

func TestCommandsViewLeadsToTheSession(t *testing.T) {
	s := questionScreen(t, orderedWindow(), "4 j j enter", 80, 24)
	if s.m.top() != viewWhy || s.m.table.cursor != "user:42:chat:research-eu-1f9c" {
		t.Errorf("enter leads to %v %s", s.m.top(), s.m.table.cursor)
	}
	s = questionScreen(t, orderedWindow(), "4 j j", 120, 40)
	w := orderedWindow()
	w.Actions = append([]watchdog.Action{command(watchdog.OpDump, "x", 1, sec, sec, watchdog.FateRequested, "")}, w.Actions...)
	s.show(w)
	if at := s.m.pagers[viewCommands].cur; s.m.commands.list[at].action.Session != "user:42:chat:research-eu-1f9c" {
		t.Error("the cursor slipped to another action")
	}
}

// Whatever held the process up between two keys - a suspend, a swap, a terminal that
// takes nothing -, the time of it is no quiet: what was typed meanwhile answers
// no question. Once the loop goes on and it was quiet, a key does.
//
// fault 45
func TestWhatIsTypedWhileTheLoopIsHeldUpAnswersNothing(t *testing.T) {
	for _, before := range []string{"S", "R", "X", "S ... r esc", "S ... r (why) enter", "S ... j"} {
		for seen := range quietLooks { // looks before it is held up, and one that was under way
			s := questionScreen(t, hungWindow(), "j k ... "+before, 80, 24)
			s.held = true
			for range seen {
				s.now += lookEvery
				s.m.Update(quietLooked{s.m.question.looking})
			}
			s.now += 5 * time.Second
			s.send(key("y"))
			if len(s.ops()) > 0 {
				t.Errorf("after %s and %d looks a key typed ahead asked for %q", before, seen, s.ops())
			}
			s.m.Update(quietLooked{s.m.quietLook + 1}) // of another question
			s.held = false
			s.do("... y")
			if len(s.ops()) != 1 {
				t.Errorf("after %s: y after quiet asked for %q", before, s.ops())
			}
		}
	}
}
