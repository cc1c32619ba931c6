package terminal

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// modes is what the terminal has been told and must be told back. It watches
// what really went out, so that leaving twice, or in the middle of a frame,
// undoes what was done and no more: popping a keyboard mode that we had not
// pushed would take the shell's own.
type modes struct {
	private map[int]bool    // DEC private modes that are not as they were
	colours map[string]bool // OSC 10, 11, 12 that were set
	kitty   int             // keyboard modes pushed
	titles  int             // titles pushed
	keys    bool            // modifyOtherKeys
	cursor  bool            // cursor shape
	margins bool            // scroll region
	bar     bool            // progress bar
}

// Private modes that matter here by number.
const (
	modeWrap      = 7
	modeCursor    = 25
	modeAltScreen = 1049
	modeSync      = 2026
)

// enterScreen is how a frame begins that goes to the alternate screen.
const enterScreen = "\x1b[?1049h"

// note learns from one sequence that went out.
func (m *modes) note(seq []byte) {
	if seq[1] == ']' {
		m.noteCommand(seq)
		return
	}
	final, body := seq[len(seq)-1], seq[2:len(seq)-1]
	switch {
	case len(body) > 0 && body[0] == '?' && (final == 'h' || final == 'l'):
		m.notePrivate(body[1:], final == 'h')
	case len(body) > 0 && body[0] == '>' && final == 'u':
		m.kitty++
	case len(body) > 0 && body[0] == '<' && final == 'u':
		n, err := strconv.Atoi(string(body[1:]))
		if err != nil {
			n = 1
		}
		m.kitty = max(0, m.kitty-n)
	case bytes.HasPrefix(body, []byte(">4")) && final == 'm':
		m.keys = bytes.HasPrefix(body, []byte(">4;")) && !bytes.Equal(body, []byte(">4;0"))
	case final == 'q' && bytes.HasSuffix(body, []byte(" ")):
		m.cursor = len(body) > 1 && !bytes.Equal(body, []byte("0 "))
	case final == 'r':
		m.margins = len(body) > 0
	case final == 't' && bytes.HasPrefix(body, []byte("22")):
		m.titles++
	case final == 't' && bytes.HasPrefix(body, []byte("23")):
		m.titles = max(0, m.titles-1)
	}
}

func (m *modes) notePrivate(params []byte, on bool) {
	for p := range bytes.SplitSeq(params, []byte{';'}) {
		n, err := strconv.Atoi(string(p))
		if err != nil {
			continue
		}
		usual := n == modeWrap || n == modeCursor
		if on == usual {
			delete(m.private, n)
			continue
		}
		if m.private == nil {
			m.private = map[int]bool{}
		}
		m.private[n] = true
	}
}

func (m *modes) noteCommand(seq []byte) {
	number, rest, _ := bytes.Cut(seq[2:], []byte{';'})
	number = bytes.TrimRight(number, "\a\x1b\\")
	switch string(number) {
	case "10", "11", "12":
		if !bytes.HasPrefix(rest, []byte{'?'}) {
			if m.colours == nil {
				m.colours = map[string]bool{}
			}
			m.colours[string(number)] = true
		}
	case "110", "111", "112":
		delete(m.colours, string(number[1:]))
	case "9":
		if after, ok := bytes.CutPrefix(rest, []byte("4;")); ok {
			m.bar = !bytes.HasPrefix(after, []byte{'0'})
		}
	}
}

// undo is what brings the terminal back, and forgets it.
func (m *modes) undo() []byte {
	undo := m.bytes()
	*m = modes{}
	return undo
}

// bytes is what would bring the terminal back. It begins with a string
// terminator, since what was written last may have been cut off in the midst
// of a sequence.
func (m *modes) bytes() []byte {
	var out bytes.Buffer
	out.WriteString("\x1b\\")
	if m.private[modeSync] {
		out.WriteString("\x1b[?2026l")
	}
	out.WriteString("\x1b[m")
	if m.kitty > 0 {
		fmt.Fprintf(&out, "\x1b[<%du", m.kitty)
	}
	if m.keys {
		out.WriteString("\x1b[>4m")
	}
	if m.margins {
		out.WriteString("\x1b7\x1b[r\x1b8") // resetting the margins alone sends the cursor home
	}
	if m.bar {
		out.WriteString("\x1b]9;4;0\a")
	}
	for _, n := range []string{"10", "11", "12"} {
		if m.colours[n] {
			out.WriteString("\x1b]1" + n + "\a")
		}
	}
	if m.cursor {
		out.WriteString("\x1b[0 q")
	}
	m.undoPrivate(&out)
	for range m.titles {
		out.WriteString("\x1b[23;0t")
	}
	return out.Bytes()
}

// undoPrivate resets the private modes, the screen last: some terminals keep
// the others per screen.
func (m *modes) undoPrivate(out *bytes.Buffer) {
	numbers := make([]int, 0, len(m.private))
	for n := range m.private {
		if n != modeSync && n != modeAltScreen && n != modeCursor {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		final := 'l'
		if n == modeWrap {
			final = 'h'
		}
		fmt.Fprintf(out, "\x1b[?%d%c", n, final)
	}
	if m.private[modeAltScreen] {
		out.WriteString("\x1b[?1049l")
	}
	if m.private[modeCursor] {
		out.WriteString("\x1b[?25h")
	}
}

// sequences visits the CSI and OSC sequences of what a program writes. Other
// escapes are of two bytes and change no mode that we use.
func sequences(p []byte, visit func(seq []byte)) {
	for {
		i := bytes.IndexByte(p, esc)
		if i < 0 || i+1 >= len(p) {
			return
		}
		p = p[i:]
		n := 2
		switch p[1] {
		case '[':
			for n < len(p) && (p[n] < 0x40 || p[n] > 0x7e) {
				n++
			}
			n = min(n+1, len(p))
			if n > 2 {
				visit(p[:n])
			}
		case ']':
			end := bytes.IndexAny(p[2:], "\a\x1b")
			if end < 0 {
				return
			}
			if n += end + 1; p[n-1] == esc {
				n = min(n+1, len(p))
			}
			visit(p[:n])
		}
		p = p[n:]
	}
}

// lasting reports whether a sequence of a dropped frame must still reach the
// terminal, since nobody will say it again, and under which key a newer one
// replaces it (empty: none does).
func lasting(seq []byte) (key string, keep bool) {
	if seq[1] == ']' {
		number, _, _ := bytes.Cut(seq[2:], []byte{';'})
		return "]" + string(number), true
	}
	final, body := seq[len(seq)-1], seq[2:len(seq)-1]
	switch {
	case len(body) > 0 && body[0] == '?' && (final == 'h' || final == 'l'):
		name := string(body)
		return name, name != "?2026" && name != "?7"
	case len(body) > 0 && (body[0] == '>' || body[0] == '<' || body[0] == '='):
		return "", true
	case final == 'q' || final == 't':
		return string(final), final == 'q'
	}
	return "", false
}

// repaints reports whether a frame draws the whole screen anew.
func repaints(frame []byte) bool { return bytes.Contains(frame, []byte("\x1b[2J")) }
