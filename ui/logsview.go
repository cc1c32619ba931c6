package ui

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How output is read while it is looked at, and how much of it is held.
const (
	logsPause   = 500 * time.Millisecond
	logsRetry   = 2 * time.Second // after an error
	logsLimit   = 5 * time.Second // of one reading
	logsAtOnce  = 2000            // lines of one reading
	logsKept    = 5000            // lines
	logsBytes   = 4 << 20         // of text
	logsSlack   = 500             // lines that are cut at once
	logsRewound = 10              // readings without a line after which it is asked whether numbers began anew
)

// logsSeen is the output of one session as far as it was read.
type logsSeen struct {
	id      watchdog.ID
	opened  uint64 // readings for an older opening are dropped
	list    []logItem
	version uint64
	bytes   int
	next    int64 // Seq that is asked for; negative: the newest
	unended int   // items at the end that had not ended yet
	empty   int   // readings in a row that brought nothing
	trouble string
	have    bool
	source  Output
	late    logsLate
}

// logItem is a line of output, or a mark between lines.
type logItem struct {
	line LogLine
	mark string // set: no line, but what is to be known here
	cut  int64  // lines that are missing here
	late bool   // the mark is the heading of the quarantine
}

func (l *logItem) text() string {
	switch {
	case l.cut > 0:
		return "cut: " + count(l.cut) + " lines " + l.mark
	case l.mark != "":
		return l.mark
	}
	return l.line.Text
}

// logsArrived is a reading. rewound: the newest line alone was asked for.
type logsArrived struct {
	gen, opened uint64
	from        int64
	rewound     bool
	lines       []LogLine
	err         error
}

// needsChildren: nobody runs behind a feed that only looks.
func needsChildren(m *Model) string {
	switch {
	case m.onlyDumps():
		return needsSessions(m)
	case m.about.Replay != nil:
		return "a recording has no output and no dumps of its own"
	case m.children == nil:
		return "nothing is supervised behind this view; run, serve and sessions: of the configuration supervise"
	}
	return ""
}

// openLogs shows the output of the session under the cursor.
func (m *Model) openLogs() tea.Cmd {
	m.lastOpened++
	m.logs = logsSeen{id: m.table.cursor, opened: m.lastOpened, next: -1, version: m.logs.version + 1, source: m.outputOf(m.table.cursor),
		late: logsLate{shown: m.logs.late.shown}}
	m.pagers[viewLogs].restart()
	m.openView(viewLogs)
	m.takeLogs(&m.window)
	return m.readLogs()
}

// readLogs reads what is new, off the screen's goroutine.
func (m *Model) readLogs() tea.Cmd {
	rewound := m.logs.empty > 0 && m.logs.empty%logsRewound == 0
	from, most := m.logs.next, logsAtOnce
	if rewound {
		from, most = -1, 1
	}
	source, id, gen, opened := m.logs.source, m.logs.id, m.gen, m.logs.opened
	return func() tea.Msg {
		lines, err := readOutput(source, id, from, most)
		return logsArrived{gen: gen, opened: opened, from: from, rewound: rewound, lines: lines, err: err}
	}
}

// pollLogs reads again after a pause, unless the feed was replaced meanwhile.
func (m *Model) pollLogs(pause time.Duration) tea.Cmd {
	return readAgain(pause, m.gone, m.readLogs())
}

// logsCame takes a reading in, and asks for the next one while somebody looks.
func (m *Model) logsCame(msg *logsArrived) tea.Cmd {
	l := &m.logs
	if msg.gen != m.gen || msg.opened != l.opened || !slices.Contains(m.layers, viewLogs) || l.source == nil {
		return nil
	}
	l.have = true
	if msg.err != nil {
		l.trouble = msg.err.Error()
		return m.pollLogs(logsRetry)
	}
	l.trouble = ""
	switch {
	case msg.rewound:
		l.empty = 0
		if n := len(msg.lines); n > 0 && msg.lines[n-1].Seq+1 < l.next {
			l.add(logItem{mark: "its supervisor was started anew: lines are counted from 1 again"})
			l.next, l.unended = 0, 0
			return m.readLogs()
		}
	case l.take(msg.lines):
		l.empty = 0
	default:
		l.empty++
	}
	m.pagers[viewLogs].shift(-l.trim())
	if len(msg.lines) >= logsAtOnce {
		return m.readLogs() // there is more already
	}
	return m.pollLogs(logsPause)
}

// take appends lines and reports whether there were any new ones. What had not
// ended yet is replaced.
func (l *logsSeen) take(read []LogLine) (any bool) {
	if n := l.unended; n > 0 {
		l.list = l.list[:len(l.list)-n]
		l.unended = 0
		l.version++
	}
	for i := range read {
		line := read[i]
		if line.Partial {
			l.add(logItem{line: line})
			l.unended++
			continue
		}
		switch missing := line.Seq - l.next; {
		case l.next < 0 && line.Seq > 1:
			l.add(logItem{cut: line.Seq - 1, mark: "before this one are not read"})
		case l.next >= 0 && missing < 0:
			continue // it was read already
		case l.next > 0 && missing > 0:
			l.add(logItem{cut: missing, mark: "came faster than they could be kept"})
		}
		if l.isLate(&line) {
			l.keepLate(logItem{line: line})
			l.next, any = line.Seq+1, true
			continue
		}
		if before := l.generation(); line.Generation != 0 && before != 0 && line.Generation != before {
			l.add(logItem{mark: "generation " + generation(line.Generation) + " begins"})
		}
		l.add(logItem{line: line})
		l.next, any = line.Seq+1, true
	}
	return any
}

// generation is that of the newest line; 0 not known.
func (l *logsSeen) generation() watchdog.Generation {
	for i := len(l.list) - 1; i >= 0; i-- {
		if it := &l.list[i]; it.mark == "" && it.line.Generation != 0 {
			return it.line.Generation
		}
	}
	return 0
}

func (l *logsSeen) add(it logItem) {
	l.list = append(l.list, it)
	l.bytes += len(it.line.Text)
	l.version++
}

// trim keeps the memory bounded: the oldest lines go, and a mark says how many.
// It returns how many items fewer there are.
func (l *logsSeen) trim() int {
	if len(l.list) <= logsKept+logsSlack && l.bytes <= logsBytes {
		return 0
	}
	drop, bytes := 0, l.bytes
	var lines int64
	for drop < len(l.list)-1 && (len(l.list)-drop > logsKept || bytes > logsBytes*7/8) {
		it := &l.list[drop]
		bytes -= len(it.line.Text)
		lines += it.cut
		if it.mark == "" {
			lines++
		}
		drop++
	}
	kept := append(make([]logItem, 0, len(l.list)-drop+1), logItem{cut: lines, mark: "before this one are no longer held"})
	before := len(l.list)
	l.list, l.bytes = append(kept, l.list[drop:]...), bytes
	l.version++
	return before - len(l.list)
}

// shift moves with lines that were put in, or taken away, above.
func (g *pager) shift(n int) { g.cur, g.top = max(g.cur+n, 0), max(g.top+n, 0) }

func (m *Model) logLines() lines {
	l := &m.logs
	return lines{total: len(l.list) + l.lateItems(), version: l.version, newest: growsAtEnd,
		text:   func(i int) string { return l.item(i).text() },
		height: func(i, width int) int { return wrapCount(l.item(i).text(), width-m.logIndent()) }}
}

// logIndent is where the text of a line begins.
func (m *Model) logIndent() int {
	if m.pagers[viewLogs].bare {
		return 3
	}
	return 3 + len("15:04:05Z ")
}

// drawLogs shows the output of a session, the newest line last.
func (m *Model) drawLogs(p *painter) {
	l := &m.logs
	of := fitMiddle(string(l.id), 40)
	if g := l.generation(); g != 0 {
		of += " " + generation(g)
	}
	n := 0
	for i := range l.list {
		if l.list[i].mark == "" {
			n++
		}
	}
	var rest []segment
	if n > 0 {
		rest = append(rest, segment{m.styles.Dim, counted(n, "line") + "; ! stderr", 3, 40})
	}
	m.drawLinesTitle(p, "LOGS", of, rest...)
	m.drawTrouble(p, l.trouble)
	switch {
	case !l.have:
		p.text(m.styles.Dim, " reading")
		p.line()
	case len(l.list)+len(l.late.list) == 0 && l.trouble == "":
		p.text(m.styles.Dim, " it has written nothing yet")
		p.line()
	}
	m.drawLines(p, func(i int, _ bool) { m.drawLogLine(p, l.item(i)) })
}

func (m *Model) drawLogLine(p *painter, it *logItem) {
	g, indent := m.pager(), m.logIndent()
	if it.mark != "" {
		st := m.styles.Dim
		if it.cut > 0 || it.late {
			st = m.styles.Suspect
		}
		p.pad(indent)
		if g.wrap {
			p.wrapped(st, it.text(), indent, mostWrapped)
		} else {
			p.text(st, it.text())
		}
		return
	}
	if !g.bare {
		p.text(m.styles.Dim, stamp(it.line.At.UnixNano(), m.window.Now.Wall))
		p.pad(p.x + 1)
	}
	if it.line.Stream == "stderr" {
		p.glyph(m.styles.Title, "!")
	}
	p.pad(indent)
	text := it.line.Text
	if it.line.Partial {
		text += " ..."
	}
	if g.wrap {
		p.wrapped(Style{}, text, indent, mostWrapped)
		return
	}
	m.marked(p, Style{}, text, g.search)
}

// stamp is a time in nine cells: of the day, or the day once it is older.
func stamp(at, now int64) string {
	if t := time.Unix(0, at).UTC(); now-at > int64(24*time.Hour) {
		return t.Format("Jan02 15h")
	}
	return clock(at)
}

// copyLine copies the line under the cursor.
func (m *Model) copyLine() tea.Cmd {
	g, l := m.pager(), m.lines()
	if g.cur >= l.total {
		return m.say("there is no line to copy")
	}
	return m.copyText(l.text(g.cur))
}
