package ui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/sahilm/fuzzy"
)

// paletteList is every action by name, narrowed down by what is typed.
type paletteList struct {
	in      input
	entries []paletteEntry
	shown   []int // of entries
	sel     int
}

type paletteEntry struct {
	name, key, help, off string
	do                   func(*Model) tea.Cmd
	with                 func(*Model, string) tea.Cmd
}

// openPalette lists what can be done where the screen is now.
func (m *Model) openPalette() tea.Cmd {
	list := &paletteList{}
	in := m.scene()
	for i := range m.actions {
		a := &m.actions[i]
		if a.in&in == 0 && a.keys != "" && a.in&inFirstRun == 0 || a.in&^inInput == 0 || a.name == "palette" {
			continue
		}
		e := paletteEntry{name: a.name, key: m.keys.keyLabel(a.name), help: a.help, do: a.do, with: a.with, off: m.offReason(a)}
		if a.in&in == 0 {
			e.key = "" // the key means something else here
		}
		list.entries = append(list.entries, e)
	}
	list.search()
	m.palette = list
	return nil
}

// search keeps the entries whose name, or help, matches; best first.
func (l *paletteList) search() {
	l.shown, l.sel = l.shown[:0], 0
	text := strings.TrimSpace(l.in.String())
	if name, word, ok := strings.Cut(text, " "); ok {
		for i := range l.entries {
			if l.entries[i].with != nil && l.entries[i].name == name && word != "" {
				l.shown = append(l.shown, i)
				return
			}
		}
	}
	if text == "" {
		for i := range l.entries {
			l.shown = append(l.shown, i)
		}
		return
	}
	seen := map[int]bool{}
	for _, match := range fuzzy.FindFrom(text, entryNames(l.entries)) {
		l.shown = append(l.shown, match.Index)
		seen[match.Index] = true
	}
	lower := strings.ToLower(text)
	for i := range l.entries {
		if !seen[i] && strings.Contains(strings.ToLower(l.entries[i].help), lower) {
			l.shown = append(l.shown, i)
		}
	}
}

type entryNames []paletteEntry

func (e entryNames) String(i int) string { return e[i].name }
func (e entryNames) Len() int            { return len(e) }

func (l *paletteList) move(n int) tea.Cmd {
	if len(l.shown) > 0 {
		l.sel = ((l.sel+n)%len(l.shown) + len(l.shown)) % len(l.shown)
	}
	return nil
}

// takePalette does the chosen action.
func (m *Model) takePalette() tea.Cmd {
	l := m.palette
	if len(l.shown) == 0 {
		return m.refuse("no action is called \"" + l.in.String() + "\"")
	}
	e := l.entries[l.shown[l.sel]]
	m.palette = nil
	if e.off != "" {
		return m.refuse(e.name + ": " + e.off)
	}
	heeded := m.heed(e.name)
	if _, word, ok := strings.Cut(strings.TrimSpace(l.in.String()), " "); ok && e.with != nil {
		return tea.Batch(heeded, e.with(m, strings.TrimSpace(word)))
	}
	return tea.Batch(heeded, e.do(m))
}

// drawPalette fills the body with the matching actions.
func (m *Model) drawPalette(p *painter, rows int) {
	l := m.palette
	first := max(min(l.sel-rows/2, len(l.shown)-rows), 0)
	for i := range rows {
		if at := first + i; at < len(l.shown) {
			m.drawEntry(p, &l.entries[l.shown[at]], at == l.sel)
		} else if i == 0 {
			p.text(m.styles.Dim, "   no action has that name")
		}
		p.line()
	}
}

func (m *Model) drawEntry(p *painter, e *paletteEntry, selected bool) {
	st := Style{}
	if e.off != "" {
		st = m.styles.Dim
	}
	if selected {
		p.begin(m.styles.Cursor)
		p.text(Style{}, ">")
	}
	p.pad(2)
	p.cell(st, e.name, 17)
	p.pad(p.x + 1)
	p.cell(m.styles.Dim, e.key, 9)
	p.pad(p.x + 1)
	text := e.help
	if e.off != "" {
		text = offText(e.off)
	}
	p.text(st, text)
	p.end()
}
