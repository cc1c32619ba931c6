package ui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// releaseLimit is how long the source has to answer.
const releaseLimit = 10 * time.Second

// releaseAnswered says how many sessions were let go.
type releaseAnswered struct {
	gen uint64
	n   int
	err error
}

// needsHeld refuses before any question.
func needsHeld(m *Model) string {
	switch {
	case m.about.Replay != nil:
		return "releasing: off, this is a recording"
	case m.about.ReadOnly:
		return "releasing: off, " + m.contextName() + " is READ-ONLY"
	case m.feed == nil:
		return "nothing is watched yet"
	case m.held() == 0:
		return "nothing is held"
	}
	return ""
}

func (m *Model) openRelease() tea.Cmd { return m.openReleaseWith("") }

// openReleaseWith asks why what is held should be settled. The reason is typed
// and stands in the record of events.
func (m *Model) openReleaseWith(reason string) tea.Cmd {
	gen, asked := m.gen, m.held()
	m.prompt = &prompt{
		label: "reason", hint: "RELEASE " + count(asked) + " held: settled lost unless they beat. Why? esc: not", in: newInput(reason),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, text string) (tea.Cmd, bool) {
			switch n := m.held(); {
			case gen != m.gen || n == 0:
				return m.refuse("nothing was released: nothing is held any more"), true
			case text == "":
				m.prompt.err = "type why they are really gone; it is kept with the release"
				return nil, false
			case n > asked: // it was answered for fewer
				m.prompt.err = count(n) + " are held now, not " + count(asked) + "; enter once more releases all of them"
				asked = n
				return nil, false
			}
			return m.release(text), true
		},
	}
	return nil
}

// release lets what is held go, off the screen's goroutine.
func (m *Model) release(reason string) tea.Cmd {
	feed, gen := m.feed, m.gen
	m.say("releasing " + count(m.held()))
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
		defer cancel()
		n, err := feed.Release(ctx, reason)
		return releaseAnswered{gen: gen, n: n, err: err}
	}
}

func (m *Model) released(msg *releaseAnswered) tea.Cmd {
	switch {
	case msg.gen != m.gen:
		return nil
	case msg.err != nil:
		return m.refuse("not released: " + msg.err.Error())
	case msg.n == 0:
		return m.say("nothing was held any more")
	}
	return m.say("released: " + counted(msg.n, "session") + " settled unless beating again")
}
