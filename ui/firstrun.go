package ui

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// firstRun is the page that stands there until the first beat.
type firstRun struct {
	sel int
	err string // why the last opening failed
}

// firstRunShown: nothing is watched, or nothing was seen yet. The first beat
// turns the page into the table. What was started here is about to beat: nobody
// who named a command wants to choose what to watch.
func (m *Model) firstRunShown() bool {
	if m.feed == nil {
		return !m.onlyDumps()
	}
	return m.have && !m.ended && m.window.Total == 0 && m.about.Replay == nil && len(m.about.Supervised) == 0
}

// choices are the actions that the page offers.
func (m *Model) choices() []*action {
	var out []*action
	for i := range m.actions {
		if a := &m.actions[i]; a.in == inFirstRun {
			out = append(out, a)
		}
	}
	return out
}

var choiceTexts = map[string]string{
	"demo":      "demo: simulated agents, every verdict within 20 s, nothing kept",
	"bus":       "start a bus on 127.0.0.1 (4222, 6379) that local agents can join",
	"supervise": "supervise a command:   sessionwatch run -- python3 agent.py",
	"connect":   "connect elsewhere: address or context",
	"recording": "open a recording; a bundled night needs no server",
}

func (m *Model) drawFirstRun(p *painter) {
	if m.feed == nil && m.opening.gen != 0 {
		p.line()
		p.text(m.styles.Dim, "   opening "+m.opening.target.what()+"; "+m.keys.firstKey("undo")+" gives up")
		p.line()
		return
	}
	end := m.bodyLines() + p.lines
	for i := range m.window.Links {
		m.drawLinkRow(p, &m.window.Links[i])
	}
	if m.feed == nil {
		p.text(m.styles.Dim, " no server is asked yet: choose what to watch")
		p.line()
	}
	if m.first.err != "" {
		p.pad(1)
		p.wrapped(m.styles.Suspect, m.first.err, 1, 3)
		p.line()
	}
	if end-p.lines > 8 {
		p.line()
	}
	for i, a := range m.choices() {
		m.drawChoice(p, a, i == m.first.sel)
	}
	if end-p.lines < 4 {
		return
	}
	p.line()
	how := "First beat, from another window once a bus is up:"
	if m.anyLinkUp() {
		how = "First beat, from another window:"
	}
	p.text(Style{}, " "+how)
	p.line()
	p.text(m.styles.Title, "   sessionwatch beat hello --task \"it works\"")
	p.line()
}

func (m *Model) drawChoice(p *painter, a *action, selected bool) {
	st := Style{}
	text := choiceTexts[a.name]
	if off := m.offReason(a); off != "" {
		st = m.styles.Dim
		text += "  (" + offText(off) + ")"
	}
	if selected {
		p.begin(m.styles.Cursor)
		p.text(Style{}, " > ")
	}
	p.pad(3)
	p.cell(m.styles.Title, m.keys.firstKey(a.name), 2)
	p.pad(p.x + 1)
	p.text(st, text)
	p.end()
	p.line()
}

func (m *Model) anyLinkUp() bool {
	return slices.ContainsFunc(m.window.Links, func(l watchdog.Link) bool { return l.Phase == watchdog.LinkUp })
}

// drawLinkRow says where a server is looked for, who said so, and how it goes.
func (m *Model) drawLinkRow(p *painter, l *watchdog.Link) {
	p.pad(1)
	p.cell(m.styles.Title, l.Source.Title(), 6)
	p.pad(p.x + 1)
	address := max(min(32, p.width-8-34), 12)
	if p.width >= 60 {
		p.cell(Style{}, fitMiddle(l.Address, address-1), address)
		p.cell(m.styles.Dim, l.Origin, 12)
		p.pad(p.x + 1)
	}
	st, text := linkRowText(m, l)
	if p.width >= 60 && cells(text) > p.edge-p.x { // a line of its own reads better than a narrow column
		p.line()
		p.pad(8)
	}
	if p.width < 60 {
		text += "  " + l.Address
	}
	lines := 2
	if m.height <= 12 { // what can be chosen must have room
		lines = 1
	}
	p.wrapped(st, text, 8, lines)
	p.line()
}

func linkRowText(m *Model, l *watchdog.Link) (Style, string) {
	if l.Phase == watchdog.LinkUp {
		text := "connected"
		switch {
		case l.Detail != "" && l.Source == watchdog.SourceNATS:
			text += ", subscribed to " + l.Detail
		case l.Detail != "":
			text += ", " + l.Detail
		}
		if l.Source == watchdog.SourceRedis {
			text += fmt.Sprintf(", %s keys", count(l.Keys))
		} else {
			text += fmt.Sprintf(", %s beats", count(l.Beats))
		}
		text += " in " + age(l.Since)
		if n := l.RefusedTotal(); n > 0 {
			text += fmt.Sprintf("; refused %s, last %s (%s)", count(n), l.LastRefusalID, l.LastRefusal)
		}
		if !l.Sighted && l.Reason != "" {
			return m.styles.Suspect, text + "; blind: " + l.Reason
		}
		return Style{}, text
	}
	text := orDash(l.Detail)
	if l.Detail == "" {
		text = l.Phase.String()
	}
	if l.Attempt > 0 {
		text += fmt.Sprintf("  try %d", l.Attempt)
		if l.NextTry > 0 {
			text += tryIn(l.NextTry)
		}
	}
	return m.styles.Suspect, text
}

func (m *Model) openDemo() tea.Cmd { return m.leaveFor(Target{Kind: TargetDemo}) }
func (m *Model) openBus() tea.Cmd  { return m.leaveFor(Target{Kind: TargetBus}) }

// openConnect asks for an address or a context.
func (m *Model) openConnect() tea.Cmd {
	m.prompt = &prompt{
		label: "connect", hint: "nats://host:4222, redis://host:6379, or both; or the name of a context",
		changed: func(m *Model, string2 string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, text string) (tea.Cmd, bool) {
			t, err := targetOf(text)
			if err != nil {
				m.prompt.err = err.Error()
				return nil, false
			}
			return m.leaveFor(t), true
		},
	}
	return nil
}

// targetOf reads what was typed: addresses by their scheme, or one context.
func targetOf(text string) (Target, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Target{}, fmt.Errorf("type an address or a context, or esc")
	}
	t := Target{Kind: TargetConfigured}
	for _, w := range words {
		scheme, _, has := strings.Cut(w, "://")
		if !has {
			if len(words) > 1 || strings.ContainsAny(w, ":/") {
				return Target{}, fmt.Errorf("write nats:// or redis:// in front of %s", w)
			}
			return Target{Kind: TargetConfigured, Context: w}, nil
		}
		if err := addressFits(w); err != nil {
			return Target{}, err
		}
		switch scheme {
		case "nats", "tls", "ws", "wss":
			t.NATS = w
		case "redis", "rediss", "unix":
			t.Redis = w
		default:
			return Target{}, fmt.Errorf("%s:// is neither NATS (nats, tls, ws, wss) nor Redis (redis, rediss, unix)", scheme)
		}
	}
	if t.NATS == "" {
		t.NATS = "-"
	}
	if t.Redis == "" {
		t.Redis = "-"
	}
	return t, nil
}

func addressFits(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("this is no address; write for example nats://host:4222")
	}
	if _, secret := u.User.Password(); secret {
		return fmt.Errorf("a password is not taken here: name a password_file in the configuration")
	}
	if u.Host == "" && u.Path == "" {
		return fmt.Errorf("%s has no host", address)
	}
	return nil
}

// openRecording asks for a file; none is the bundled night.
func (m *Model) openRecording() tea.Cmd {
	m.prompt = &prompt{
		label: "recording", hint: "file of sessionwatch record; empty: the bundled night",
		take: func(m *Model, text string) (tea.Cmd, bool) {
			return m.leaveFor(Target{Kind: TargetRecording, File: text}), true
		},
	}
	return nil
}

func needsContexts(m *Model) string {
	if off := needsHost(m); off != "" {
		return off
	}
	if len(m.opt.Host.Contexts()) == 0 {
		return "the configuration names no contexts: add some under contexts:"
	}
	return ""
}

// openContext watches the context that was named.
func (m *Model) openContext(name string) tea.Cmd {
	return m.leaveFor(Target{Kind: TargetConfigured, Context: name})
}

// openContexts offers the names in the configuration.
func (m *Model) openContexts() tea.Cmd {
	names := m.opt.Host.Contexts()
	return m.openMenu("CONTEXTS  enter: watch it; esc: back", func(m *Model) []menuItem {
		items := make([]menuItem, 0, len(names))
		for _, name := range names {
			items = append(items, menuItem{name: name, on: name == m.about.Name, do: func(m *Model) tea.Cmd {
				return m.openContext(name)
			}})
		}
		return items
	})
}
