package ui

import tea "charm.land/bubbletea/v2"

// replayDo runs something on the recording, and reports how it stands then.
func (m *Model) replayDo(do func(Replay)) tea.Cmd {
	r := m.about.Replay
	return m.runErrand(func() any {
		do(r)
		return replayChanged{state: stateOf(r)}
	})
}

func needsReplay(m *Model) string {
	if m.about.Replay == nil {
		return "this is no recording"
	}
	return ""
}

func (m *Model) replayPause() tea.Cmd {
	return m.replayDo(func(r Replay) {
		ended, _ := r.End()
		switch {
		case ended:
			r.Step(-farBack) // there is nothing to go on with: once more from the start
			r.Resume()
		case r.Paused():
			r.Resume()
		default:
			r.Pause()
		}
	})
}

// replayWord is what replayPause does now.
func replayWord(m *Model) string {
	switch {
	case m.replay.ended:
		return "once more"
	case m.replay.paused:
		return "play"
	}
	return "pause"
}

// farBack is more steps than a recording has.
const farBack = 1 << 30

// replayPlace is where in the recording we are: "12m of 40m".
func (m *Model) replayPlace() string {
	if m.about.Replay == nil || !m.have {
		return ""
	}
	place := age(max(m.window.Now.Mono-m.window.Started.Mono, 0))
	if m.about.Length > 0 {
		place += " of " + age(m.about.Length)
	}
	return place
}

func (m *Model) replayStep(n int) tea.Cmd { return m.replayDo(func(r Replay) { r.Step(n) }) }

// The speeds between which the keys move.
const (
	slowestReplay = 1.0 / 16
	fastestReplay = 4096
)

func (m *Model) replaySpeed(factor float64) tea.Cmd {
	return m.replayDo(func(r Replay) { r.SetSpeed(min(max(r.Speed()*factor, slowestReplay), fastestReplay)) })
}
