package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ops1 may act on what is watched.
func ops1() About { return About{Name: "prod", Sweeper: "serve@eu1-01", Operator: "ops1"} }

func canAll() (c watchdog.Can) {
	c.Allow(watchdog.Ops()...)
	return c
}

// hungWindow has a stalled child of this supervisor under its cursor.
func hungWindow() watchdog.Window {
	w := sickWindow()
	d := w.Focus
	d.Supervisor = watchdog.SupervisorRunning
	d.Process = &watchdog.Process{PID: 4711, Restarts: 1, ExitCode: -1, CPU: 0.01, RSS: 84_300_000, Processes: 3, Outlook: &watchdog.Outlook{
		Members: []watchdog.Member{{PID: 4711, Name: "python3"}, {PID: 4802, Name: "git"}, {PID: 4803, Name: "rg"}},
		Grace:   10 * sec, Left: 2, Burst: 3, Window: mins, Dump: "SIGUSR1", DumpFirst: true,
	}}
	d.Can = canAll()
	return w
}

// remoteWindow has a silent agent of another machine under its cursor.
func remoteWindow() watchdog.Window {
	w := sickWindow()
	w.Rows[0], w.Rows[5] = w.Rows[5], w.Rows[0]
	w.Focus = detailOf(w.Rows[0])
	w.Focus.Evidence = watchdog.Evidence{Rule: "2 beats missed", Text: w.Rows[0].Why}
	w.Focus.Can = canAll()
	return w
}

// command is one that was asked for some time ago.
func command(op watchdog.Op, id watchdog.ID, g watchdog.Generation, ago, since time.Duration, f watchdog.Fate, detail string) watchdog.Action {
	return watchdog.Action{
		Command: watchdog.Command{ID: fmt.Sprintf("%s-%s-%s", op, id, ago), Op: op, Session: id, Generation: g, IssuedBy: "ops1", At: at.Add(-ago), Expires: at.Add(watchdog.CommandTTL - ago)},
		Fate:    f, Detail: detail, Age: ago, Since: since, Way: "nats", By: "run@eu1-02/4700",
	}
}

// orderedWindow has one of each fate.
func orderedWindow() watchdog.Window {
	w := hungWindow()
	ineffective := command(watchdog.OpStop, "user:42:chat:research-eu-1f9c", 3, 95*sec, 20*sec, watchdog.FateIneffective, "it was taken by run@eu1-02/4700, and the session still beats")
	ineffective.Next = "kill"
	away := command(watchdog.OpStop, "crawler-0031", 1, 12*mins, 2*mins, watchdog.FateUndeliverable, "no receiver took it within 10m, and the session still beats")
	away.Next, away.By, away.Reason = "expire", "", "deploy of 03:00Z"
	restarted := command(watchdog.OpRestart, "etl-nightly", 8, 20*mins, 20*mins-4*sec, watchdog.FateEffective, "#9 runs")
	restarted.IssuedBy, restarted.Way = "night-shift", "here"
	w.Actions = []watchdog.Action{
		command(watchdog.OpStop, "indexer", 2, 4*sec, sec, watchdog.FateAcknowledged, "TERM to 3 processes, KILL in 10s"),
		command(watchdog.OpDump, "batch-job-0001", 1, 31*sec, 30*sec, watchdog.FateDelivered, ""),
		ineffective, away, restarted,
		command(watchdog.OpExpire, "batch-job-9", 1, 38*mins, 38*mins-sec, watchdog.FateLostRace, "it ended otherwise first: lost by sweeper"),
		command(watchdog.OpKill, "old-7", 4, 2*time.Hour, 2*time.Hour-10*mins, watchdog.FateTimedOut, "no result came within 10m"),
		command(watchdog.OpRestart, "five-fields", 0, 3*time.Hour, 3*time.Hour, watchdog.FateRefused, "nobody supervises it: its publisher sends the five fields alone and takes no commands"),
		command(watchdog.OpStop, "team.a.job-1", 1, 26*time.Hour, 26*time.Hour, watchdog.FateRequested, ""),
	}
	return w
}

// do presses keys; "..." is time in which no key comes, and "(words)" are typed.
func (s *screen) do(keys string) {
	s.t.Helper()
	for _, k := range strings.Fields(keys) {
		switch {
		case k == "...":
			s.now += time.Second
		case strings.HasPrefix(k, "(") && len(k) > 2:
			for _, r := range strings.ReplaceAll(strings.Trim(k, "()"), "_", " ") {
				if r == ' ' {
					s.press("space")
					continue
				}
				s.press(string(r))
			}
		default:
			s.press(k)
		}
	}
}
