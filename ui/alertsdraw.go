package ui

import (
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// alertWidths are the columns of the alerts view; 0: not there.
type alertWidths struct{ since, n, state, stateAt int }

// alertColumns gives the state what its words need. It stands behind the longest
// sentence, as far as there is room, and before all of them on a narrow screen.
func (m *Model) alertColumns() alertWidths {
	w := alertWidths{since: 6, n: 5, state: len("STATE")}
	if m.width < 60 {
		w.n = 0
	}
	longest, answered := 0, false
	for i := range m.alerts.list.List {
		a := &m.alerts.list.List[i]
		w.state = max(w.state, cells(m.standing(a)))
		longest = max(longest, cells(a.Text))
		answered = answered || a.Standing != watchdog.AlertOpen
	}
	switch w.state = min(w.state, 22); {
	case m.width >= 60:
		w.stateAt = min(m.width-w.state, 3+w.since+1+w.n+2+longest+2)
	case !answered: // all are open, and the room is dear
		w.state = 0
	}
	return w
}

// standing is the state of an alert as far as there is room for words.
func (m *Model) standing(a *watchdog.Alert) string {
	return standingText(a, m.window.Now.Wall, m.width < 80)
}

// drawAlerts lists what somebody should look at, and tells all of what the cursor
// is on.
func (m *Model) drawAlerts(p *painter) {
	s := &m.alerts
	v := &s.list
	if !s.have {
		v = &m.window.Alerts
	}
	tally := count(v.Open) + " open"
	for _, part := range []struct {
		n    int
		word string
	}{{v.Acked, "acknowledged"}, {v.Quiet, "snoozed or muted"}} {
		if part.n > 0 {
			tally += ", " + count(part.n) + " " + part.word
		}
	}
	var rest []segment
	if len(v.List) > 0 {
		rest = []segment{{m.styles.Dim, "what needs you first", 3, 40}}
	}
	if shown := len(v.List); s.have && shown < v.Total {
		rest = []segment{{m.styles.Dim, "the first " + count(shown) + " of " + count(v.Total), 3, 40}}
	}
	m.drawLinesTitle(p, "ALERTS", tally, rest...)
	if len(s.lines) == 0 {
		m.drawNoAlerts(p)
		return
	}
	w := m.alertColumns()
	m.drawAlertsHeading(p, w)
	m.drawLinesOverStrip(p, linesOverStrip{
		line:  func(i int) { m.drawAlert(p, &s.lines[i], w) },
		strip: func() stripText { return m.alertStrip(p.width) },
	})
}

// drawNoAlerts says what will stand here.
func (m *Model) drawNoAlerts(p *painter) {
	text := "asking for alerts"
	if m.alerts.have {
		text = "no alert stands. One comes for each session that needs somebody, and one for all that go silent together; " +
			m.keys.firstKey("mute") + " mutes, also what is not there yet"
		if !m.allSeen() {
			text = "no alert stands, as far as can be seen now"
		}
	}
	p.pad(1)
	p.wrapped(m.styles.Dim, text, 1, 4)
	p.line()
}

// allSeen reports whether every source is seen and all work is known.
func (m *Model) allSeen() bool {
	see := m.sight()
	return see.links > 0 && see.seeing == see.links && m.window.Fleet.Assessed >= m.window.Fleet.Live
}

func (m *Model) drawAlertsHeading(p *painter, w alertWidths) {
	p.pad(3)
	p.cell(m.styles.Title, "SINCE", w.since)
	if w.n > 0 {
		p.pad(p.x + 1)
		p.cellRight(m.styles.Title, []byte("N"), w.n)
	}
	p.pad(p.x + 2)
	if w.stateAt == 0 && w.state > 0 {
		p.cell(m.styles.Title, "STATE", w.state)
		p.pad(p.x + 1)
	}
	p.text(m.styles.Title, "ALERT")
	if w.stateAt > 0 {
		p.pad(w.stateAt)
		p.text(m.styles.Title, "STATE")
	}
	p.line()
}

// alertLook is the glyph and the meaning of an alert.
func (m *Model) alertLook(a *watchdog.Alert) (string, meaning) {
	switch a.Cause {
	case watchdog.CauseStalled, watchdog.CauseWedged, watchdog.CauseCrashLoop, watchdog.CauseGroup, watchdog.CauseReapRate, watchdog.CauseAction:
		return m.glyphs.verdict(watchdog.Stalled)
	case watchdog.CauseLost, watchdog.CauseError:
		return m.glyphs.verdict(watchdog.Lost)
	case watchdog.CauseSilent:
		return m.glyphs.verdict(watchdog.Silent)
	case watchdog.CauseDisputed, watchdog.CauseForeign:
		return m.glyphs.verdict(watchdog.Disputed)
	case watchdog.CauseHuman, watchdog.CauseOverdue:
		return m.glyphs.verdict(watchdog.Waiting)
	}
	glyph, _ := m.glyphs.verdict(watchdog.Quiet)
	return glyph, meansSuspect
}

func (m *Model) drawAlert(p *painter, l *alertLine, w alertWidths) {
	if l.mute != nil {
		p.pad(3)
		p.cell(m.styles.Dim, "QUIET", w.since)
		p.pad(p.x + 2)
		if w.n > 0 {
			p.pad(p.x + w.n + 1)
		}
		m.marked(p, m.styles.Dim, muteText(l.mute, m.window.Now.Wall), m.pager().search)
		return
	}
	a := &m.alerts.list.List[l.alert]
	if l.member != "" || l.host != nil || l.more > 0 {
		m.drawAlertPart(p, l, w)
		return
	}
	glyph, means := m.alertLook(a)
	st, state := m.styles.of(means), m.styles.of(means)
	text := Style{}
	if a.Standing != watchdog.AlertOpen {
		st, text, state = m.styles.Dim, m.styles.Dim, m.styles.Dim
	}
	p.glyph(st, glyph)
	p.pad(p.x + 1)
	p.cell(m.styles.Dim, m.sinceText(a), w.since)
	if w.n > 0 {
		p.pad(p.x + 1)
		n := ""
		if a.N > 0 {
			n = count(a.N)
		}
		p.cellRight(Style{}, []byte(n), w.n)
	}
	p.pad(p.x + 2)
	if w.stateAt == 0 {
		if w.state > 0 {
			p.cell(state, m.standing(a), w.state)
			p.pad(p.x + 1)
		}
		m.alertSentence(p, st, text, a)
		return
	}
	edge := p.edge
	p.edge = max(w.stateAt-1, p.x)
	m.alertSentence(p, st, text, a)
	p.edge = edge
	p.pad(w.stateAt)
	p.text(state, m.standing(a))
}

// alertSentence writes what an alert says; what stands before its session is in the
// colour of its meaning.
func (m *Model) alertSentence(p *painter, lead, st Style, a *watchdog.Alert) {
	text := strings.TrimSuffix(a.Text, ".")
	if m.pager().search != "" {
		m.marked(p, st, text, m.pager().search)
		return
	}
	if at := strings.Index(text, " "+string(a.ID)); at > 0 && a.ID != "" {
		p.text(lead, text[:at])
		text = text[at:]
	}
	p.text(st, text)
}

// drawAlertPart is a line below the alert of a group.
func (m *Model) drawAlertPart(p *painter, l *alertLine, w alertWidths) {
	p.pad(3 + w.since)
	if w.n > 0 {
		p.pad(p.x + 1)
		n := ""
		switch {
		case l.host != nil:
			n = count(l.host.N)
		case l.more > 0:
			n = count(l.more)
		}
		p.cellRight(Style{}, []byte(n), w.n)
	}
	p.pad(p.x + 4)
	switch {
	case l.host != nil && w.n == 0:
		p.text(Style{}, count(l.host.N)+" on "+hostName(l.host))
	case l.host != nil:
		p.text(Style{}, "on "+hostName(l.host))
	case l.more > 0:
		p.text(m.styles.Dim, count(l.more)+" more; "+m.keys.firstKey("enter-alert")+" lists all that are silent")
	default:
		m.marked(p, Style{}, string(l.member), m.pager().search)
	}
}

// sinceText is when an alert began.
func (m *Model) sinceText(a *watchdog.Alert) string {
	return watchdog.FormatMoment(a.Began, a.Began)
}

// alertStrip tells all that is known of what the cursor is on.
func (m *Model) alertStrip(width int) stripText {
	l := m.alertLine()
	if l == nil {
		return stripText{}
	}
	t := stripText{right: " " + count(m.pager().cur+1) + " of " + count(len(m.alerts.lines)) + " ", labels: 6}
	title := ""
	if l.mute != nil {
		title, t.facts = "mute of "+string(l.mute.Key)[len("match/"):], m.muteFacts(l.mute)
	} else {
		a := &m.alerts.list.List[l.alert]
		title, t.facts = alertName(a), m.alertFacts(a)
	}
	t.title = fitMiddle(title, max(width-len(t.right)-7, 8))
	return t
}

// alertName is what an alert is about, in few words: "STALLED indexer #2", "400
// silent together".
func alertName(a *watchdog.Alert) string {
	name, _, _ := strings.Cut(a.Text, ": ")
	return strings.TrimSuffix(name, ".")
}

func (m *Model) alertFacts(a *watchdog.Alert) []fact {
	_, means := m.alertLook(a)
	now := m.window.Now.Wall
	out := []fact{{"alert", a.Text, means}}
	if a.Cause == watchdog.CauseGroup {
		out = append(out, fact{label: "seen", text: m.othersText(a)})
		if held := m.heldText(a); held != "" {
			out = append(out, fact{"held", held, meansSuspect})
		}
	}
	state := "open since " + wall(a.Began, now) + ", for " + age(a.Since) + "; nobody has answered"
	if n := a.Note; n != nil {
		state = a.Standing.String()
		switch {
		case a.Standing == watchdog.AlertAcked:
			state = "acknowledged"
		case !n.Until.IsZero():
			state += " until " + wall(n.Until.UnixNano(), now)
		}
		if pattern, ok := n.Key.Pattern(); ok {
			state += " with all of " + pattern
		}
		if n.Author != "" {
			state += " by " + n.Author
		}
		state += ", " + wall(n.At.UnixNano(), now)
		if n.Text != "" {
			state += ": " + n.Text
		}
		state += "; stands for " + age(a.Since)
	}
	return append(out, fact{label: "state", text: state}, fact{label: "next", text: m.alertNext(a)})
}

// othersText says whether it may be us who cannot see.
func (m *Model) othersText(a *watchdog.Alert) string {
	well := m.window.Fleet.ByVerdict[watchdog.Running] + m.window.Fleet.ByVerdict[watchdog.Waiting]
	switch see := m.sight(); {
	case see.seeing == 0:
		return "we are blind ourselves now"
	case well > 0:
		return "we see " + count(well) + " others well, so not our link; likely one server or network of theirs"
	}
	return "we see nobody else either: it may be our own link"
}

func (m *Model) heldText(a *watchdog.Alert) string {
	switch {
	case a.HeldFor == 0:
		return ""
	case a.HeldFor < 0:
		return "until they beat again: nobody is settled before, unless you run :release"
	}
	return "for " + age(coarse(a.HeldFor)) + ": nobody is settled before, unless you run :release"
}

// alertNext says what ends an alert.
func (m *Model) alertNext(a *watchdog.Alert) string {
	key := m.keys.firstKey
	switch {
	case a.Standing == watchdog.AlertAcked && (a.Cause == watchdog.CauseLost || a.Cause == watchdog.CauseError || a.Cause == watchdog.CauseGroup && a.Gone):
		return "leaves 10m after it was acknowledged; a newer execution ends it too"
	case a.Cause == watchdog.CauseLost, a.Cause == watchdog.CauseError, a.Cause == watchdog.CauseGroup && a.Gone:
		return "stays until somebody acknowledges it (" + key("ack") + "), or a newer execution runs"
	case a.Cause == watchdog.CauseCrashLoop:
		return "leaves once it has run for 5m without an exit; another exit opens it again"
	case a.Cause == watchdog.CauseCredits:
		return "leaves when credits are added, or no longer spent"
	case a.Cause == watchdog.CauseGroup:
		return "leaves when they beat again; more members open it again"
	case a.ID == "":
		return "leaves with its cause"
	}
	return "leaves with its cause; " + key("enter-alert") + " tells why, and what comes next"
}

func (m *Model) muteFacts(n *watchdog.AlertNote) []fact {
	now := m.window.Now.Wall
	text := "nothing that matches is told before " + wall(n.Until.UnixNano(), now)
	if n.Until.IsZero() {
		text = "nothing that matches is told"
	}
	out := []fact{{"mute", text, meansNothing}}
	by := firstOf(n.Author, "somebody") + ", " + wall(n.At.UnixNano(), now)
	if n.Text != "" {
		by += ": " + n.Text
	}
	return append(out, fact{label: "by", text: by}, fact{label: "next", text: m.keys.firstKey("mute") + " takes it back, or changes its end"})
}
