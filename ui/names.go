package ui

import (
	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// nameCuts holds the ids of the visible rows, cut to the column. They are
// worked out again only when the rows or the width changed.
type nameCuts struct {
	stale bool
	width int
	top   int
	cut   []string
}

// of gives the cut ids of rows.
func (n *nameCuts) of(rows []watchdog.Row, top, width int) []string {
	if !n.stale && n.width == width && n.top == top && len(n.cut) == len(rows) {
		return n.cut
	}
	n.stale, n.width, n.top = false, width, top
	n.cut = n.cut[:0]
	var first map[string]int
	for i := range rows {
		id := string(rows[i].ID)
		short := fitMiddle(id, width)
		if short != id {
			if first == nil {
				first = make(map[string]int)
			}
			if j, twin := first[short]; twin && rows[j].ID != rows[i].ID {
				n.cut[j], short = tellApart(string(rows[j].ID), id, width)
			}
			first[short] = i
		}
		n.cut = append(n.cut, short)
	}
	return n.cut
}

// tellApart cuts two ids that look the same after cutting so that they differ:
// with more tail, or with more head where the tails are the same.
func tellApart(a, b string, width int) (string, string) {
	a, b = termtext.Clean(a), termtext.Clean(b)
	for tail := width / 2; tail < width; tail++ {
		x, y := ends(a, width-1-tail, tail), ends(b, width-1-tail, tail)
		if x != y {
			return x, y
		}
	}
	for tail := width/2 - 1; tail >= 0; tail-- {
		x, y := ends(a, width-1-tail, tail), ends(b, width-1-tail, tail)
		if x != y {
			return x, y
		}
	}
	return ends(a, 0, width-1), ends(b, 0, width-1)
}

// ends is a head and a tail of s in cells, with "~" for what is between.
func ends(s string, head, tail int) string {
	if termtext.Width(s) <= head+tail+1 {
		return s
	}
	runes := []rune(s)
	from, w := len(runes), 0
	for from > 0 {
		rw := termtext.Width(string(runes[from-1]))
		if w+rw > tail {
			break
		}
		w += rw
		from--
	}
	return termtext.Truncate(s, head) + "~" + string(runes[from:])
}
