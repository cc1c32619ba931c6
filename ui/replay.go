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
		if r.Paused() {
			r.Resume()
		} else {
			r.Pause()
		}
	})
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
