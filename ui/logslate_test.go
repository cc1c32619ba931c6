package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeOutput is what can be listened to.
type fakeOutput struct {
	lines []LogLine
	err   error
	asked []watchdog.ID
}

func (f *fakeOutput) Logs(_ context.Context, id watchdog.ID, from int64, most int) ([]LogLine, error) {
	f.asked = append(f.asked, id)
	var out []LogLine
	for _, l := range f.lines {
		if l.Seq >= from && len(out) < most {
			out = append(out, l)
		}
	}
	return out, f.err
}

// lateOutput is a session that was lost at 02:34:44Z and writes on.
func lateOutput() (*fakeOutput, watchdog.Window) {
	w := sickWindow()
	end := at.Add(-38 * time.Minute)
	w.Focus.Verdict = watchdog.Lost
	w.Focus.Terminal = &watchdog.TerminalView{Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper, Settled: end.UnixNano()}
	return &fakeOutput{lines: []LogLine{
		{Seq: 1, At: end.Add(-time.Minute), Generation: 2, Stream: "stdout", Text: "in time"},
		{Seq: 2, At: end.Add(time.Minute), Generation: 2, Stream: "stdout", Text: "too late"},
		{Seq: 3, At: end.Add(2 * time.Minute), Stream: "stderr", Text: "of nobody knows whom"},
		{Seq: 4, At: end.Add(3 * time.Minute), Generation: 3, Stream: "stdout", Text: "a new run"},
	}}, w
}

func TestOutputOfASessionThatOthersSupervise(t *testing.T) {
	f, w := lateOutput()
	s := newScreen(t, w, About{Name: "prod", Output: f}, 120, 40)
	s.press("l")
	if len(f.asked) == 0 || f.asked[0] != "indexer" {
		t.Fatalf("asked %v: %s", f.asked, s.m.note.text)
	}
	if text := ansi.Strip(s.m.frame()); !strings.Contains(text, "in time") || !strings.Contains(text, "a new run") {
		t.Errorf("its output is not shown:\n%s", text)
	}
	f.err = errors.New("no supervisor sends its output over NATS")
	s.send(s.m.readLogs()())
	if text := ansi.Strip(s.m.frame()); !strings.Contains(text, "cannot be read: no supervisor sends") {
		t.Errorf("trouble is not shown:\n%s", text)
	}
}

// What came after an involuntary end is apart, hidden by default, and never
// among what the session wrote in its life.
func TestLateOutputIsQuarantined(t *testing.T) {
	f, w := lateOutput()
	s := newScreen(t, w, About{Name: "prod", Output: f}, 120, 40)
	s.press("l")
	text := ansi.Strip(s.m.frame())
	if strings.Contains(text, "too late") || strings.Contains(text, "nobody knows") || !strings.Contains(text, "QUARANTINE: 2 lines after the end of #2 (lost 02:34:44Z), hidden") {
		t.Errorf("it is not hidden, or not counted:\n%s", text)
	}
	s.press("L")
	text = ansi.Strip(s.m.frame())
	if i := strings.Index(text, "QUARANTINE"); i < 0 || !strings.Contains(text[i:], "too late") || !strings.Contains(text[i:], "nobody knows") || strings.Contains(text[i:], "in time") {
		t.Errorf("it is not below its heading:\n%s", text)
	}
	s.press("L")
	if text := ansi.Strip(s.m.frame()); strings.Contains(text, "too late") {
		t.Errorf("it cannot be hidden again:\n%s", text)
	}
}

// An end that is learnt of afterwards changes what was taken for ordinary, and
// an honest end does not.
func TestLateOutputIsJudgedAgain(t *testing.T) {
	f, w := lateOutput()
	ended := w.Focus.Terminal
	w.Focus.Terminal = nil
	s := newScreen(t, w, About{Name: "prod", Output: f}, 120, 40)
	s.press("l")
	if text := ansi.Strip(s.m.frame()); !strings.Contains(text, "too late") {
		t.Errorf("without a known end it is no ordinary output:\n%s", text)
	}
	honest := *ended
	honest.Outcome = watchdog.OutcomeCompleted
	w.Focus.Terminal = &honest
	s.show(w)
	if text := ansi.Strip(s.m.frame()); strings.Contains(text, "QUARANTINE") {
		t.Errorf("what trails an honest end is quarantined:\n%s", text)
	}
	w.Focus.Terminal = ended
	s.show(w)
	if text := ansi.Strip(s.m.frame()); strings.Contains(text, "too late") || !strings.Contains(text, "QUARANTINE: 2 lines") {
		t.Errorf("it is not judged again:\n%s", text)
	}
}

func TestNoOutputSaysWhy(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod", NoOutput: "output: off, this view is READ-ONLY"}, 120, 40)
	s.press("l")
	if s.m.top() != viewSessions || s.m.note.text != "output: off, this view is READ-ONLY" {
		t.Errorf("l says %q", s.m.note.text)
	}
	s.press("5")
	if s.m.note.text != "output: off, this view is READ-ONLY" {
		t.Errorf("5 says %q", s.m.note.text)
	}
}
