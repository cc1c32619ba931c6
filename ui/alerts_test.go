package ui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// withAlert puts an alert behind the session under the cursor.
func withAlert(w watchdog.Window, a watchdog.Alert) watchdog.Window {
	d := *w.Focus
	d.Alert = &a
	w.Focus = &d
	return w
}

func stalledIndexer() watchdog.Alert {
	return alertAt(watchdog.CauseStalled, "indexer", 2, 31*sec, "STALLED indexer #2: no work 5m31, limit 5m; beats go on.")
}

func (s *screen) notes() []watchdog.AlertNote {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.feed.notes
}

func TestAlertsAreAskedForWhileTheyAreShown(t *testing.T) {
	w := alertsWindow()
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	if a := s.feed.last(); a.Alerts != 0 {
		t.Errorf("the list asks for %d alerts", a.Alerts)
	}
	s.press("2")
	if a := s.feed.last(); a.Alerts < 100 {
		t.Fatalf("the view asks for %d alerts", a.Alerts)
	}
	s.show(w)
	s.press("esc")
	if a := s.feed.last(); a.Alerts != 0 || s.m.top() != viewSessions {
		t.Errorf("back in %d, asking for %d alerts", s.m.top(), a.Alerts)
	}
}

func TestTheCursorStaysOnItsAlert(t *testing.T) {
	w := alertsWindow()
	s := showAlerts(t, w, About{Name: "prod"}, "j j", 80, 24)
	if a := s.m.alertHere(); a == nil || a.ID != "gateway-eu1" {
		t.Fatalf("on %+v", a)
	}
	w.Alerts.List = append([]watchdog.Alert{stalledIndexer()}, w.Alerts.List...)
	s.show(w)
	if a := s.m.alertHere(); a == nil || a.ID != "gateway-eu1" {
		t.Errorf("another one came in above: on %+v", a)
	}
	top := showAlerts(t, alertsWindow(), About{Name: "prod"}, "", 80, 24)
	top.show(w)
	if a := top.m.alertHere(); a == nil || a.Cause != watchdog.CauseGroup {
		t.Errorf("at the top it is on %+v: the next key would answer another alert", a)
	}
}

func TestAcknowledgeFromTheListAndTheQueue(t *testing.T) {
	w := withAlert(sickWindow(), stalledIndexer())
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("a")
	if s.m.prompt == nil || !strings.Contains(s.frame(), "ACKNOWLEDGE STALLED indexer #2") {
		t.Fatalf("no question:\n%s", s.frame())
	}
	s.press("v", "e", "n", "d", "o", "r", "enter")
	got := s.notes()
	if len(got) != 1 || got[0].Key != "indexer#2/stalled" || got[0].Kind != watchdog.NoteAck || got[0].Text != "vendor" ||
		got[0].Evidence != stalledIndexer().Evidence || !got[0].At.Equal(at) {
		t.Fatalf("wrote %+v", got)
	}
	if !strings.Contains(s.m.note.text, "acknowledged: STALLED indexer #2") {
		t.Errorf("says %q", s.m.note.text)
	}

	s = showAlerts(t, alertsWindow(), About{Name: "prod"}, "a enter", 80, 24)
	if got = s.notes(); len(got) != 1 || got[0].Key != "group/1796008248" || got[0].Evidence != 400 {
		t.Errorf("wrote %+v", got)
	}
	if a := s.m.alertHere(); a == nil || a.ID != "etl-nightly" {
		t.Errorf("goes on to %+v", a)
	}
	s.press("j", "a", "esc")
	if len(s.notes()) != 1 {
		t.Error("esc acknowledges")
	}
	s.feed.err = &watchdog.KeptHere{Why: "the NATS server has no JetStream"}
	s.press("a", "enter")
	if s.m.note.bad || !strings.Contains(s.m.note.text, "acknowledged: ") || !strings.Contains(s.m.note.text, "kept on this machine alone: the NATS server has no JetStream") {
		t.Errorf("says %q", s.m.note.text)
	}
	s.feed.err = errors.New("NATS: nobody answers; try again")
	s.press("a", "enter")
	if !s.m.note.bad || !strings.Contains(s.m.note.text, "not written: NATS: nobody answers") {
		t.Errorf("says %q", s.m.note.text)
	}
}

func TestAnAnswerIsTakenBack(t *testing.T) {
	s := showAlerts(t, alertsWindow(), About{Name: "prod"}, "j j j j j j j j a", 80, 24)
	if !strings.Contains(s.m.prompt.hint, "now ack ops1") {
		t.Errorf("hint %q", s.m.prompt.hint)
	}
	s.press("-", "enter")
	if got := s.notes(); len(got) != 1 || got[0].Kind != watchdog.NoteClear || got[0].Key != "batch-job-abc123#3/stalled" {
		t.Errorf("wrote %+v", got)
	}
}

func TestSnoozeWantsAnEnd(t *testing.T) {
	s := showAlerts(t, alertsWindow(), About{Name: "prod"}, "j z enter", 80, 24)
	for _, wrong := range []string{"x", "0m", "-5m", "8d", "25:00"} {
		s.press(append(strings.Split(wrong, ""), "enter")...)
		if s.m.prompt == nil || s.m.prompt.err == "" || len(s.notes()) > 0 {
			t.Fatalf("%q was taken as an end", wrong)
		}
		s.press("ctrl+u")
	}
	s.press("1", "h", "space", "l", "u", "n", "c", "h", "enter")
	got := s.notes()
	if len(got) != 1 || got[0].Kind != watchdog.NoteSnooze || !got[0].Until.Equal(at.Add(time.Hour)) || got[0].Text != "lunch" {
		t.Errorf("wrote %+v", got)
	}
	s.press("z", "0", "2", ":", "0", "0", "enter") // it is 03:12: that is tomorrow
	if got = s.notes(); len(got) != 2 || !got[1].Until.Equal(time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)) {
		t.Errorf("wrote %+v", got[len(got)-1])
	}
}

func TestMuteWantsAnEndAndANote(t *testing.T) {
	w := withAlert(sickWindow(), stalledIndexer())
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("M")
	if got := s.m.prompt.in.String(); got != "indexer" {
		t.Errorf("offers %q", got)
	}
	s.press("ctrl+u", "[", "enter")
	if s.m.prompt == nil || s.m.prompt.err == "" {
		t.Fatal("a broken pattern was taken")
	}
	s.press("ctrl+u", "e", "t", "l", "-", "*", "enter", "enter")
	if s.m.prompt == nil || s.m.prompt.label != "until" || s.m.prompt.err == "" {
		t.Fatalf("a mute without an end was taken: %+v", s.m.prompt)
	}
	s.press("0", "6", ":", "0", "0", "Z", "enter", "enter")
	if s.m.prompt == nil || s.m.prompt.label != "why" || s.m.prompt.err == "" || len(s.notes()) > 0 {
		t.Fatalf("a mute without a note was taken: %+v", s.m.prompt)
	}
	s.press("d", "e", "p", "l", "o", "y", "enter")
	got := s.notes()
	if len(got) != 1 || got[0].Key != "match/etl-*" || got[0].Kind != watchdog.NoteMute || got[0].Text != "deploy" ||
		!got[0].Until.Equal(time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)) {
		t.Errorf("wrote %+v", got)
	}
	s.run(s.m.openMuteWith("batch-* 30m night run"))
	if got = s.notes(); len(got) != 2 || got[1].Key != "match/batch-*" || got[1].Text != "night run" {
		t.Errorf("in one line: wrote %+v", got)
	}
	s.run(s.m.openMuteWith("batch-*"))
	if s.m.prompt == nil || s.m.prompt.label != "until" {
		t.Error("a line without an end does not ask for one")
	}
	q := showAlerts(t, alertsWindow(), About{Name: "prod"}, "G M", 80, 24)
	q.press("-", "enter")
	if got = q.notes(); len(got) != 1 || got[0].Kind != watchdog.NoteClear || got[0].Key != "match/etl-h*" {
		t.Errorf("took back: %+v", got)
	}
}

func TestNothingIsAnsweredWhereNothingMayBeWritten(t *testing.T) {
	for name, about := range map[string]About{
		"prod is READ-ONLY":   {Name: "prod", ReadOnly: true},
		"this is a recording": {Name: "night", ReadOnly: true, Replay: &fakeReplay{}},
	} {
		s := newScreen(t, withAlert(sickWindow(), stalledIndexer()), about, 80, 24)
		for _, key := range []string{"a", "z", "M"} {
			s.press(key)
			if s.m.prompt != nil || !s.m.note.bad || !strings.Contains(s.m.note.text, name) {
				t.Errorf("%s: %s says %q", name, key, s.m.note.text)
			}
		}
		s.run(s.m.openMuteWith("etl-* 1h deploy"))
		if len(s.notes()) > 0 {
			t.Errorf("%s: wrote %+v", name, s.notes())
		}
	}
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	s.press("a")
	if s.m.prompt != nil || !strings.Contains(s.m.note.text, "indexer has no alert") {
		t.Errorf("without an alert: %q", s.m.note.text)
	}
}

func TestMembersAndHostsOfAGroup(t *testing.T) {
	s := showAlerts(t, alertsWindow(), About{Name: "prod"}, "B j", 80, 24)
	if f := s.frame(); !strings.Contains(f, "210    on eu2-07") {
		t.Fatalf("no hosts:\n%s", f)
	}
	s.press("enter")
	if s.m.top() != viewSessions || s.m.query.text != "verdict:silent host:eu2-07" {
		t.Errorf("a host leads to %d with the filter %q", s.m.top(), s.m.query.text)
	}
	s = showAlerts(t, alertsWindow(), About{Name: "prod"}, "enter j enter", 80, 24)
	if s.m.top() != viewWhy || s.m.table.cursor != "worker-0217" {
		t.Errorf("a member leads to %d of %s", s.m.top(), s.m.table.cursor)
	}
	s.press("esc")
	if l := s.m.alertLine(); s.m.top() != viewAlerts || l == nil || l.member != "worker-0217" {
		t.Errorf("back in %d on %+v", s.m.top(), l)
	}
	s = showAlerts(t, alertsWindow(), About{Name: "prod"}, "j enter", 80, 24)
	if s.m.top() != viewWhy || s.m.table.cursor != "etl-nightly" {
		t.Errorf("an alert leads to %d of %s", s.m.top(), s.m.table.cursor)
	}
}

func TestTheHeaderCountsWhatNobodyHasAnswered(t *testing.T) {
	w := sickWindow()
	w.Fleet.NeedYou, w.Fleet.Answered = 2, 7
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	if f := s.frame(); !strings.Contains(f, "2 NEED YOU +7 answered") || s.m.titleText() != "2! prod sessionwatch" {
		t.Errorf("title %q\n%s", s.m.titleText(), f)
	}
	w.Fleet.NeedYou, w.Fleet.Answered = 0, 9
	s.show(w)
	if f := s.frame(); !strings.Contains(f, "ALL ANSWERED") || strings.Contains(f, "ALL WELL") || strings.Contains(s.m.titleText(), "!") {
		t.Errorf("title %q\n%s", s.m.titleText(), f)
	}
	w.Fleet.Answered, w.Alerts.Beside, w.Alerts.Open = 0, 2, 2
	s.show(w)
	if f := s.frame(); !strings.Contains(f, "2 alerts  2,000 live") {
		t.Errorf("with alerts of no verdict:\n%s", f)
	}
}

// TestAlertsGiveRoomToWhatDiffers: the state has what its words need, and none where
// nobody has answered on a narrow screen.
func TestAlertsGiveRoomToWhatDiffers(t *testing.T) {
	open := alertsWindow()
	for i := range open.Alerts.List {
		open.Alerts.List[i].Standing, open.Alerts.List[i].Note = watchdog.AlertOpen, nil
	}
	for _, c := range []struct {
		width    int
		open     bool
		has, not string
	}{
		{80, false, "snoozed to 03:40Z", "z 03:40Z"}, {80, false, "muted to 06:12Z", "mute 06"}, {200, false, "refused   open", "~ open"},
		{40, false, "to 03:40Z", "snoozed"}, {40, true, "SINCE   ALERT", "STATE"}, {80, true, "code 1; stder~ open", "snoozed to"},
	} {
		w := alertsWindow()
		if c.open {
			w = open
		}
		s := newScreen(t, w, About{Name: "prod"}, c.width, 30)
		s.press("2")
		s.show(w)
		if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, c.has) || strings.Contains(frame, c.not) {
			t.Errorf("at %d, all open %v: it has no %q, or %q:\n%s", c.width, c.open, c.has, c.not, frame)
		}
	}
}
