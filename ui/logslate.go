package ui

import (
	"context"
	"maps"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Output reads what sessions write that nobody behind the feed supervises. It
// may take long.
type Output interface {
	Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]LogLine, error)
}

// outputOf is who can tell what a session writes: the supervisor behind the
// feed, or what the feed can listen to; nil: nobody.
func (m *Model) outputOf(id watchdog.ID) Output {
	d := m.window.Focus
	ours := d != nil && d.ID == id && d.Supervisor != watchdog.SupervisorNone
	switch {
	case m.children != nil && (ours || m.about.Output == nil && m.about.NoOutput == ""):
		return m.children
	case m.about.Output != nil:
		return m.about.Output
	}
	return nil
}

// needsOutput: output is read from a supervisor here, or from one that is
// listened to.
func needsOutput(m *Model) string {
	switch {
	case m.about.Replay != nil, m.onlyDumps():
		return needsChildren(m)
	case m.outputOf(m.table.cursor) == nil && m.about.NoOutput != "":
		return m.about.NoOutput
	case m.outputOf(m.table.cursor) == nil:
		return needsChildren(m)
	}
	return needsSession(m)
}

// logsLate is what came after the involuntary end of the session's execution:
// kept apart, hidden by default, never shown as life.
type logsLate struct {
	shown bool
	list  []logItem
	cut   int64 // older ones that are no longer held
	ends  map[watchdog.Generation]logsEnd
}

// logsEnd is an involuntary end.
type logsEnd struct {
	outcome watchdog.Outcome
	at      int64 // wall clock of who settled it
}

// lateLinesMost bounds what is kept of late output.
const lateLinesMost = 1000

// fillLogs keeps the session of the view in focus: how it ended decides which
// lines are late.
func (m *Model) fillLogs(a *watchdog.Ask) {
	if slices.Contains(m.layers, viewLogs) && m.logs.id != "" {
		a.Focus = m.logs.id
	}
}

// takeLogs learns how the session ended, and judges anew what was taken for
// ordinary output before that was known.
func (m *Model) takeLogs(w *watchdog.Window) {
	l, d := &m.logs, w.Focus
	if d == nil || d.ID != l.id || d.Terminal == nil || d.Terminal.Foreign || d.Terminal.Settled == 0 || !slices.Contains(m.layers, viewLogs) {
		return
	}
	end := logsEnd{d.Terminal.Outcome, d.Terminal.Settled}
	switch end.outcome {
	case watchdog.OutcomeLost, watchdog.OutcomeStopped, watchdog.OutcomeExpired:
	default:
		return // what trails an honest end is ordinary
	}
	if l.late.ends[d.Generation] == end {
		return
	}
	if l.late.ends == nil {
		l.late.ends = map[watchdog.Generation]logsEnd{}
	}
	l.late.ends[d.Generation] = end
	kept := l.list[:0:0]
	unended := 0
	for i, it := range l.list {
		if it.mark == "" && !it.line.Partial && l.isLate(&it.line) {
			l.keepLate(it)
			l.bytes -= len(it.line.Text)
			continue
		}
		if i >= len(l.list)-l.unended {
			unended++
		}
		kept = append(kept, it)
	}
	l.list, l.unended = kept, unended
	l.version++
}

// isLate reports whether a line came after the involuntary end of its execution.
// One of an unknown execution is of any that has ended.
func (l *logsSeen) isLate(line *LogLine) bool {
	for g, end := range l.late.ends {
		if (line.Generation == g || line.Generation == 0) && line.At.UnixNano() > end.at {
			return true
		}
	}
	return false
}

func (l *logsSeen) keepLate(it logItem) {
	l.late.list = append(l.late.list, it)
	if over := len(l.late.list) - lateLinesMost; over > 0 {
		l.late.list = slices.Delete(l.late.list, 0, over)
		l.late.cut += int64(over)
	}
	l.version++
}

// lateItems are what the view shows below the ordinary output: a heading, and
// the quarantined lines if they are wanted.
func (l *logsSeen) lateItems() int {
	switch {
	case len(l.late.list) == 0:
		return 0
	case !l.late.shown:
		return 1
	}
	return 1 + len(l.late.list)
}

// item is the ith of what the view shows.
func (l *logsSeen) item(i int) *logItem {
	if i < len(l.list) {
		return &l.list[i]
	}
	if i -= len(l.list); i > 0 {
		return &l.late.list[i-1]
	}
	text := "QUARANTINE: " + counted(len(l.late.list), "line")
	if n := l.late.cut; n > 0 {
		text = "QUARANTINE: the latest " + count(len(l.late.list)) + " of " + counted(int(n)+len(l.late.list), "line")
	}
	text += " after the end"
	for _, g := range slices.Sorted(maps.Keys(l.late.ends)) {
		end := l.late.ends[g]
		text += " of " + generation(g) + " (" + end.outcome.String() + " " + clock(end.at) + ")"
	}
	if !l.late.shown {
		text += ", hidden"
	}
	return &logItem{mark: text, late: true}
}

// toggleLateLines shows and hides the quarantined lines.
func (m *Model) toggleLateLines() tea.Cmd {
	l := &m.logs
	l.late.shown = !l.late.shown
	l.version++
	switch {
	case l.late.shown && len(l.late.list) == 0:
		return m.say("nothing came after an involuntary end")
	case l.late.shown:
		return m.say("quarantined output is shown")
	}
	return m.say("quarantined output is hidden")
}

// lateHere is L: among the events, or below the output.
func (m *Model) lateHere() tea.Cmd {
	if m.top() == viewLogs {
		return m.toggleLateLines()
	}
	return m.toggleLate()
}

// needsLateHere is why L is off: a view of output always has its own.
func needsLateHere(m *Model) string {
	if m.top() == viewLogs {
		return ""
	}
	return needsLate(m)
}

// readOutput bounds one reading.
func readOutput(from Output, id watchdog.ID, seq int64, most int) ([]LogLine, error) {
	ctx, cancel := context.WithTimeout(context.Background(), logsLimit)
	defer cancel()
	return from.Logs(ctx, id, seq, most)
}
