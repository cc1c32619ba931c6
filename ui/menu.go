package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/query"
)

// menu is a short list to choose from, in place of the body.
type menu struct {
	title string
	sel   int
	items func(*Model) []menuItem // asked anew each time, so that marks are right
}

type menuItem struct {
	name, help string
	on         bool
	stay       bool // enter leaves the menu open
	do         func(*Model) tea.Cmd
}

func (m *Model) openMenu(title string, items func(*Model) []menuItem) tea.Cmd {
	m.menu = menu{title: title, items: items}
	for i, it := range items(m) {
		if it.on {
			m.menu.sel = i
			break
		}
	}
	return m.openView(viewMenu)
}

// chooseMenu does what the cursor is on.
func (m *Model) chooseMenu(stay bool) tea.Cmd {
	items := m.menu.items(m)
	if m.menu.sel >= len(items) {
		return nil
	}
	it := items[m.menu.sel]
	if !stay && !it.stay {
		m.closeView()
	}
	return it.do(m)
}

func (m *Model) drawMenu(p *painter) {
	items := m.menu.items(m)
	p.text(m.styles.Title, " "+m.menu.title)
	p.line()
	rows := m.bodyLines() - 1
	first := max(min(m.menu.sel-rows/2, len(items)-rows), 0)
	for i := range rows {
		if at := first + i; at < len(items) {
			it := &items[at]
			if at == m.menu.sel {
				p.begin(m.styles.Cursor)
				p.text(Style{}, ">")
			}
			p.pad(2)
			mark := "[ ]"
			if it.on {
				mark = "[x]"
			}
			p.text(Style{}, mark)
			p.pad(6)
			p.cell(Style{}, it.name, 14)
			p.pad(p.x + 1)
			p.text(m.styles.Dim, it.help)
			p.end()
		}
		p.line()
	}
}

// openColumnsMenu shows and hides columns, whatever the width says.
func (m *Model) openColumnsMenu() tea.Cmd {
	return m.openMenu("COLUMNS  enter or space: show and hide; esc: back", func(m *Model) []menuItem {
		l := m.layoutFor(m.tableWidth())
		shown := map[string]bool{}
		for i := range l.cols {
			shown[l.cols[i].name] = true
		}
		var items []menuItem
		for _, c := range m.columns.all {
			if c.width == 0 {
				continue
			}
			items = append(items, menuItem{name: c.name, help: c.help, on: shown[c.name], stay: true, do: func(m *Model) tea.Cmd {
				m.columns.want[c.name] = !shown[c.name]
				m.layout = layout{}
				if !shown[c.name] && !m.columnFits(c.name) {
					m.refuse(c.name + " is wanted, but this screen is too narrow for it; hide another one")
				}
				return nil
			}})
		}
		return append(items, menuItem{name: "by the width", help: "forget these choices: the width of the screen says which columns there are", stay: true, do: func(m *Model) tea.Cmd {
			clear(m.columns.want)
			m.layout = layout{}
			return nil
		}})
	})
}

func (m *Model) columnFits(name string) bool {
	for _, c := range m.layoutFor(m.tableWidth()).cols {
		if c.name == name {
			return true
		}
	}
	return false
}

// openSortMenu chooses the order.
func (m *Model) openSortMenu() tea.Cmd {
	return m.openMenu("SORT  enter: take; esc: back; in the table I inverts", func(m *Model) []menuItem {
		var items []menuItem
		for i, c := range query.SortKeys() {
			items = append(items, menuItem{name: c.Name, help: c.Doc, on: i == m.query.sort, do: func(m *Model) tea.Cmd { return m.setSort(i) }})
		}
		return items
	})
}
