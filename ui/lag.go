package ui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// lagShown is how late a loop must be to be worth a place in the header.
const lagShown = 100 * time.Millisecond

// lagText tells how late our own loops are: the screen's, as its watchdog
// measured it, and the engine's. Empty: neither is.
func (m *Model) lagText() string {
	var parts []string
	if m.opt.Lag != nil {
		if lag := m.opt.Lag(); lag > lagShown {
			parts = append(parts, "screen "+lag.Round(10*time.Millisecond).String())
		}
	}
	// A score says it too, and what follows from it.
	if self := &m.window.Self; self.Score == 0 && self.Lag > lagShown {
		parts = append(parts, "engine "+self.Lag.Round(10*time.Millisecond).String())
	}
	if len(parts) == 0 {
		return ""
	}
	return "lag " + strings.Join(parts, ", ")
}

// A live engine's time goes on once a second, so that one whose time stands still
// for longer is blocked: it cannot say so itself. The first window may take longer.
const (
	blockedAfter  = 1800 * time.Millisecond
	blockedAtOnce = 5 * time.Second // before the first window, and of an engine elsewhere
	// lookLate is how late a look may be before it is we who were held up.
	lookLate = 500 * time.Millisecond
)

// pulse is when the engine's time last went on, by the screen's own clock.
type pulse struct {
	at     time.Duration
	engine time.Duration // Mono of the newest window
	due    time.Duration // of the next look
	still  time.Duration // how long it stands; 0: it goes on
	look   uint64        // numbers the looks
}

// engineLooked is the screen's own look at the engine, which no window brings.
type engineLooked struct{ gen, look uint64 }

// watchEngine begins to look whether the engine of a new feed goes on.
func (m *Model) watchEngine() tea.Cmd {
	m.pulse = pulse{at: m.opt.Now(), look: m.pulse.look}
	return m.lookAgain(blockedAtOnce)
}

func (m *Model) lookAgain(in time.Duration) tea.Cmd {
	m.pulse.due = m.opt.Now() + in
	m.pulse.look++ // whatever is under way is void
	looked, gone := engineLooked{m.gen, m.pulse.look}, m.gone
	return func() tea.Msg {
		timer := time.NewTimer(in)
		defer timer.Stop()
		select {
		case <-gone:
			return nil
		case <-timer.C:
			return looked
		}
	}
}

// takePulse notes that time went on. A window alone proves nothing: what was asked
// for is answered though the engine stands. What it brings may have been true a
// while ago: the engine's own time says when.
func (m *Model) takePulse(w *watchdog.Window) tea.Cmd {
	first := !m.have
	if !first && w.Now.Mono == m.pulse.engine {
		return nil
	}
	now := m.opt.Now()
	at := m.pulse.at + w.Now.Mono - m.pulse.engine
	if behind := now - at; first || behind < 0 || behind > blockedAfter {
		at = now
	} else {
		at += behind / 16 // clocks drift apart
	}
	m.pulse.at, m.pulse.engine, m.pulse.still = at, w.Now.Mono, 0
	if first {
		return m.lookAgain(blockedAfter)
	}
	return nil
}

// lookAtEngine judges whether the engine goes on. One look is under way at a time,
// so that an idle screen does next to nothing.
func (m *Model) lookAtEngine(msg engineLooked) tea.Cmd {
	if msg.gen != m.gen || msg.look != m.pulse.look || m.feed == nil || m.ended {
		return nil
	}
	now, limit := m.opt.Now(), blockedAfter
	if !m.have || m.about.Elsewhere {
		limit = blockedAtOnce
	}
	switch quiet := now - m.pulse.at; {
	case m.about.Replay != nil: // its time is its own
		m.pulse.still = 0
		return m.lookAgain(limit)
	case now-m.pulse.due > lookLate && m.pulse.still == 0:
		m.pulse.at = now // we were held up ourselves: a window may wait to be read
		return m.lookAgain(limit)
	case quiet < limit:
		return m.lookAgain(limit - quiet)
	default:
		m.pulse.still = quiet
	}
	return tea.Batch(m.lookAgain(time.Second), m.retitle())
}

// blockedLine says that what stands below is old, whatever it says.
func (m *Model) blockedLine() []segment {
	s := &m.styles
	out := []segment{{s.Act, "ENGINE BLOCKED", 0, 99}, {s.Act, "for " + age(m.pulse.still), 1, 98}}
	if !m.have {
		return append(out, segment{Style{}, "nothing is known yet", 2, 8})
	}
	return append(out, segment{Style{}, "verdicts are of " + clock(m.window.Now.Wall) + ", not live", 2, 8})
}

// loopFacts tell how late our own loops are, what waits, and what memory we take.
func (m *Model) loopFacts() []fact {
	engine, means := "on time", meansNothing
	switch lag := m.window.Self.Lag; {
	case m.pulse.still > 0:
		engine, means = "BLOCKED for "+age(m.pulse.still), meansAct
	case lag > lagShown:
		engine, means = "late by "+lag.Round(10*time.Millisecond).String(), meansSuspect
	}
	out := []fact{{"engine", engine, means}}
	if m.opt.Lag != nil {
		screen := fact{label: "screen", text: "on time"}
		if lag := m.opt.Lag(); lag > lagShown {
			screen = fact{"screen", "late by " + lag.Round(10*time.Millisecond).String(), meansSuspect}
		}
		out = append(out, screen)
	}
	oldest := fact{label: "waits", text: "nothing for longer than a tick"}
	if d := m.window.Self.Oldest; d > 2*lagShown {
		oldest = fact{"waits", "the oldest event not taken in yet for " + d.Round(10*time.Millisecond).String(), meansSuspect}
	}
	out = append(out, oldest)
	lost := fact{label: "drops", text: "0"}
	if n := m.window.Self.Drops; n > 0 {
		lost = fact{"drops", count(n), meansSuspect}
	}
	out = append(out, lost)
	if m.opt.Memory != nil {
		out = append(out, fact{label: "memory", text: count(m.opt.Memory()>>20) + " MiB"})
	}
	return out
}
