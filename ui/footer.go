package ui

// drawFooter writes the prompt, a note, or the keys that matter here.
func (m *Model) drawFooter(p *painter, lines int) {
	if m.scene()&inInput != 0 {
		m.drawPrompt(p, lines)
		return
	}
	if m.scene() == inQuestion {
		m.drawAnswers(p)
		p.line()
		return
	}
	if m.note.text != "" {
		st := Style{}
		if m.note.bad {
			st = m.styles.Suspect
		}
		p.pad(1)
		p.text(st, m.note.text)
		p.line()
		return
	}
	m.drawKeys(p)
	p.line()
}

// footWord says what a key does now.
func (m *Model) footWord(a *action) string {
	if a.now != nil {
		return a.now(m)
	}
	return a.foot
}

// inFooter reports whether a key is worth a place there now.
func (m *Model) inFooter(a *action, in scene) bool {
	switch {
	case a.foot == "" || a.in&^a.spare&in == 0 || m.keys.firstKey(a.name) == "":
		return false
	case a.name == m.views[m.top()].name && a.group == "views": // we are there
		return false
	case a.name == "leave" && m.onlyDumps() && len(m.layers) == 1: // it quits
		return false
	}
	return m.offReason(a) == "" && m.footWord(a) != ""
}

// drawKeys lists the keys that work here, in the order of the table of
// actions. How to get help and out always stays.
func (m *Model) drawKeys(p *painter) {
	in := m.scene()
	var shown []*action
	used := 1
	width := func(a *action) int { return len(m.keys.firstKey(a.name)) + 1 + len(m.footWord(a)) + 2 }
	for _, last := range []bool{true, false} {
		for i := range m.actions {
			a := &m.actions[i]
			if (a.group == "screen") != last || !m.inFooter(a, in) || used+width(a)-2 > m.width {
				continue
			}
			shown = append(shown, a)
			used += width(a)
		}
	}
	p.pad(1)
	first := true
	for _, last := range []bool{false, true} {
		for _, a := range shown {
			if (a.group == "screen") != last {
				continue
			}
			if !first {
				p.pad(p.x + 2)
			}
			first = false
			p.text(m.styles.Dim, m.keys.firstKey(a.name))
			p.pad(p.x + 1)
			p.text(Style{}, m.footWord(a))
		}
	}
}
