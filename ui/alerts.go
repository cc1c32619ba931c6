package ui

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// alertsAsked is how many alerts the view asks for: more than anybody reads.
const alertsAsked = 500

// alertsSeen is what the alerts view shows: the queue, what is unfolded of it, and
// the mutes that hold.
type alertsSeen struct {
	list    watchdog.AlertsView
	have    bool
	seq     uint64 // answers to older asks have no queue
	version uint64
	lines   []alertLine
	open    map[watchdog.AlertKey]unfolding
}

// unfolding is what is shown below an alert of a group.
type unfolding uint8

const (
	folded unfolding = iota
	byMember
	byHost
)

// alertLine is one line of the view: an alert, a part of a group, or a mute.
type alertLine struct {
	alert  int // in list.List; -1: a mute
	member watchdog.ID
	host   *watchdog.HostCount
	mute   *watchdog.AlertNote
	more   int // members that are not named
}

// openAlerts shows the queue.
func (m *Model) openAlerts() tea.Cmd {
	m.pagers[viewAlerts].restart()
	m.alerts = alertsSeen{version: m.alerts.version + 1, open: map[watchdog.AlertKey]unfolding{}}
	m.openView(viewAlerts)
	cmd := m.ask()
	m.alerts.seq = m.asking.seq
	return cmd
}

// fillAlerts adds to an ask what the alerts view needs.
func (m *Model) fillAlerts(a *watchdog.Ask) {
	if slices.Contains(m.layers, viewAlerts) {
		a.Alerts = alertsAsked
	}
}

// takeAlerts uses the queue of a window. The cursor stays on its alert.
func (m *Model) takeAlerts(w *watchdog.Window) {
	s := &m.alerts
	if !slices.Contains(m.layers, viewAlerts) || w.AskSeq < s.seq {
		return
	}
	s.have = true
	m.layAlerts(w.Alerts)
}

// layAlerts makes the lines anew, with the cursor where it was.
func (m *Model) layAlerts(list watchdog.AlertsView) {
	s, g := &m.alerts, &m.pagers[viewAlerts]
	on, was := "", 0
	if g.cur < len(s.lines) {
		on, was = s.nameOf(&s.lines[g.cur]), g.cur
	}
	s.list = list
	s.lines = s.lay()
	s.version++
	if on == "" {
		return
	}
	if at := slices.IndexFunc(s.lines, func(l alertLine) bool { return s.nameOf(&l) == on }); at >= 0 {
		g.shift(at - was)
	}
}

// nameOf names what a line shows, whatever else comes and goes.
func (s *alertsSeen) nameOf(l *alertLine) string {
	switch {
	case l.mute != nil:
		return string(l.mute.Key)
	case l.alert >= len(s.list.List):
		return ""
	}
	name := string(s.list.List[l.alert].Key)
	if l.host != nil {
		return name + "\x00host " + l.host.Host
	}
	if l.more > 0 {
		return name + "\x00more"
	}
	return name + "\x00" + string(l.member)
}

func (s *alertsSeen) lay() []alertLine {
	var out []alertLine
	for i := range s.list.List {
		a := &s.list.List[i]
		out = append(out, alertLine{alert: i})
		switch s.open[a.Key] {
		case byMember:
			for _, id := range a.Members {
				out = append(out, alertLine{alert: i, member: id})
			}
			if more := a.N - len(a.Members); more > 0 {
				out = append(out, alertLine{alert: i, more: more})
			}
		case byHost:
			for k := range a.Hosts {
				out = append(out, alertLine{alert: i, host: &a.Hosts[k]})
			}
		case folded:
		}
	}
	for i := range s.list.Mutes {
		out = append(out, alertLine{alert: -1, mute: &s.list.Mutes[i]})
	}
	return out
}

// alertLine is the line under the cursor; nil: there is none.
func (m *Model) alertLine() *alertLine {
	s := &m.alerts
	if g := &m.pagers[viewAlerts]; g.cur < len(s.lines) {
		return &s.lines[g.cur]
	}
	return nil
}

// alertHere is the alert that a key is meant for: under the cursor of the view, or
// of the session under the cursor of the list; nil: there is none.
func (m *Model) alertHere() *watchdog.Alert {
	if m.top() == viewAlerts {
		if l := m.alertLine(); l != nil && l.alert >= 0 {
			return &m.alerts.list.List[l.alert]
		}
		return nil
	}
	if d := m.window.Focus; d != nil && d.ID == m.table.cursor {
		return d.Alert
	}
	return nil
}

func (m *Model) alertLines() lines {
	s := &m.alerts
	return lines{total: len(s.lines), version: s.version, text: func(i int) string { return m.alertLineText(&s.lines[i]) }}
}

// alertLineText is what a search sees.
func (m *Model) alertLineText(l *alertLine) string {
	switch {
	case l.mute != nil:
		return muteText(l.mute, m.window.Now.Wall)
	case l.host != nil:
		return hostName(l.host)
	case l.member != "":
		return string(l.member)
	}
	a := &m.alerts.list.List[l.alert]
	text := a.Text
	if a.Note != nil {
		text += " " + a.Note.Author + " " + a.Note.Text
	}
	return text
}

// needsAlertLine: enter and B need a line.
func needsAlertLine(m *Model) string {
	if m.alertLine() == nil {
		return "there is no alert under the cursor"
	}
	return ""
}

// enterAlert drills in: the members of a group, or the session.
func (m *Model) enterAlert() tea.Cmd {
	l := m.alertLine()
	switch {
	case l.mute != nil:
		return m.say(m.keys.firstKey("mute") + " takes the mute back")
	case l.member != "":
		return m.goToSession(l.member)
	case l.host != nil || l.more > 0:
		return m.filterGroup(l)
	}
	a := &m.alerts.list.List[l.alert]
	switch {
	case a.Cause == watchdog.CauseGroup:
		return m.unfoldAlert(byMember)
	case a.ID == "":
		return m.say("this alert is of no session")
	}
	return m.goToSession(a.ID)
}

func (m *Model) goToSession(id watchdog.ID) tea.Cmd {
	m.table.follow(id, m.bodyRows(), m.opt.Now())
	m.openView(viewWhy)
	return m.ask()
}

// filterGroup shows in the list what is too much for the queue: the sessions of
// one host, or all that are silent.
func (m *Model) filterGroup(l *alertLine) tea.Cmd {
	filter := "verdict:silent"
	if l.host != nil && l.host.Host != "" {
		filter += " host:" + l.host.Host
	}
	m.layers = m.layers[:0]
	return m.setFilter(filter)
}

// needsGroupLine: only a group has hosts to group by.
func needsGroupLine(m *Model) string {
	if a := m.alertHere(); a == nil || a.Cause != watchdog.CauseGroup {
		return "only what went silent together has hosts to group by"
	}
	return ""
}

// groupAlert shows the hosts of a group.
func (m *Model) groupAlert() tea.Cmd { return m.unfoldAlert(byHost) }

// unfoldAlert shows what a group consists of, or folds it again.
func (m *Model) unfoldAlert(how unfolding) tea.Cmd {
	s, g := &m.alerts, &m.pagers[viewAlerts]
	l := s.lines[g.cur]
	key := s.list.List[l.alert].Key
	if s.open[key] == how {
		how = folded
	}
	s.open[key] = how
	at := slices.IndexFunc(s.lines, func(other alertLine) bool { return other.alert == l.alert })
	g.cur = max(at, 0)
	m.layAlerts(s.list)
	return nil
}

// standingText is the state of an alert: open, "ack ops1", "snoozed to 03:40Z", "muted
// to 06:00Z"; short: "to 03:40Z" where there is no room.
func standingText(a *watchdog.Alert, now int64, short bool) string {
	switch {
	case a.Standing == watchdog.AlertOpen || a.Note == nil:
		return "open"
	case a.Standing == watchdog.AlertAcked:
		return strings.TrimSpace("ack " + shortAuthor(a.Note.Author))
	case a.Note.Until.IsZero():
		return a.Standing.String()
	case short:
		return "to " + untilText(a.Note, now)
	}
	return a.Standing.String() + " to " + untilText(a.Note, now)
}

// shortAuthor is the name without its host.
func shortAuthor(author string) string {
	name, _, _ := strings.Cut(author, "@")
	return name
}

// untilText is when a note ends: 03:40Z, with its date if that is not today.
func untilText(n *watchdog.AlertNote, now int64) string {
	if n.Until.IsZero() {
		return "for good"
	}
	until := n.Until.UTC()
	if until.Sub(time.Unix(0, now)) > 20*time.Hour {
		return until.Format("Jan02 15:04Z")
	}
	return until.Format("15:04Z")
}

// muteText is "QUIET etl-* muted to 06:00Z by ops1: deploy".
func muteText(n *watchdog.AlertNote, now int64) string {
	pattern, _ := n.Key.Pattern()
	text := pattern + " muted to " + untilText(n, now)
	if n.Author != "" {
		text += " by " + n.Author
	}
	if n.Text != "" {
		text += ": " + n.Text
	}
	return text
}

func hostName(h *watchdog.HostCount) string {
	if h.Host == "" {
		return "host unknown"
	}
	return h.Host
}
