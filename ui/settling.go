package ui

import (
	"fmt"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// settlingSegments say in the header who settles, how long ago that was last
// tried, and what holds it.
func (m *Model) settlingSegments(add func(Style, string, int, int)) {
	if m.about.Replay != nil {
		return
	}
	s, l := &m.styles, &m.window.Ledger
	if n := m.held(); n > 0 {
		add(s.Suspect, "HELD "+count(n), 2, 92)
	}
	switch {
	case !l.Known:
	case l.Unnamed:
		add(s.Dim, "no ledger yet", 2, 20)
	case l.Ready:
		add(s.Dim, "ledger "+l.Authority.Name, 2, 26)
	case l.Reason == "":
		add(s.Dim, "ledger opening", 2, 26)
	default:
		add(s.Suspect, "LEDGER AWAY: settling waits", 2, 91)
	}
	switch {
	case l.Sweeping:
		st, keep := s.Dim, 75
		if l.Overdue {
			st, keep = s.Act, 93
		} else if l.PassWhy != "" {
			st, keep = s.Suspect, 86
		}
		add(st, sweepText(l), 2, keep)
		if m.about.Sweeper != "" {
			add(s.Dim, "by "+m.about.Sweeper, 1, 15)
		}
	case l.Known:
		add(s.Dim, "nobody here sweeps", 2, 21)
	case m.about.Sweeper != "":
		add(s.Dim, "settled by "+m.about.Sweeper, 2, 20)
	case m.window.Total > 0:
		add(s.Dim, "nobody here settles", 2, 20)
	}
}

// sweepText is "sweep 10s", or what is wrong with the passes. A good one moves
// in steps, so that an unchanged fleet stands still.
func sweepText(l *watchdog.LedgerView) string {
	last := "never"
	switch {
	case l.LastPass >= 0 && l.Overdue:
		last = age(l.LastPass)
	case l.LastPass >= 0:
		last = age(coarse(l.LastPass))
	case !l.Overdue:
		last = "not yet"
	}
	switch {
	case l.Overdue:
		return "sweep " + last + " OVERDUE"
	case l.PassWhy != "":
		return "sweep " + last + ", the last one failed"
	}
	return "sweep " + last
}

// held is how many silent sessions are held from being settled.
func (m *Model) held() int {
	n := 0
	for i := range m.window.Groups {
		if m.window.Groups[i].HeldFor != 0 {
			n += m.window.Groups[i].N
		}
	}
	return n
}

// ledgerFacts tell how ends are settled, and why they are not.
func (m *Model) ledgerFacts() []fact {
	l := &m.window.Ledger
	who := firstOf(m.about.Sweeper, "nobody: what ends is not settled by us")
	if !l.Known {
		return []fact{{label: "settles", text: who}, {label: "ledger", text: "none was opened here: ends are read from beats, and written by nobody here"}}
	}
	authority := fact{label: "ledger", text: firstOf(l.Authority.String(), "not found yet")}
	switch {
	case l.Ready:
	case l.Unnamed:
		authority.text = "none: " + l.Reason
	case l.Reason != "":
		authority = fact{"ledger", "AWAY, settling waits: " + l.Reason, meansSuspect}
	default:
		authority.text += ", being opened"
	}
	out := []fact{{label: "settles", text: who}, authority}
	if l.Warning != "" {
		out = append(out, fact{"warning", l.Warning, meansSuspect})
	}
	sweep := fact{label: "sweep", text: "nobody sweeps here: only what is supervised here is settled"}
	if l.Sweeping {
		sweep.text = strings.TrimPrefix(sweepText(l), "sweep ")
		if l.LastPass >= 0 {
			sweep.text = "last good pass " + sweep.text + " ago"
			sweep.text = strings.Replace(sweep.text, " OVERDUE ago", " ago: OVERDUE", 1)
			sweep.text = strings.Replace(sweep.text, ", the last one failed ago", " ago, the last one failed", 1)
		}
		if l.PassWhy != "" {
			sweep.text += ": " + l.PassWhy
		}
		if l.Overdue {
			sweep.means = meansAct
		} else if l.PassWhy != "" {
			sweep.means = meansSuspect
		}
	}
	out = append(out, sweep, fact{label: "settled", text: count(l.Settled) + " by this process, " + count(l.Waiting) + " are due and wait"})
	if n := m.held(); n > 0 {
		out = append(out, fact{"held", count(n) + " went silent together: they are not settled meanwhile; :release lets them go", meansSuspect})
	}
	return append(out, fact{label: "late", text: count(l.Late) + " beats in quarantine, " + count(m.window.Fleet.LateBeats) + " of ended or overtaken executions seen: no sign of life"})
}

// settledText is "settled lost 02:34:10Z by sweeper serve@eu1-01/812: 3 beats
// missed".
func (m *Model) settledText(t *watchdog.TerminalView) string {
	if t.Foreign {
		return "a foreign terminal record stands: it does not decode, or nobody that is trusted signed it. It is no outcome, and blocks settling" + writerText(t)
	}
	text := "settled " + t.Outcome.String()
	if t.Settled != 0 {
		text += " " + wall(t.Settled, m.window.Now.Wall)
	}
	if t.SettledBy != "" {
		text += " by " + string(t.SettledBy)
	}
	if t.Writer != "" {
		text += " " + t.Writer
	}
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	if t.Overrules {
		text += ". A foreign terminal record stands at its place, which is no outcome"
	}
	return text
}

func writerText(t *watchdog.TerminalView) string {
	if t.Writer == "" {
		return ""
	}
	return " (it names " + t.Writer + ")"
}

// endFacts tell of the record that ended a generation, and of beats that came
// after; none if it has not ended.
func (m *Model) endFacts(d *watchdog.Detail) []fact {
	var out []fact
	if d.Terminal != nil {
		f := fact{label: "end", text: m.settledText(d.Terminal)}
		if d.Terminal.Foreign {
			f.means = meansSuspect
		}
		out = append(out, f)
	}
	if d.LateBeats > 0 {
		out = append(out, fact{"late", quarantineText(d.LateBeats) + ": no sign of life", meansSuspect})
	}
	return out
}

func quarantineText(n uint64) string {
	if n == 1 {
		return "1 late beat in quarantine"
	}
	return fmt.Sprintf("%s late beats in quarantine", count(n))
}

// endFact is endFacts on one line.
func (m *Model) endFact(d *watchdog.Detail) (fact, bool) {
	all := m.endFacts(d)
	switch len(all) {
	case 0:
		return fact{}, false
	case 1:
		all[0].label = "end"
		return all[0], true
	}
	return fact{"end", quarantineText(d.LateBeats) + "; " + all[0].text, meansSuspect}, true
}

// settlingFacts say why a session that should be settled is not, or will not be.
func (m *Model) settlingFacts(d *watchdog.Detail) []fact {
	l := &m.window.Ledger
	switch {
	case d.Verdict.Ended() && d.Terminal != nil || m.about.Replay != nil:
	case l.Known && !l.Ready && !l.Unnamed && l.Reason != "":
		return []fact{{"settling", "waits, the ledger is away: " + l.Reason, meansSuspect}}
	case l.Sweeping && l.Overdue:
		return []fact{{"settling", "is late: " + sweepText(l) + becauseOf(l.PassWhy), meansAct}}
	case !l.Sweeping && m.about.Sweeper == "" && d.Verdict == watchdog.Silent:
		return []fact{{label: "settling", text: "nobody sweeps here: it stays silent until a serve settles it"}}
	}
	return nil
}

func becauseOf(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
