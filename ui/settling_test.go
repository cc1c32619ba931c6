package ui

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func goodLedger() watchdog.LedgerView {
	return watchdog.LedgerView{
		Known: true, Ready: true, Authority: watchdog.Authority{Name: watchdog.AuthorityJetStream, Identity: "k3x9"},
		Sweeping: true, LastPass: 12 * sec, Settled: 41, Late: 4,
	}
}

// endedWindow has a settled session under its cursor, whose late beats are kept
// apart, and one whose end somebody else wrote.
func endedWindow() watchdog.Window {
	w := quietWindow()
	w.Ledger = goodLedger()
	lost := row(watchdog.Lost, watchdog.AttentionBadEnd, "batch-job-9", 38*mins, 39*mins, 39*mins, "3 beats missed; settled by sweeper")
	foreign := row(watchdog.Disputed, watchdog.AttentionSuspect, "crawler-0031", 185*sec, 8*sec, 9*sec, "foreign terminal record")
	stopped := row(watchdog.Stopped, watchdog.AttentionNone, "etl-1", 5*mins, 5*mins, 5*mins, "code 0 after SIGTERM; settled by supervisor")
	expired := row(watchdog.Expired, watchdog.AttentionNone, "old-7", 8*mins, time.Hour, time.Hour, "operator; settled by operator")
	w.Rows = append([]watchdog.Row{lost, foreign, stopped, expired}, w.Rows[:296]...)
	w.Fleet.NeedYou, w.Fleet.ByVerdict[watchdog.Lost], w.Fleet.ByVerdict[watchdog.Disputed] = 2, 1, 1
	w.Focus = detailOf(lost)
	w.Focus.LateBeats = 4
	w.Focus.Terminal = &watchdog.TerminalView{Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper, Writer: "serve@eu1-01/812",
		Reason: "3 beats missed", Settled: at.Add(-38 * mins).UnixNano()}
	w.Focus.Evidence = watchdog.Evidence{Rule: "terminal record", Text: "3 beats missed; settled by sweeper", Sight: evidence().Sight}
	return w
}

// supervisedWindow has a child under its cursor that is held after a crash loop.
func supervisedWindow() watchdog.Window {
	w := sickWindow()
	w.Ledger = goodLedger()
	rows := append([]watchdog.Row{w.Rows[1]}, w.Rows[0])
	w.Rows = append(rows, w.Rows[2:]...)
	r := &w.Rows[0]
	r.Credits, r.Sources, r.Seeing = math.NaN(), watchdog.SourceLocal.Set(), watchdog.SourceLocal.Set()
	w.Focus = detailOf(*r)
	w.Focus.Supervisor, w.Focus.SuperDetail = watchdog.SupervisorCrashLoop, "3 exits in 52s, code 1; it is started by a person only"
	w.Focus.Process = &watchdog.Process{Restarts: 3, ExitCode: 1, CPU: math.NaN(), LastLine: "ConnectionError: db.lan:5432 refused"}
	w.Focus.Can = watchdog.Can{May: watchdog.OpSetOf(watchdog.OpRestart)}
	w.Focus.Can.Deny("nothing runs", watchdog.OpStop, watchdog.OpKill, watchdog.OpExpire, watchdog.OpDump)
	return w
}

func runningChild() watchdog.Window {
	w := quietWindow()
	w.Ledger = goodLedger()
	w.Focus.Supervisor = watchdog.SupervisorRunning
	w.Focus.Process = &watchdog.Process{PID: 4711, Restarts: 2, ExitCode: -1, Signal: "SIGKILL", CPU: 0.125, RSS: 84_300_000, Processes: 3, LastLine: "warning: slow"}
	return w
}

func restartingChild() watchdog.Window {
	w := runningChild()
	r := &w.Rows[0]
	r.Verdict, r.Why, r.Task, r.For = watchdog.Restarting, "code 1; next start in 12s", "", 3*sec
	w.Focus.Row = *r
	w.Focus.Supervisor, w.Focus.SuperDetail = watchdog.SupervisorRestarting, "code 1; 2 of 3 restarts left in 60s"
	w.Focus.Process = &watchdog.Process{Restarts: 1, ExitCode: 1, NextRestart: 12 * sec, CPU: math.NaN(), LastLine: "ValueError: no such table"}
	return w
}

func ledgerAway() watchdog.Window {
	w := massWindow()
	w.Ledger = watchdog.LedgerView{Known: true, Authority: watchdog.Authority{Name: watchdog.AuthorityJetStream}, Sweeping: true,
		Reason: "the authority is jetstream k3x9, and NATS does not answer; it would need NATS with JetStream", LastPass: 250 * sec, Overdue: true, PassWhy: "no answer within 2 s", Waiting: 3}
	return w
}

func neverNamed() watchdog.LedgerView {
	return watchdog.LedgerView{Known: true, Unnamed: true, Reason: "nothing was ever settled on these buses: no authority is named yet", LastPass: -1}
}

// Where nothing was ever settled nothing is away, and no view says so.
func TestALedgerThatNobodyNeededIsNotAway(t *testing.T) {
	w := massWindow()
	w.Ledger = neverNamed()
	s := newScreen(t, w, About{Name: "prod"}, 120, 40)
	frames := ansi.Strip(s.m.frame())
	s.press("i")
	frames += ansi.Strip(s.m.frame())
	s.press("esc", ":")
	s.typed("sources")
	s.press("enter")
	frames += ansi.Strip(s.m.frame())
	if strings.Contains(strings.ToLower(frames), "away") || !strings.Contains(frames, "nobody sweeps here") {
		t.Errorf("a ledger is said to be away, or not that nobody sweeps:\n%s", frames)
	}
}

func TestHeaderSaysWhoSettles(t *testing.T) {
	about := About{Name: "prod", Sweeper: "serve@eu1-01/812"}
	late := quietWindow()
	late.Ledger = goodLedger()
	late.Ledger.PassWhy = "panic: no"
	opening := quietWindow()
	opening.Ledger = watchdog.LedgerView{Known: true, LastPass: -1, Sweeping: true}
	watching := quietWindow()
	watching.Ledger = goodLedger()
	watching.Ledger.Sweeping = false
	unnamed := quietWindow()
	unnamed.Ledger = neverNamed()
	good := quietWindow()
	good.Ledger = goodLedger()
	for name, c := range map[string]struct {
		window watchdog.Window
		about  About
		want   []string
	}{
		"good":       {good, about, []string{"ledger jetstream", "sweep 15s by serve@eu1-01/812"}},
		"failed":     {late, about, []string{"sweep 15s, the last one failed"}},
		"opening":    {opening, about, []string{"ledger opening", "sweep not yet"}},
		"away":       {ledgerAway(), about, []string{"HELD 400", "LEDGER AWAY: settling waits", "sweep 4m10 OVERDUE"}},
		"unnamed":    {unnamed, About{Name: "prod"}, []string{"no ledger yet", "nobody here sweeps"}},
		"only looks": {quietWindow(), About{Name: "prod"}, []string{"nobody here settles"}},
		"own alone":  {watching, about, []string{"nobody here sweeps"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, c.window, c.about, 200, 60)
			line := strings.Split(ansi.Strip(s.m.frame()), "\n")[1]
			for _, want := range c.want {
				if !strings.Contains(line, want) {
					t.Errorf("%q lacks %q", line, want)
				}
			}
		})
	}
	s := newScreen(t, ledgerAway(), about, 80, 24)
	for _, want := range []string{"HELD 400", "LEDGER AWAY", "OVERDUE"} {
		if line := strings.Split(ansi.Strip(s.m.frame()), "\n")[1]; !strings.Contains(line, want) {
			t.Errorf("80 cells: %q lacks %q", line, want)
		}
	}
	s.press("i")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "it would need NATS with JetStream") {
		s.press("G")
		if frame += ansi.Strip(s.m.frame()); !strings.Contains(frame, "would need NATS") {
			t.Errorf("why does not say what the ledger needs:\n%s", frame)
		}
	}
}

// A good sweep that only grows older repaints nothing within a step.
func TestSweepMovesInSteps(t *testing.T) {
	w := quietWindow()
	w.Ledger = goodLedger()
	s := newScreen(t, w, About{Name: "prod", Sweeper: "x"}, 120, 40)
	before := strings.Split(s.m.frame(), "\n")[1]
	w.Ledger.LastPass += 2 * sec
	s.show(w)
	if after := strings.Split(s.m.frame(), "\n")[1]; after != before {
		t.Errorf("%q became %q", before, after)
	}
}

func TestEndsSayWhoSettled(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
		s := newScreen(t, endedWindow(), About{Name: "prod"}, size[0], size[1])
		frame := ansi.Strip(s.m.frame())
		for _, want := range []string{"4 late beats in quarantine", "settled lost 02:34:44Z by sweeper"} {
			if !strings.Contains(strings.Join(strings.Fields(frame), " "), want) {
				t.Errorf("%v: no %q in\n%s", size, want, frame)
			}
		}
	}
	w := endedWindow()
	w.Focus.Terminal = &watchdog.TerminalView{Foreign: true, Writer: "evil@x"}
	w.Focus.LateBeats = 0
	s := newScreen(t, w, About{Name: "prod"}, 120, 40)
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "a foreign terminal record stands") {
		t.Errorf("a foreign record is not told:\n%s", frame)
	}
}

func TestSupervisedSessions(t *testing.T) {
	for name, c := range map[string]struct {
		window watchdog.Window
		want   []string
	}{
		"crash-loop": {supervisedWindow(), []string{"CRASH-LOOP: held", "3 restarts", "exit code 1", "ConnectionError"}},
		"runs":       {runningChild(), []string{"pid 4711", "3 processes", "cpu 12%", "84 MB", "2 restarts", "signal SIGKILL"}},
		"restarting": {restartingChild(), []string{"is started again in 12s", "exit code 1", "ValueError"}},
	} {
		for _, keys := range []string{"", "i"} {
			s := newScreen(t, c.window, About{Name: "local"}, 120, 40)
			s.press(strings.Fields(keys)...)
			for _, want := range c.want {
				if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, want) {
					t.Errorf("%s %s: no %q in\n%s", name, keys, want, frame)
				}
			}
		}
	}
}
