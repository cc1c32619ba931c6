package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var phaseWords = map[watchdog.SupervisorPhase]string{
	watchdog.SupervisorRunning: "runs", watchdog.SupervisorRestarting: "is started again", watchdog.SupervisorCrashLoop: "CRASH-LOOP: held",
	watchdog.SupervisorStopping: "is stopping", watchdog.SupervisorHeld: "ended; nothing starts it again",
}

// childFact is what its supervisor knows of a session's process, on one line:
// "runs: pid 4711, 3 processes, cpu 12%, 84 MB, 2 restarts".
func (m *Model) childFact(d *watchdog.Detail) (fact, bool) {
	if d.Supervisor == watchdog.SupervisorNone {
		return fact{}, false
	}
	text := phaseWords[d.Supervisor]
	if p := d.Process; p != nil {
		if next := nextRestart(d); next != "" {
			text += " " + next
		}
		parts := processParts(d)
		if exit := exitText(p); exit != "" {
			parts = append(parts, "last end: "+exit)
		}
		if len(parts) > 0 {
			text += ": " + strings.Join(parts, ", ")
		}
		if p.LastLine != "" && (p.PID == 0 || !healthy(&d.Row)) {
			text += "; stderr: " + p.LastLine
		}
	}
	return fact{label: "child", text: text, means: phaseMeans(d.Supervisor)}, true
}

func phaseMeans(p watchdog.SupervisorPhase) meaning {
	switch p {
	case watchdog.SupervisorCrashLoop:
		return meansAct
	case watchdog.SupervisorRestarting, watchdog.SupervisorStopping:
		return meansWait
	}
	return meansNothing
}

// nextRestart is "in 12s" while a restart is planned.
func nextRestart(d *watchdog.Detail) string {
	if d.Process == nil || d.Supervisor != watchdog.SupervisorRestarting {
		return ""
	}
	if d.Process.NextRestart < time.Second {
		return "now"
	}
	return "in " + age(d.Process.NextRestart)
}

// processParts are what can be measured of a child.
func processParts(d *watchdog.Detail) []string {
	p := d.Process
	var parts []string
	if p.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", p.PID))
		if p.Processes > 1 {
			parts = append(parts, count(p.Processes)+" processes")
		}
		if !math.IsNaN(p.CPU) && !math.IsInf(p.CPU, 0) {
			parts = append(parts, fmt.Sprintf("cpu %.0f%%", p.CPU*100))
		}
		if p.RSS > 0 {
			parts = append(parts, size(p.RSS))
		}
	}
	switch {
	case p.Restarts == 1:
		parts = append(parts, "1 restart")
	case p.Restarts > 1:
		parts = append(parts, count(p.Restarts)+" restarts")
	}
	return parts
}

// exitText is how the last run ended; empty: none did.
func exitText(p *watchdog.Process) string {
	switch {
	case p.Signal != "":
		return "signal " + p.Signal
	case p.ExitCode >= 0:
		return fmt.Sprintf("exit code %d", p.ExitCode)
	}
	return ""
}

// size writes bytes: 812 B, 64 kB, 84 MB, 1.2 GB.
func size(n int64) string {
	const k = 1000
	switch {
	case n < k:
		return fmt.Sprintf("%d B", n)
	case n < k*k:
		return fmt.Sprintf("%d kB", n/k)
	case n < k*k*k:
		return fmt.Sprintf("%d MB", n/k/k)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/k/k/k)
}

// childFacts tell all that the supervisor knows; none if nobody supervises it
// here.
func (m *Model) childFacts(d *watchdog.Detail) []fact {
	if d.Supervisor == watchdog.SupervisorNone {
		return nil
	}
	phase := phaseWords[d.Supervisor]
	if next := nextRestart(d); next != "" {
		phase += " " + next
	}
	if d.SuperDetail != "" {
		phase += ": " + d.SuperDetail
	}
	out := []fact{{"supervisor", phase, phaseMeans(d.Supervisor)}}
	p := d.Process
	if p == nil {
		return out
	}
	if parts := processParts(d); len(parts) > 0 {
		out = append(out, fact{label: "child", text: strings.Join(parts, ", ")})
	}
	if exit := exitText(p); exit != "" {
		out = append(out, fact{label: "last end", text: exit})
	}
	if p.LastLine != "" {
		out = append(out, fact{label: "stderr", text: p.LastLine})
	}
	return out
}
