package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// rawSeen is what came for one session, as it came.
type rawSeen struct {
	of      watchdog.ID
	list    []watchdog.Payload // the newest first
	asCame  bool               // the text alone: not laid out
	have    bool
	since   int64 // wall clock: when it was opened
	seq     uint64
	flat    []rawItem
	version uint64
}

// rawItem is a line of the view: the head of a message, or a line of its text.
type rawItem struct {
	head    bool
	message int
	text    string
}

func needsPayload(m *Model) string {
	if m.about.Replay != nil {
		return "raw payload: a recording keeps what messages said, not their bytes"
	}
	return needsSession(m)
}

// openRaw shows the newest messages of the session under the cursor.
func (m *Model) openRaw() tea.Cmd {
	m.raw = rawSeen{of: m.table.cursor, version: m.raw.version + 1, asCame: m.raw.asCame, since: m.window.Now.Wall}
	g := &m.pagers[viewRaw]
	g.restart()
	g.follow, g.wrap = false, true
	m.openView(viewRaw)
	cmd := m.ask()
	m.raw.seq = m.asking.seq
	return cmd
}

// fillRaw adds to an ask what the view needs.
func (m *Model) fillRaw(a *watchdog.Ask) {
	if slices.Contains(m.layers, viewRaw) {
		a.Focus, a.Payload = m.raw.of, true
	}
}

// takeRaw uses the messages of a window.
func (m *Model) takeRaw(w *watchdog.Window) {
	r := &m.raw
	if w.AskSeq < r.seq || !slices.Contains(m.layers, viewRaw) {
		return
	}
	// Each stands where it stood: two buses take turns in being the newest.
	list := slices.Clone(w.Payloads)
	slices.SortStableFunc(list, func(a, b watchdog.Payload) int {
		if a.Refused != b.Refused {
			if a.Refused {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Source, b.Source)
	})
	same := slices.EqualFunc(r.list, list, func(a, b watchdog.Payload) bool {
		return a.Source == b.Source && a.Refused == b.Refused && a.Size == b.Size && bytes.Equal(a.Raw, b.Raw)
	})
	r.list, r.have = list, true
	if !same {
		r.flatten()
	}
}

// flatten lists the lines of the view.
func (r *rawSeen) flatten() {
	r.flat = r.flat[:0]
	r.version++
	for i := range r.list {
		p := &r.list[i]
		r.flat = append(r.flat, rawItem{head: true, message: i, text: payloadWords(p)})
		text := string(p.Raw)
		var lines []string
		if looksLikeJSON(text) && !r.asCame {
			lines = layOut(text)
		} else {
			lines = strings.SplitAfter(text, "\n")
		}
		for _, line := range lines {
			for _, piece := range pieces(termtext.Escape(line)) {
				r.flat = append(r.flat, rawItem{message: i, text: piece})
			}
		}
	}
}

// rawPiece is the most of one line that is shown in one piece: a line of the
// view is wrapped over so many lines of the screen and no more.
const rawPiece = 512

// pieces cuts a text that is clean, between characters.
func pieces(text string) []string {
	var out []string
	for len(text) > rawPiece {
		n := rawPiece
		for n > rawPiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		out, text = append(out, text[:n]), text[n:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}

func looksLikeJSON(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// deepest is how far the lines of nested values are moved to the right.
const deepest = 16

// layOut breaks JSON into lines. It only puts white space where there may be
// some, so every field stays as it was written, known or not, and whatever is
// no JSON after all too.
func layOut(text string) []string {
	var out []string
	var line strings.Builder
	depth := 0
	end := func() {
		if s := strings.TrimRight(line.String(), " "); s != "" {
			out = append(out, s)
		}
		line.Reset()
		line.WriteString(strings.Repeat("  ", min(depth, deepest)))
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			n := stringLength(text[i:])
			line.WriteString(text[i : i+n])
			i += n - 1
		case '{', '[':
			line.WriteByte(c)
			rest := strings.TrimLeft(text[i+1:], " \t\r\n")
			if rest != "" && (rest[0] == '}' || rest[0] == ']') {
				line.WriteByte(rest[0])
				i = len(text) - len(rest)
				continue
			}
			depth++
			end()
		case '}', ']':
			depth = max(depth-1, 0)
			end()
			line.WriteByte(c)
		case ',':
			line.WriteByte(c)
			end()
		case ':':
			line.WriteString(": ")
		case ' ', '\t', '\r', '\n':
		default:
			line.WriteByte(c)
		}
	}
	end()
	return out
}

// stringLength is the length of the JSON string that text begins with, quotes
// included; all of it if it does not end.
func stringLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// payloadWords is "NATS refused (json)": what a search finds of a head.
func payloadWords(p *watchdog.Payload) string {
	text := p.Source.Title()
	if p.Refused {
		text += " REFUSED: " + refusalText(p.Why)
	}
	return text
}

// refusalText says in words why a message was no beat.
func refusalText(why watchdog.Refusal) string {
	words := map[watchdog.Refusal]string{
		watchdog.RefusedID:        "session_id is missing, no valid id, or not that of its subject or key",
		watchdog.RefusedState:     "state is missing or null",
		watchdog.RefusedType:      "one of the five fields is of another type",
		watchdog.RefusedRange:     "a number is out of range",
		watchdog.RefusedDuplicate: "a known field is given twice",
		watchdog.RefusedJSON:      "it is not one JSON object",
		watchdog.RefusedSize:      "it is over 16 KiB",
		watchdog.RefusedDepth:     "it is nested deeper than 32",
	}
	if text := words[why]; text != "" {
		return text + " (" + why.String() + ")"
	}
	return why.String()
}

func (m *Model) rawLines() lines {
	r := &m.raw
	return lines{total: len(r.flat), version: r.version,
		text: func(i int) string { return r.flat[i].text },
		height: func(i, width int) int {
			if r.flat[i].head {
				return wrapCount(m.payloadHead(&r.list[r.flat[i].message]), width-1)
			}
			return wrapCount(r.flat[i].text, width-rawIndent)
		}}
}

// rawIndent is where the text of a message begins.
const rawIndent = 3

// payloadHead is "NATS  03:12:42Z, 2s ago  312 bytes".
func (m *Model) payloadHead(p *watchdog.Payload) string {
	text := p.Source.Title() + "  "
	at := m.wallAt(m.window.Now.Mono-p.Age) + ", " + age(p.Age) + " ago"
	if p.Standing {
		at = "stood there when it was read, " + at
	}
	text += at + "  " + counted(p.Size, "byte")
	if cut := p.Size - len(p.Raw); cut > 0 {
		text += ", the first " + count(len(p.Raw)) + " are kept"
	}
	if p.Refused {
		text += "  REFUSED: " + refusalText(p.Why)
	}
	return text
}

// drawRaw shows what came, as it came.
func (m *Model) drawRaw(p *painter) {
	r := &m.raw
	how := "laid out"
	if r.asCame {
		how = "as it came"
	}
	m.drawLinesTitle(p, "RAW", "of "+fitMiddle(string(r.of), 40), segment{m.styles.Dim, counted(len(r.list), "message") + ", " + how, 3, 40})
	if len(r.list) == 0 {
		for _, text := range m.noPayload() {
			p.pad(1)
			p.wrapped(m.styles.Dim, text, 1, 3)
			p.line()
		}
	}
	m.drawLines(p, func(i int, _ bool) {
		it := &r.flat[i]
		if it.head {
			msg := &r.list[it.message]
			st := m.styles.Title
			if msg.Refused {
				st = m.styles.Suspect
			}
			p.wrapped(st, m.payloadHead(msg), 1, mostWrapped)
			return
		}
		p.pad(rawIndent)
		if m.pager().wrap {
			p.wrapped(Style{}, it.text, rawIndent, mostWrapped)
			return
		}
		m.marked(p, Style{}, it.text, m.pager().search)
	})
}

// noPayload says why there is nothing yet, and when there may be.
func (m *Model) noPayload() []string {
	if !m.raw.have {
		return []string{"asking for messages"}
	}
	out := []string{"nothing came since " + wall(m.raw.since, m.window.Now.Wall) + ": bytes are kept only of the session that is looked at"}
	d := m.window.Focus
	switch {
	case d == nil || d.ID != m.raw.of:
	case d.Sources&^watchdog.SourceLocal.Set() == 0:
		out = append(out, "its beats come from the supervisor in this process: there is no message")
	case d.Verdict.Ended():
		out = append(out, "it has ended ("+d.Verdict.String()+"): what comes late is listed with the events")
	case d.Cadence > 0 && d.BeatAge >= 0 && d.BeatAge < d.Cadence:
		out = append(out, "it beats every "+age(d.Cadence)+": the next one is due in "+age(d.Cadence-d.BeatAge))
	case d.Cadence > 0:
		out = append(out, "it beats every "+age(d.Cadence)+", and the next one is late")
	}
	return out
}

// toggleAsCame shows the text as it came, or laid out.
func (m *Model) toggleAsCame() tea.Cmd {
	m.raw.asCame = !m.raw.asCame
	m.raw.flatten()
	m.pager().cur, m.pager().top = 0, 0
	return nil
}

func needsMessage(m *Model) string {
	if len(m.raw.flat) == 0 {
		return "no message has come yet"
	}
	return ""
}

// copyPayload copies the message under the cursor on one line, escaped.
func (m *Model) copyPayload() tea.Cmd {
	raw := m.raw.list[m.raw.flat[min(m.pager().cur, len(m.raw.flat)-1)].message].Raw
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		raw = compact.Bytes()
	}
	return m.copyText(termtext.Escape(string(raw)))
}
