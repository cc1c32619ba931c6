package ui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/stackdump"
)

// at is the line under the cursor; nil none.
func (m *Model) dumpAt() *dumpLine {
	g := &m.pagers[viewDump]
	if g.cur < 0 || g.cur >= len(m.dump.flat) {
		return nil
	}
	return &m.dump.flat[g.cur]
}

// foldDump opens and closes what the cursor is on: a section, or the calls of a
// library.
func (m *Model) foldDump() tea.Cmd {
	d, l := &m.dump, m.dumpAt()
	if l == nil || l.kind != sectionLine && l.kind != rowLine {
		return m.say("there is nothing to fold here")
	}
	section, key := l.section, foldKey{l.section, l.row}
	fold := l.kind == rowLine && (l.inner >= 0 || len(d.view.Sections[l.section].Rows[l.row].Folded) > 0)
	if fold {
		d.unfold[key] = !d.unfold[key]
	} else {
		d.open[section] = !d.open[section]
	}
	d.flatten()
	for i := range d.flat { // the cursor goes to what was folded
		f := &d.flat[i]
		if f.section == section && (!fold && f.kind == sectionLine || fold && f.kind == rowLine && f.row == key.row && f.inner < 0) {
			m.pager().cur = i
			break
		}
	}
	return nil
}

// placeAt is the file and line that the cursor is on: of its frame, or of the
// culprit of its section, or else of the first frame there.
func (m *Model) placeAt() (path string, line int, ok bool) {
	d, l := &m.dump, m.dumpAt()
	if l == nil || l.kind != sectionLine && l.kind != rowLine {
		return "", 0, false
	}
	rows := d.view.Sections[l.section].Rows
	if l.kind == rowLine {
		r := &rows[l.row]
		if l.inner >= 0 {
			r = &r.Folded[l.inner]
		}
		return r.Path, r.Line, r.Path != ""
	}
	for _, culprit := range []bool{true, false} {
		for i := range rows {
			if r := &rows[i]; r.Kind == stackdump.FrameRow && r.Path != "" && (r.Mark != "" || !culprit) {
				return r.Path, r.Line, true
			}
		}
	}
	return "", 0, false
}

func needsPlace(m *Model) string {
	if _, _, ok := m.placeAt(); !ok {
		return "no file is named here"
	}
	return ""
}

func (m *Model) copyPlace() tea.Cmd {
	path, line, _ := m.placeAt()
	if line > 0 {
		path += fmt.Sprintf(":%d", line)
	}
	return m.copyText(path)
}

func needsEditor(m *Model) string {
	if m.opt.Edit == nil {
		return "this screen cannot lend its terminal to an editor"
	}
	return needsPlace(m)
}

// editorReady is an editor that can be started, or why it cannot.
type editorReady struct {
	run tea.Cmd
	err error
}

// openEditor looks for the file and the editor off the screen's goroutine, then
// lends it the terminal.
func (m *Model) openEditor() tea.Cmd {
	path, line, _ := m.placeAt()
	edit := m.opt.Edit
	return func() tea.Msg {
		run, err := edit(path, line)
		return editorReady{run: run, err: err}
	}
}

func needsOlder(m *Model) string {
	if m.dump.compared != "" {
		return ""
	}
	if m.onlyDumps() && len(m.opt.Dumps) < 2 {
		return "one file is shown; dump-view OLDER NEWER compares two"
	}
	if _, ok := m.olderDump(&m.dump.entry); !ok {
		return "no older dump of " + string(m.dump.entry.ID) + " is there to compare it with"
	}
	return ""
}

// compareDump shows what became of the threads since the next older dump of the
// session; once more shows the dump alone again.
func (m *Model) compareDump() tea.Cmd {
	if m.dump.compared != "" {
		return m.readDump(nil)
	}
	older, _ := m.olderDump(&m.dump.entry)
	what := older.Name
	if !m.onlyDumps() {
		what = "the dump of " + stamp(older.At.UnixNano(), m.window.Now.Wall)
	}
	m.say("comparing it with " + what)
	return m.readDump(&older)
}

// toggleRaw shows the text as it was taken.
func (m *Model) toggleRaw() tea.Cmd {
	d := &m.dump
	d.showRaw = !d.showRaw
	d.flatten()
	g := m.pager()
	g.cur, g.top = 0, 0
	return nil
}

// groupDump goes to the next way of grouping.
func (m *Model) groupDump() tea.Cmd {
	d := &m.dump
	d.order = (d.order + 1) % dumpOrders
	d.flatten()
	m.pager().cur, m.pager().top = 0, 0
	return m.say("stacks " + d.order.String())
}

func needsSections(m *Model) string {
	if m.dump.showRaw {
		return "this is the raw text; " + m.keys.firstKey("raw-dump") + " shows its stacks"
	}
	return needsDumpText(m)
}

func needsDumpText(m *Model) string {
	if m.dump.view == nil {
		return strings.TrimSpace("the dump is not read yet " + m.dump.trouble)
	}
	return ""
}
