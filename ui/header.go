package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// slowTrip is the latency above which a link's is shown.
const slowTrip = 50 * time.Millisecond

// drawHeader writes the two lines that are always there: the verdict of the
// fleet; then what is watched, how well, and what was lost.
func (m *Model) drawHeader(p *painter, lines int) {
	if lines < 1 {
		return
	}
	now := ""
	if m.have {
		now = clock(m.window.Now.Wall)
	}
	if m.width < clockFrom {
		now = ""
	}
	p.pad(1)
	p.segments(m.fleetLine(), m.fleetRoom())
	if now != "" {
		p.pad(p.width - len(now))
		p.text(m.styles.Dim, now)
	}
	p.line()
	if lines < 2 {
		return
	}
	p.pad(1)
	right, st := m.dropsText()
	p.segments(m.linksLine(), p.width-1-len(right)-2)
	if m.width >= 40 {
		p.pad(p.width - len(right))
		p.text(st, right)
	}
	p.line()
}

// clockFrom is the width from which the time stands in the header.
const clockFrom = 60

// fleetRoom is how many cells the first line has beside the time.
func (m *Model) fleetRoom() int {
	if m.have && m.width >= clockFrom {
		return m.width - 1 - len("15:04:05Z ")
	}
	return m.width - 1
}

// sight sums up how much we can see.
type sight struct {
	links, seeing int
	blind         []string // what is wrong with each that does not see
	broken        []string // what is wrong with each that sees by its last answer alone
	last          time.Duration
	ever          bool // something was seen once
}

func (m *Model) sight() sight {
	s := sight{last: -1}
	for i := range m.window.Links {
		l := &m.window.Links[i]
		s.links++
		if l.LastTrip >= 0 {
			s.ever = true
		}
		if l.Sighted {
			s.seeing++
			if l.Phase == watchdog.LinkDown {
				s.broken = append(s.broken, l.Source.Title()+" "+linkTrouble(l))
			}
			continue
		}
		if l.LastTrip >= 0 && (s.last < 0 || l.Since < s.last) {
			s.last = l.Since
		}
		s.blind = append(s.blind, l.Source.Title()+" "+linkTrouble(l))
	}
	return s
}

// linkTrouble is "down 41s, try 7 in 4s": a dead link changes words.
func linkTrouble(l *watchdog.Link) string {
	var b strings.Builder
	since := l.Since
	if l.Sighted { // still, by its last answer
		since = max(l.LastTrip, 0)
	}
	switch {
	case l.Phase == watchdog.LinkUp && l.Reason != "":
		b.WriteString("blind ")
	case l.Phase == watchdog.LinkUp:
		b.WriteString("up, unseen ")
	default:
		b.WriteString(l.Phase.String() + " ")
	}
	b.WriteString(age(since))
	if l.Phase == watchdog.LinkUp {
		if l.Reason != "" {
			b.WriteString(": " + l.Reason)
		}
		return b.String()
	}
	if l.Attempt > 0 {
		fmt.Fprintf(&b, ", try %d", l.Attempt)
		if l.NextTry > 0 {
			b.WriteString(tryIn(l.NextTry))
		}
	}
	return b.String()
}

// tryIn says when a server is tried again: " in 4s", " now".
func tryIn(d time.Duration) string {
	if d < time.Second {
		return " now"
	}
	return " in " + age(d)
}

// fleetLine is the first line: is anything wrong?
func (m *Model) fleetLine() []segment {
	s := &m.styles
	if m.feed != nil && !m.ended && m.pulse.still > 0 {
		return m.blockedLine()
	}
	if m.feed == nil || !m.have {
		switch {
		case m.opening.gen != 0:
			return []segment{{s.Wait, "OPENING", 0, 9}, {Style{}, m.opening.target.what(), 2, 8}}
		case m.feed != nil:
			return []segment{{s.Wait, "STARTING", 0, 9}, {s.Dim, "nothing is known yet", 2, 8}}
		}
		return []segment{{s.Suspect, "NO SERVER", 0, 9}, {Style{}, "nothing is watched yet", 2, 8}}
	}
	if m.ended {
		return []segment{{s.Act, "ENDED", 0, 9}, {Style{}, "the feed closed; this is of " + clock(m.window.Now.Wall) + ", not live", 2, 8}}
	}
	w, see := &m.window, m.sight()
	f := &w.Fleet
	switch {
	case see.seeing == 0 && see.links > 0:
		return m.blindLine(see)
	case see.links == 0 && w.Total == 0:
		return []segment{{s.Suspect, "NO SERVER", 0, 9}, {Style{}, "nothing is watched yet", 2, 8}}
	case f.NeedYou > 0:
		return m.needLine(f)
	case len(m.troubled()) > 0:
		failed, _ := m.troubleSegment()
		return append([]segment{failed, {Style{}, count(f.Live) + " live", 2, 8}}, m.noticeSegments(f)...)
	case w.Alerts.Beside > 0:
		return append([]segment{m.besideSegment(0), {Style{}, count(f.Live) + " live", 2, 8}}, m.noticeSegments(f)...)
	case w.Total == 0:
		return []segment{{s.Title, "CONNECTED", 0, 9}, {Style{}, "no session seen yet", 2, 8}}
	case see.seeing < see.links:
		return append([]segment{{s.Suspect, "HALF BLIND", 0, 9}, {s.Suspect, strings.Join(see.blind, "; "), 2, 7},
			{Style{}, count(f.Live) + " live, none accused", 2, 6}}, m.noticeSegments(f)...)
	case len(see.broken) > 0:
		// What it would tell now nobody hears, so all is not known to be well.
		return append([]segment{{s.Suspect, "RECONNECTING", 0, 9}, {s.Suspect, strings.Join(see.broken, "; "), 2, 7},
			{Style{}, count(f.Live) + " live, none accused", 2, 6}}, m.noticeSegments(f)...)
	case f.Answered > 0: // somebody is at it, but well it is not
		out := []segment{{s.Wait, "ALL ANSWERED", 0, 9}, {Style{}, count(f.Live) + " live", 2, 8}}
		if f.Assessed < f.Live {
			out = append(out, segment{s.Wait, "learning " + count(f.Assessed) + " of " + count(f.Live), 2, 6})
		}
		return append(out, m.noticeSegments(f)...)
	case f.Assessed < f.Live:
		return append([]segment{{s.Wait, "NO ALARM YET", 0, 7},
			{Style{}, "learning: work known for " + count(f.Assessed) + " of " + count(f.Live), 2, 8}}, m.noticeSegments(f)...)
	}
	return m.wellLine(f)
}

// besideSegment counts the open alerts that no verdict tells of.
func (m *Model) besideSegment(gap int) segment {
	return segment{m.styles.Act, counted(m.window.Alerts.Beside, "alert"), gap, 86}
}

func (m *Model) wellLine(f *watchdog.Fleet) []segment {
	trouble := "no trouble for " + age(m.window.Now.Mono-m.window.Started.Mono)
	if f.LastTrouble >= 0 {
		trouble = "last trouble " + age(max(m.window.Now.Mono-f.LastTrouble, 0)) + " ago"
	}
	return append([]segment{{m.styles.Title, "ALL WELL", 0, 9}, {Style{}, count(f.Live) + " live", 2, 8}, {m.styles.Dim, trouble, 2, 6}}, m.noticeSegments(f)...)
}

// noticeSegments are the ranks that are listed but not counted, and what somebody
// has answered.
func (m *Model) noticeSegments(f *watchdog.Fleet) []segment {
	var out []segment
	if f.Answered > 0 {
		out = append(out, segment{m.styles.Wait, count(f.Answered) + " answered", 2, 7})
	}
	for _, v := range []watchdog.Verdict{watchdog.Quiet, watchdog.Unknown} {
		if n := f.ByVerdict[v]; n > 0 {
			out = append(out, segment{m.styles.Suspect, count(n) + " " + v.String(), 2, 7})
		}
	}
	return out
}

// needLine counts what needs a person, most urgent first. What has a plus stands
// beside the number in front; the kinds for which there is no room are "2 more", so
// that all of them add up.
func (m *Model) needLine(f *watchdog.Fleet) []segment {
	out := []segment{{m.styles.Act, count(f.NeedYou) + " NEED YOU", 0, 99}}
	if f.NeedYou == 1 {
		out[0].text = "1 NEEDS YOU"
	}
	if m.width < clockFrom {
		return append(out, m.needKinds(f, m.fleetRoom()-cells(out[0].text))...)
	}
	if f.Answered > 0 {
		out = append(out, segment{m.styles.Dim, "+" + count(f.Answered) + " answered", 1, 87})
	}
	if m.window.Alerts.Beside > 0 {
		beside := m.besideSegment(1)
		beside.text = "+" + beside.text
		out = append(out, beside)
	}
	if failed, ok := m.troubleSegment(); ok {
		failed.text = "+" + failed.text
		out = append(out, failed)
	}
	room := m.fleetRoom()
	for i := range out {
		room -= out[i].gap + cells(out[i].text)
	}
	return append(out, m.needKinds(f, room)...)
}

// needKinds says of what kinds those are that need a person, in room cells.
func (m *Model) needKinds(f *watchdog.Fleet, room int) []segment {
	var all []segment
	var counts []int
	add := func(n int, word string, means meaning) {
		if n > 0 {
			all = append(all, segment{m.styles.of(means), count(n) + " " + word, 1, 90})
			counts = append(counts, n)
		}
	}
	for _, v := range []watchdog.Verdict{watchdog.Wedge, watchdog.Stalled, watchdog.CrashLoop, watchdog.Lost, watchdog.Failed, watchdog.Silent, watchdog.Disputed} {
		_, means := m.glyphs.verdict(v)
		add(f.ByVerdict[v]-f.Past[v], v.String(), means)
	}
	add(f.Human, "human", meansWait)
	add(f.Overdue, "overdue", meansWait)
	if len(all) > 0 {
		all[0].gap = 2
	}
	most := func(n int) (width, more int) { // with the first n of them
		for i := range all {
			if i < n {
				width += all[i].gap + cells(all[i].text)
			} else {
				more += counts[i]
			}
		}
		if more > 0 {
			width += cells(" " + count(more) + " more")
		}
		return width, more
	}
	n := len(all)
	width, more := most(n)
	for width > room && n > 1 {
		n--
		width, more = most(n)
	}
	if all = all[:n]; more > 0 && (m.width >= clockFrom || f.Answered == 0) { // the kinds count the answered ones too
		all = append(all, segment{Style{}, count(more) + " more", 1, 90})
	}
	return all
}

// blindLine never lets old data pass as live.
func (m *Model) blindLine(see sight) []segment {
	s := &m.styles
	out := []segment{{s.Act, "CANNOT SEE", 0, 99}, {s.Act, strings.Join(see.blind, "; ") + ";", 2, 5}}
	if !see.ever && m.window.Total == 0 {
		return []segment{{s.Suspect, "NO SERVER", 0, 9}, {Style{}, "nothing is watched yet", 2, 8}}
	}
	if !see.ever {
		return append(out[:1], segment{s.Act, strings.Join(see.blind, "; "), 2, 8}, segment{Style{}, "nothing seen yet", 2, 6})
	}
	of := m.window.Now.Wall
	if see.last >= 0 {
		of -= int64(see.last)
	}
	return append(out, segment{Style{}, "verdicts are of " + wall(of, m.window.Now.Wall), 1, 8}, segment{Style{}, ", nobody accused", 0, 7})
}

// linksLine is the second line: what is watched, and how well.
func (m *Model) linksLine() []segment {
	s := &m.styles
	var out []segment
	add := func(st Style, text string, gap, keep int) {
		if text == "" {
			return
		}
		if len(out) == 0 {
			gap = 0
		}
		out = append(out, segment{st, text, gap, keep})
	}
	if m.about.Demo {
		add(s.Badge, " DEMO ", 0, 99)
	}
	if m.about.Replay != nil {
		add(s.Badge, m.replayBadge(), 1, 98)
	}
	if badge := m.recordBadge(); badge != "" {
		add(s.Badge, badge, 1, 97)
	}
	add(s.Dim, m.about.Name, 1, 80)
	add(Style{}, m.replayPlace(), 2, 79)
	if m.about.ReadOnly && m.about.Replay == nil { // nobody can act on a recording anyway
		add(s.Dim, "READ-ONLY", 1, 90)
	}
	if text, means := m.fateSegment(); text != "" {
		add(s.of(means), text, 2, 97)
	}
	if !m.have {
		return out
	}
	f := &m.window.Fleet
	if m.window.Total > 0 {
		add(s.Dim, count(f.Live)+" live", 2, 60)
		if n := f.ByVerdict[watchdog.Waiting]; n > 0 {
			add(s.Dim, count(n)+" waiting", 1, 30)
		}
	}
	if f.NeedYou > 0 && f.Assessed < f.Live {
		add(s.Wait, "learning "+count(f.Assessed)+" of "+count(f.Live), 2, 50)
	}
	m.linkSegments(add)
	if d := m.window.Self; d.Score > 0 {
		add(s.Suspect, lateText(&d), 2, 85)
	}
	if text := m.lagText(); text != "" {
		add(s.Suspect, text, 2, 52)
	}
	if n := m.window.Self.Shed; n > 0 {
		add(s.Suspect, "shed "+count(n), 2, 55)
	}
	m.settlingSegments(add)
	return out
}

// lateText says that we ourselves were too late to accuse anybody in time.
func lateText(self *watchdog.Self) string {
	if self.Lag < time.Second {
		return fmt.Sprintf("we were late: deadlines x%d", self.Score+1)
	}
	return fmt.Sprintf("we are late by %s: deadlines x%d", age(self.Lag), self.Score+1)
}

func (m *Model) linkSegments(add func(Style, string, int, int)) {
	gap := 2
	for i := range m.window.Links {
		l := &m.window.Links[i]
		st, text, keep := m.styles.Dim, l.Source.Title(), 70-i
		switch {
		case !l.Sighted:
			st, keep = m.styles.Act, 95-i
			text += " " + linkTrouble(l)
		case l.Phase == watchdog.LinkDown:
			st, keep = m.styles.Suspect, 95-i
			text += " " + linkTrouble(l)
		case l.RTT > slowTrip:
			text += fmt.Sprintf(" %dms", l.RTT.Milliseconds())
		default:
			text += " ok"
		}
		add(st, text, gap, keep)
		if l.Sighted && m.width >= 140 { // all of them or none
			add(st, l.Address, 1, 24) // known by whoever looks: what is wrong comes first
		}
		gap = 1
		if l.Warning != "" && m.width >= 100 {
			add(m.styles.Suspect, "("+warningWords(l.Warning)+")", 1, 25)
		}
		if n := l.RefusedTotal(); n > 0 {
			add(m.styles.Suspect, "refused "+count(n), 1, 40)
		}
	}
}

// warningWords is what a warning is about; the view of the sources has all of it.
func warningWords(warning string) string {
	words, _, _ := strings.Cut(warning, ": ")
	words, _, _ = strings.Cut(words, "; ")
	return fit(words, 32)
}

func (m *Model) replayBadge() string {
	b := " REPLAY"
	if m.replay.speed > 0 && m.replay.speed != 1 {
		b += fmt.Sprintf(" x%g", m.replay.speed)
	}
	switch {
	case m.replay.ended:
		b += " END"
	case m.replay.paused:
		b += " PAUSED"
	}
	return b + " "
}

// dropsText is what we lost ourselves; it makes sessions unknown, so it always
// has its place.
func (m *Model) dropsText() (string, Style) {
	drops := m.window.Self.Drops
	var linked uint64
	for i := range m.window.Links {
		linked += m.window.Links[i].Dropped
	}
	drops = max(drops, linked)
	if !m.have {
		return "", Style{}
	}
	if drops > 0 {
		return "drops " + count(drops), m.styles.Suspect
	}
	return "drops 0", m.styles.Dim
}

// titleText is the terminal's title, at most 20 cells: "9! prod sessionwatch".
func (m *Model) titleText() string {
	const limit = 20
	lead := ""
	if m.have {
		switch see := m.sight(); {
		case m.pulse.still > 0 || see.links > 0 && see.seeing == 0:
			lead = "blind "
		case m.window.Fleet.NeedYou > 999:
			lead = "999+! "
		case m.window.Fleet.NeedYou > 0:
			lead = fmt.Sprintf("%d! ", m.window.Fleet.NeedYou)
		}
	}
	const name = "sessionwatch"
	if room := limit - len(lead) - len(name) - 1; room >= 2 && m.about.Name != "" {
		return lead + fit(m.about.Name, room) + " " + name
	}
	return fit(lead+name, limit)
}
