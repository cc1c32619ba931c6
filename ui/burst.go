package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// burstTime and burstKeys tell a burst: nobody types three keys in 10 ms, so
// they are a paste, or were typed ahead.
const (
	burstTime = 10 * time.Millisecond
	burstKeys = 3
)

// burst holds keys that do more than look elsewhere until it is known that
// they are no part of a burst. Moves pass at once, unless keys before them
// still wait: order is never changed.
type burst struct {
	recent  [burstKeys - 1]time.Duration // when the last keys came; newest first
	waiting []tea.KeyPressMsg
	until   time.Duration // a burst goes on until then
	dropped int           // in the present burst
	total   int
}

// arrive notes a key and reports whether it belongs to a burst.
func (b *burst) arrive(now time.Duration) bool {
	in := now < b.until || b.recent[len(b.recent)-1] > 0 && now-b.recent[len(b.recent)-1] < burstTime
	copy(b.recent[1:], b.recent[:])
	b.recent[0] = max(now, 1)
	if in {
		b.until = now + burstTime
	}
	return in
}

// takeKey passes a key on, holds it, or drops it.
func (m *Model) takeKey(k tea.KeyPressMsg) tea.Cmd {
	b := &m.burst
	now := m.opt.Now()
	if b.arrive(now) {
		return m.dropBurst(append(b.waiting, k))
	}
	b.dropped = 0
	if len(b.waiting) == 0 && m.isMove(k) {
		return m.press(k)
	}
	b.waiting = append(b.waiting, k)
	if len(b.waiting) > 1 {
		return nil // the first one's wait is running
	}
	return func() tea.Msg {
		time.Sleep(burstTime)
		return keysSettled{}
	}
}

// settle passes on what waited and was no burst.
func (m *Model) settle() tea.Cmd {
	keys := m.burst.waiting
	m.burst.waiting = nil
	var cmds []tea.Cmd
	for _, k := range keys {
		cmds = append(cmds, m.press(k))
	}
	return tea.Batch(cmds...)
}

// dropBurst lets the moves of a burst through and counts the others.
func (m *Model) dropBurst(keys []tea.KeyPressMsg) tea.Cmd {
	m.burst.waiting = nil
	m.noise()
	var cmds []tea.Cmd
	for _, k := range keys {
		if m.isMove(k) {
			cmds = append(cmds, m.press(k))
			continue
		}
		m.burst.dropped++
		m.burst.total++
	}
	if n := m.burst.dropped; n > 0 {
		m.refuse(count(n) + " keys came faster than anybody types and were dropped")
	}
	return tea.Batch(cmds...)
}

func (m *Model) isMove(k tea.KeyPressMsg) bool {
	a := m.bound[m.scene()][keyName(k)]
	return a != nil && a.move
}
