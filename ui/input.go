package ui

import (
	"unicode"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// inputLimit is the longest line that can be typed, in characters.
const inputLimit = 512

// input is one line of text that is typed. It has no blinking cursor, since
// nothing moves while nothing changes.
type input struct {
	text []rune
	at   int
}

func newInput(text string) input {
	in := input{}
	in.insert(text)
	return in
}

func (in *input) String() string { return string(in.text) }

// insert takes typed or pasted text, cleaned to one line.
func (in *input) insert(text string) {
	add := []rune(termtext.Clean(text))
	add = add[:min(len(add), max(inputLimit-len(in.text), 0))]
	out := make([]rune, 0, len(in.text)+len(add))
	out = append(out, in.text[:in.at]...)
	out = append(out, add...)
	in.text = append(out, in.text[in.at:]...)
	in.at += len(add)
}

func (in *input) clear() { in.text, in.at = nil, 0 }
func (in *input) left()  { in.at = max(in.at-1, 0) }
func (in *input) right() { in.at = min(in.at+1, len(in.text)) }
func (in *input) home()  { in.at = 0 }
func (in *input) end()   { in.at = len(in.text) }

func (in *input) backspace() {
	if in.at > 0 {
		in.at--
		in.delete()
	}
}

func (in *input) delete() {
	if in.at < len(in.text) {
		in.text = append(in.text[:in.at:in.at], in.text[in.at+1:]...)
	}
}

func (in *input) deleteWord() {
	from := in.at
	for from > 0 && unicode.IsSpace(in.text[from-1]) {
		from--
	}
	for from > 0 && !unicode.IsSpace(in.text[from-1]) {
		from--
	}
	in.text = append(in.text[:from:from], in.text[in.at:]...)
	in.at = from
}

// draw writes the line with its cursor, and keeps the cursor in sight in the
// cells up to edge.
func (in *input) draw(p *painter, cursor Style) {
	room := max(p.edge-p.x-1, 1)
	before, after := string(in.text[:in.at]), ""
	under := " "
	if in.at < len(in.text) {
		under, after = string(in.text[in.at]), string(in.text[in.at+1:])
	}
	for cells(before) >= room && before != "" {
		_, size := firstRune(before)
		before = before[size:]
	}
	p.text(Style{}, before)
	if cursor == (Style{}) {
		under = "_"
	}
	p.text(cursor, under)
	p.text(Style{}, after)
}

func firstRune(s string) (rune, int) {
	for _, r := range s {
		return r, len(string(r))
	}
	return 0, 0
}
