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

// fakeShift gives the same hand-over again and again.
type fakeShift struct {
	asked  []time.Duration
	result watchdog.Handover
	err    error
}

func (f *fakeShift) Handover(_ context.Context, since time.Duration) (watchdog.Handover, error) {
	f.asked = append(f.asked, since)
	h := f.result
	h.Since = h.Until.Add(-since)
	return h, f.err
}

// handedOver is that of the draft, and more kinds.
func handedOver() watchdog.Handover {
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	when := func(d time.Duration) *time.Time { t := at.Add(-d); return &t }
	return watchdog.Handover{
		Since: ago(8 * time.Hour), Until: at, Looks: ago(62 * mins), Known: ago(62 * mins), Sessions: 2002, Seeing: true,
		OpenTotal: 3, Acked: 1,
		Open: []watchdog.HandoverAlert{
			{Cause: "group", N: 400, Began: ago(116 * sec), Text: "400 silent together: all on hosts eu2-*.", Standing: "open", Held: true},
			{Cause: "stalled", ID: "batch-job-abc123", Generation: 3, N: 1, Began: ago(9 * mins), Text: "STALLED batch-job-abc123 #3: no work 15m, limit 5m; beats go on.", Standing: "ack", Author: "ops1", Note: "vendor called, 04:00Z"},
			{Cause: "human", ID: "approver-billing", Generation: 1, N: 1, Began: ago(6 * time.Hour), Text: "HUMAN approver-billing #1: 6h03 of 8h: approve refund.", Standing: "open"},
		},
		Alerts: 3, Groups: 1,
		Happened: []watchdog.HandoverIncident{
			{At: ago(3 * time.Hour), ID: "etl-nightly", Generation: 9, Verdict: "crash-loop", Text: "3 exits in 52s, code 1", Times: 3, Until: when(2 * time.Hour), Became: "running"},
			{At: ago(2 * time.Hour), ID: "gone", Generation: 1, Verdict: "lost", Text: "3 beats missed", Times: 1, Found: true},
			{At: ago(9 * mins), ID: "batch-job-abc123", Generation: 3, Verdict: "stalled", Text: "no work for 5m", Times: 1},
			{At: ago(116 * sec), Verdict: "silent", Text: "400 of 2,000 live went silent together", Times: 1},
		},
		Actions: []watchdog.HandoverAction{
			{At: ago(190 * mins), By: "ops1", Op: "restart", ID: "indexer", Generation: 1, Next: 2, Fate: "effective", Final: true, Secs: 4},
			{At: ago(60 * mins), By: "ops2", Op: "stop", ID: "worker-0217", Generation: 1, Fate: "ineffective", Final: true, Secs: 60, Detail: "it was taken, and the session still beats", Reason: "deploy"},
		},
		Quiet:  []watchdog.HandoverQuiet{{What: "etl-*", Kind: "mute", Until: when(-165 * mins), Author: "ops1", Note: "deploy"}},
		Blind:  []watchdog.HandoverBlind{{Source: "NATS", From: ago(62 * mins), Until: when(61*mins + 19*sec), Reason: "no answer"}},
		Doubts: []string{},
	}
}

func newHandoverScreen(t *testing.T, width, height int, opt ...func(*Options)) (*screen, *fakeShift) {
	t.Helper()
	f := &fakeShift{result: handedOver()}
	s := newScreen(t, sickWindow(), About{Name: "prod", Sweeper: "serve@eu1-01", Operator: "ops1", Shift: f}, width, height, opt...)
	s.press("H")
	return s, f
}

func TestHandover(t *testing.T) {
	var written []Export
	s, f := newHandoverScreen(t, 120, 40, func(o *Options) {
		o.Export = func(e Export) (string, error) { written = append(written, e); return "/tmp/" + e.Path, nil }
	})
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{
		"HANDOVER prod  19:12Z-03:12Z  ops1", "this process looks since 02:10Z; before that nothing is known here",
		"OPEN      3 alerts, 1 of them acknowledged", `batch-job-abc123 #3  since 03:03Z  ack ops1 "vendor called, 04:00Z"`,
		"approver-billing #1  since 21:12Z  nobody has answered", "400 silent together: all on hosts eu2-*  since 03:10Z  still HELD",
		"HAPPENED  3 alerts, 1 group", "3 times; 1h00, then running",
		"restart    00:02Z  indexer #1 > #2  by ops1: effective in 4s", `muted      etl-*  to 05:57Z  by ops1 "deploy"`, "NATS       02:10:44Z-02:11:25Z  41s: no answer",
	} {
		if !strings.Contains(frame, want) {
			t.Errorf("it does not show %q:\n%s", want, frame)
		}
	}
	s.press("/")
	s.typed("abc123")
	s.press("enter", "n")
	s.press("enter")
	if s.m.top() != viewWhy || s.m.table.cursor != "batch-job-abc123" {
		t.Errorf("enter leads to %v of %s", s.m.top(), s.m.table.cursor)
	}
	s.press("esc", "E", "enter")
	if len(written) != 1 || written[0].Handover == nil || written[0].Path != "handover-20261130T031244Z.txt" || len(written[0].Text) < 10 {
		t.Errorf("exported %+v; %s", written, s.m.note.text)
	}
	s.press("t", "backspace", "backspace")
	s.typed("90m")
	s.press("enter")
	if len(f.asked) != 2 || f.asked[0] != DefaultShift || f.asked[1] != 90*mins || !strings.Contains(ansi.Strip(s.m.frame()), "01:42Z-03:12Z") {
		t.Errorf("asked for %v:\n%s", f.asked, ansi.Strip(s.m.frame()))
	}
	if done := s.feed.commands; len(done) > 0 {
		t.Errorf("a hand-over did %v", done)
	}
}

func TestHandoverSaysWhatIsWrong(t *testing.T) {
	f := &fakeShift{err: errors.New("the serve is away")}
	s := newScreen(t, sickWindow(), About{Name: "prod", Shift: f}, 80, 24)
	s.press("H")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "the serve is away") {
		t.Errorf("\n%s", frame)
	}
	s.press("t")
	s.typed("x")
	s.press("enter")
	if s.m.prompt == nil || !strings.Contains(s.m.prompt.err, "is no time to look back") {
		t.Errorf("%+v", s.m.prompt)
	}
	none := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	none.press("H")
	if !strings.Contains(none.m.note.text, "nobody here keeps what happened") {
		t.Error(none.m.note.text)
	}
}

func TestParseShift(t *testing.T) {
	for text, want := range map[string]time.Duration{"8h": 8 * time.Hour, "90m": 90 * mins, " 2d ": 48 * time.Hour, "0": 0, "-1h": 0, "40d": 0, "soon": 0, "d": 0} {
		if got, err := ParseShift(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestHandoverText is the same as text, for a file or a terminal that is none.
func TestHandoverText(t *testing.T) {
	h := handedOver()
	golden(t, "handover-text", strings.Join(HandoverText(&h, "prod", "ops1"), "\n")+"\n")
	h = watchdog.Handover{Since: at.Add(-time.Hour), Until: at, Known: at.Add(-2 * time.Hour)}
	golden(t, "handover-text-none", strings.Join(HandoverText(&h, "", ""), "\n")+"\n")
}

// TestExportAlerts writes the queue as it stands.
func TestExportAlerts(t *testing.T) {
	var written []Export
	w := alertsWindow()
	s := newScreen(t, w, About{Name: "prod", Sweeper: "serve@eu1-01"}, 80, 24, func(o *Options) {
		o.Export = func(e Export) (string, error) { written = append(written, e); return e.Path, nil }
	})
	s.press("2")
	w.AskSeq = s.feed.last().Seq
	s.show(w)
	s.press("E", "enter")
	if len(written) != 1 || written[0].Path != "alerts-20261130T031244Z.json" || len(written[0].Alerts) != 11 || !strings.Contains(s.m.note.text, "11 alerts written") {
		t.Fatalf("%+v; %s", written, s.m.note.text)
	}
	if got := strings.Join(written[0].Cells(8), "|"); got != "2026-11-30T03:03:44.000Z|batch-job-abc123|3|1|stalled|ack|ops1@eu1-01|vendor called, they look at it until 04:00Z||STALLED batch-job-abc123 #3: no work 15m, limit 5m; beats go on." {
		t.Error(got)
	}
}
