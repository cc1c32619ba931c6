package ui

import (
	"path/filepath"

	tea "charm.land/bubbletea/v2"
)

// onlyDumps: the screen was opened on dumps out of files, and watches nothing.
func (m *Model) onlyDumps() bool { return len(m.opt.Dumps) > 0 }

// needsSessions is the reason of what makes sense of sessions alone.
func needsSessions(m *Model) string {
	if m.onlyDumps() {
		return "a file is shown here, and no session is watched"
	}
	return ""
}

// openFiles shows the newer file, compared with the older one if there are two.
func (m *Model) openFiles() tea.Cmd {
	m.about = About{Name: filepath.Base(m.opt.Dumps[0].Name)}
	m.showDump(m.opt.Dumps[0])
	if older, ok := m.olderDump(nil); ok {
		return m.readDump(&older)
	}
	return m.readDump(nil)
}

// fileName names a file: without its directory where there is no room.
func fileName(path string, room int) string {
	if cells(path) > room {
		path = filepath.Base(path)
	}
	return fitMiddle(path, room)
}
