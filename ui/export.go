package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Export is what is shown, to be kept in a file.
type Export struct {
	Path     string                // its end says the format: .json, .csv, or .txt of a trial or a hand-over
	Sessions *watchdog.Window      // its rows; nil: Events
	Events   []watchdog.Transition // the newest first
	Trial    *watchdog.TrialResult // nil: the others
	Handover *watchdog.Handover    // likewise; Text is the same in lines
	Text     []string
	Alerts   []watchdog.Alert // the queue; nil: the others

	// Heading and Cells are what stands in the columns that are shown.
	Heading []string
	Cells   func(i int) []string
}

// Len is how many lines it has.
func (e *Export) Len() int {
	switch {
	case e.Trial != nil:
		return len(e.Trial.Raised)
	case e.Handover != nil:
		return len(e.Text)
	case e.Alerts != nil:
		return len(e.Alerts)
	}
	if e.Sessions != nil {
		return len(e.Sessions.Rows)
	}
	return len(e.Events)
}

// What says what the lines are, in the singular.
func (e *Export) What() string {
	switch {
	case e.Trial != nil:
		return "raise"
	case e.Handover != nil:
		return "line"
	case e.Alerts != nil:
		return "alert"
	}
	if e.Sessions != nil {
		return "session"
	}
	return "event"
}

// exporting is an export that waits for an answer with everything in it.
type exporting struct {
	path   string // empty: nothing waits
	events bool
	seq    uint64
}

// exportWritten is the outcome of an export.
type exportWritten struct {
	path, what string
	n          int
	err        error
}

func needsExport(m *Model) string {
	switch {
	case m.opt.Export == nil:
		return "export: this screen can write no files"
	case m.feed == nil || !m.have:
		return "export: nothing is shown yet"
	case m.top() == viewSessions && m.table.frozen:
		return "export: the table is frozen, and only a part of it is at hand; " + m.keys.firstKey("freeze") + " lets it go on"
	case m.ended:
		return "export: what was watched has ended, and only a part of it is at hand"
	}
	return ""
}

// openExport asks for the name of the file.
func (m *Model) openExport() tea.Cmd {
	if m.top() == viewAlerts {
		return m.exportAlerts()
	}
	events := m.top() == viewEvents
	what, name := "all "+count(m.table.matched)+" that match: .json as ls --json, .csv the columns shown", "sessions"
	if events {
		what, name = "all events of this view, as .json or .csv", "events"
	}
	at := time.Unix(0, m.window.Now.Wall).UTC().Format("20060102T150405Z")
	m.prompt = &prompt{
		label: "export to", hint: what, in: newInput(name + "-" + at + ".json"),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, path string) (tea.Cmd, bool) {
			if !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".csv") {
				m.prompt.err = "end the name with .json or .csv"
				return nil, false
			}
			m.say("asking for everything that is shown")
			m.exporting = exporting{path: path, events: events, seq: m.asking.seq + 1}
			return m.ask(), true
		},
	}
	return nil
}

// fillExport widens an ask to everything, while an export waits.
func (m *Model) fillExport(a *watchdog.Ask) {
	switch x := &m.exporting; {
	case x.path == "":
	case x.events:
		a.Events, a.EventsOf = eventsMost, m.events.of
	default:
		a.Offset, a.Height = 0, -1
	}
}

// takeExport writes what a window holds, if it is the one that was waited for.
func (m *Model) takeExport(w *watchdog.Window) tea.Cmd {
	x := m.exporting
	if x.path == "" || w.AskSeq < x.seq || !x.events && len(w.Rows) < w.Matched {
		return nil
	}
	m.exporting = exporting{}
	e := m.sessionsExport(w)
	if x.events {
		e = eventsExport(m.events.list)
	}
	e.Path = x.path
	write := m.opt.Export
	return tea.Batch(m.ask(), func() tea.Msg {
		path, err := write(e)
		return exportWritten{path: path, what: e.What(), n: e.Len(), err: err}
	})
}

func (m *Model) exported(msg *exportWritten) tea.Cmd {
	if msg.err != nil {
		return m.refuse("not exported: " + msg.err.Error())
	}
	return m.say(counted(msg.n, msg.what) + " written to " + msg.path)
}

// sessionsExport has the columns that are shown, in figures instead of ages.
func (m *Model) sessionsExport(w *watchdog.Window) Export {
	all := *w // the window that is shown is replaced by the next one
	l := m.layoutFor(m.tableWidth())
	heading := []string{"verdict"}
	for i := range l.cols {
		heading = append(heading, l.cols[i].field)
	}
	heading = append(heading, "why", "current_task")
	return Export{Sessions: &all, Heading: heading, Cells: func(i int) []string {
		r := &all.Rows[i]
		out := []string{r.Verdict.String()}
		for c := range l.cols {
			out = append(out, l.cols[c].value(r))
		}
		return append(out, r.Why, r.Task)
	}}
}

// exportAlerts asks for the name of a file for the queue of alerts, which is at
// hand.
func (m *Model) exportAlerts() tea.Cmd {
	v := &m.alerts.list
	if !m.alerts.have {
		return m.refuse("export: the alerts are not there yet")
	}
	what := counted(len(v.List), "alert") + " of this view, as .json or .csv"
	if len(v.List) < v.Total {
		what = "the first " + count(len(v.List)) + " of " + count(v.Total) + " alerts, as .json or .csv"
	}
	at := time.Unix(0, m.window.Now.Wall).UTC().Format("20060102T150405Z")
	m.prompt = &prompt{
		label: "export to", hint: what, in: newInput("alerts-" + at + ".json"),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, path string) (tea.Cmd, bool) {
			if !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".csv") {
				m.prompt.err = "end the name with .json or .csv"
				return nil, false
			}
			write, e := m.opt.Export, alertsExport(m.alerts.list.List)
			e.Path = path
			return func() tea.Msg {
				path, err := write(e)
				return exportWritten{path: path, what: e.What(), n: e.Len(), err: err}
			}, true
		},
	}
	return nil
}

func alertsExport(list []watchdog.Alert) Export {
	return Export{Alerts: append([]watchdog.Alert{}, list...),
		Heading: []string{"since", "session_id", "generation", "sessions", "cause", "standing", "author", "note", "until", "text"},
		Cells: func(i int) []string {
			a := &list[i]
			author, note, until := "", "", ""
			if n := a.Note; n != nil {
				if author, note = n.Author, n.Text; !n.Until.IsZero() {
					until = n.Until.UTC().Format("2006-01-02T15:04:05Z")
				}
			}
			return []string{time.Unix(0, a.Began).UTC().Format("2006-01-02T15:04:05.000Z"), string(a.ID), figure(int64(a.Generation)), figure(int64(a.N)), a.Cause.String(),
				a.Standing.String(), author, note, until, a.Text}
		}}
}

func eventsExport(list []watchdog.Transition) Export {
	return Export{Events: list, Heading: []string{"at", "session_id", "generation", "kind", "from", "to", "text"},
		Cells: func(i int) []string {
			t := &list[i]
			kind, from, to := t.Kind, "", ""
			if kind == "" {
				kind, to = "verdict", t.To.String()
				if !t.New {
					from = t.From.String()
				}
			}
			text := t.Text
			if text == "" && t.New {
				text = "first seen"
			}
			return []string{time.Unix(0, t.At.Wall).UTC().Format("2006-01-02T15:04:05.000Z"), string(t.ID), figure(int64(t.Generation)), kind, from, to, text}
		}}
}

// figure is a number; empty if it is not known.
func figure(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// secondsOf writes a duration in seconds; empty if it is not known.
func secondsOf(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64)
}

// creditsOf writes a balance; empty if there is none.
func creditsOf(c float64) string {
	if c != c {
		return ""
	}
	return fmt.Sprint(c)
}
