package ui

import tea "charm.land/bubbletea/v2"

// wheelRows is how far one notch of the wheel goes.
const wheelRows = 3

// wheel moves like the keys do; it never acts.
func (m *Model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	if notch := wheelNotch(msg.Button); m.top() == viewSessions && m.sideWidth() > 0 && msg.X >= m.tableWidth() {
		return m.moveSide(notch * wheelRows)
	}
	switch {
	case m.scene()&(inInput|inQuestion) != 0:
		return nil
	case msg.Button == tea.MouseWheelUp:
		return m.moveBy(-wheelRows)
	case msg.Button == tea.MouseWheelDown:
		return m.moveBy(wheelRows)
	}
	return nil
}

// wheelNotch is 1 down, -1 up, 0 elsewhere.
func wheelNotch(b tea.MouseButton) int {
	switch b {
	case tea.MouseWheelUp:
		return -1
	case tea.MouseWheelDown:
		return 1
	}
	return 0
}

// click puts the cursor on a row.
func (m *Model) click(msg tea.MouseClickMsg) tea.Cmd {
	g := m.geometry()
	row := msg.Y - g.header - g.banners - g.heading
	if msg.Button != tea.MouseLeft || m.scene()&inLists == 0 || row < 0 || row >= len(m.table.visible(g.rows)) || msg.X >= m.tableWidth() {
		return nil
	}
	m.table.goTo(m.table.top+row, m.bodyRows(), m.opt.Now())
	return m.ask()
}
