package ui

import (
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/query"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// helpLine is one line of help: a key and what it does, or a word.
type helpLine struct {
	heading     bool
	left, right string
	off         string
	glyph       string
	means       meaning
}

func (l *helpLine) text() string { return strings.ToLower(l.left + " " + l.right + " " + l.off) }

var groupTitles = map[string]string{
	"start": "START", "look": "LOOK", "move": "MOVE", "views": "VIEWS", "alerts": "ALERTS", "agents": "AGENTS, outside a question only capitals touch them",
	"replay": "REPLAY", "input": "WHILE TYPING", "screen": "SCREEN",
}

// helpLines is generated from the table of actions and from the verdicts.
func (m *Model) helpLines() []helpLine {
	var out []helpLine
	group := ""
	for _, name := range []string{"look", "move", "views", "alerts", "agents", "replay", "start", "input", "screen"} {
		for i := range m.actions {
			a := &m.actions[i]
			if a.group != name {
				continue
			}
			if group != name {
				group = name
				out = append(out, helpLine{heading: true, left: groupTitles[name]})
			}
			key := m.keys.keyLabel(a.name)
			if key == "" {
				key = ":" + a.name
			}
			out = append(out, helpLine{left: key, right: a.where() + a.help, off: m.offReason(a)})
		}
	}
	out = append(out, helpLine{heading: true, left: "VERDICTS; :ascii draws them with other symbols"})
	for v := range watchdog.VerdictCount {
		glyph, means := m.glyphs.verdict(v)
		out = append(out, helpLine{left: v.String(), right: v.Meaning(), glyph: glyph, means: means})
	}
	out = append(out, helpLine{heading: true, left: "FILTER, every word must hold; ! before one means not"})
	for _, f := range query.Fields() {
		out = append(out, helpLine{left: f.Name, right: f.Doc + ":  " + f.Example})
	}
	out = append(out, helpLine{heading: true, left: "COLUMNS"})
	for _, c := range m.columns.all {
		out = append(out, helpLine{left: c.name, right: c.help})
	}
	return out
}

// fewScenes is how many scenes help names; what works in more works nearly
// everywhere.
const fewScenes = 4

// where is "in events and logs: " of an action that works in a few views only;
// empty: its heading says enough, or the table has it too.
func (a *action) where() string {
	scenes := a.in.scenes()
	if a.in&inLists != 0 || a.in == inInput || a.in == inFirstRun || len(scenes) > fewScenes {
		return ""
	}
	names := make([]string, len(scenes))
	for i, one := range scenes {
		names[i] = sceneNames[one]
	}
	text := "in " + strings.Join(names[:len(names)-1], ", ")
	if len(names) > 1 {
		text += " and "
	}
	return text + names[len(names)-1] + ": "
}

// drawHelp draws the lines that contain every word that is searched for.
func (m *Model) drawHelp(p *painter) {
	words := strings.Fields(strings.ToLower(m.search))
	m.drawText(p, m.bodyLines(), func(p *painter) {
		var heading *helpLine
		shown := 0
		lines := m.helpLines()
		for i := range lines {
			l := &lines[i]
			if l.heading {
				heading = l
				continue
			}
			if !containsAll(l.text(), words) {
				continue
			}
			if heading != nil {
				p.text(m.styles.Title, " "+heading.left)
				p.line()
				heading = nil
			}
			m.drawHelpLine(p, l)
			shown++
		}
		if shown == 0 {
			p.text(Style{}, " nothing in help contains \""+m.search+"\"; esc shows all")
			p.line()
		}
	})
}

// offText is "off: prod is READ-ONLY" of a reason as it is told when the key is pressed:
// what was wanted stands beside it here.
func offText(reason string) string {
	if _, why, ok := strings.Cut(reason, ": off, "); ok {
		reason = why
	}
	return "off: " + reason
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func (m *Model) drawHelpLine(p *painter, l *helpLine) {
	st := Style{}
	if l.off != "" {
		st = m.styles.Dim
	}
	p.pad(2)
	if l.glyph != "" {
		p.glyph(m.styles.of(l.means), l.glyph)
		p.pad(4)
		p.cell(m.styles.of(l.means), l.left, 12)
	} else {
		p.cell(st, l.left, 14)
	}
	p.pad(17)
	text := l.right
	if l.off != "" {
		text += "  (" + offText(l.off) + ")"
	}
	p.wrapped(st, text, 17, 4)
	p.line()
}
