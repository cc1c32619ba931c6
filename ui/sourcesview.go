package ui

import (
	"fmt"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const sourceLabels = 9

// drawSourcesView tells all about how well we see: each link, what was refused
// or dropped, and how we do ourselves.
func (m *Model) drawSourcesView(p *painter) {
	m.drawText(p, m.bodyLines(), func(p *painter) {
		for i := range m.window.Links {
			l := &m.window.Links[i]
			p.text(m.styles.Title, " "+l.Source.Title()+"  "+orDash(l.Address))
			p.text(m.styles.Dim, "  "+l.Origin)
			p.line()
			m.drawFacts(p, m.linkFacts(l))
		}
		p.text(m.styles.Title, " ourselves")
		p.line()
		m.drawFacts(p, m.selfFacts())
		p.text(m.styles.Title, " settling")
		p.line()
		m.drawFacts(p, m.ledgerFacts())
	})
}

func (m *Model) drawFacts(p *painter, facts []fact) {
	for i := range facts {
		m.drawFact(p, &facts[i], sourceLabels, 4)
	}
	p.line()
}

func (m *Model) linkFacts(l *watchdog.Link) []fact {
	now := m.window.Now.Wall
	link := l.Phase.String()
	if l.Phase != watchdog.LinkUp {
		link = linkTrouble(l)
	}
	if l.Detail != "" {
		link += ": " + l.Detail
	}
	seen := "in sight since " + wall(now-int64(max(l.Since, 0)), now)
	means := meansNothing
	if !l.Sighted {
		means = meansSuspect
		seen = "blind since " + wall(now-int64(max(l.Since, 0)), now) + ": " + firstOf(l.Reason, "no answer yet")
	}
	trip := "never answered"
	if l.LastTrip >= 0 {
		trip = "answered " + age(l.LastTrip) + " ago, in " + fmt.Sprintf("%.1f ms", float64(l.RTT.Microseconds())/1000)
	}
	beats := count(l.Beats)
	if l.Source == watchdog.SourceRedis {
		beats += ", from " + count(l.Keys) + " keys"
	}
	out := []fact{{label: "link", text: link}, {"sight", seen, means}, {label: "trip", text: trip}, {label: "beats", text: beats}}
	dropped := fact{label: "dropped", text: "0"}
	if l.Dropped > 0 {
		dropped = fact{"dropped", count(l.Dropped) + " lost by ourselves: it makes sessions unknown, never stalled", meansSuspect}
	}
	out = append(out, dropped, refusedFact(l))
	if l.Warning != "" {
		out = append(out, fact{"warning", l.Warning, meansSuspect})
	}
	return out
}

// refusedFact counts what did not count as a beat, by kind.
func refusedFact(l *watchdog.Link) fact {
	if l.RefusedTotal() == 0 && l.Fields == 0 {
		return fact{label: "refused", text: "0"}
	}
	var parts []string
	for kind := range watchdog.RefusalCount {
		if n := l.Refused[kind]; n > 0 {
			parts = append(parts, count(n)+" "+kind.String())
		}
	}
	text := count(l.RefusedTotal())
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ") + "; last " + orDash(l.LastRefusalID) + " (" + l.LastRefusal.String() + ")"
	}
	if l.Fields > 0 {
		text += "; " + count(l.Fields) + " wrong optional fields left out"
	}
	return fact{"refused", text, meansSuspect}
}

func (m *Model) selfFacts() []fact {
	s, now := &m.window.Self, m.window.Now
	health := fact{label: "health", text: "on time"}
	if s.Score > 0 {
		health = fact{"health", lateText(s), meansSuspect}
	}
	watching := "since " + wall(m.window.Started.Wall, now.Wall)
	if s.Suspended > 0 {
		watching += ", " + age(s.Suspended) + " of it asleep"
	}
	out := []fact{
		health, {label: "watching", text: watching},
		{label: "beats", text: count(s.Beats) + " taken, " + count(s.Coalesced) + " merged in our queue, " + count(s.Queue) + " wait now"},
	}
	out = append(out, m.loopFacts()...)
	if s.Shed > 0 {
		out = append(out, fact{"shed", count(s.Shed) + " unknown ids beyond the limits", meansSuspect})
	}
	if m.window.RefusedCommands.Total() > 0 {
		out = append(out, fact{"refused", "commands that were not obeyed here: " + m.window.RefusedCommands.String(), meansSuspect})
	}
	if m.burst.total > 0 {
		out = append(out, fact{label: "keys", text: count(m.burst.total) + " dropped that came faster than anybody types"})
	}
	return out
}
