package cli

import (
	"io"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// table prints text in aligned columns: no colours, no boxes, no escape codes.
// Columns are as wide as their widest cell, counted in terminal cells; the last
// one is not padded. It is for people; scripts use --json.
type table struct {
	right map[int]bool // columns aligned to the right: numbers and ages
	rows  [][]string
}

func newTable(right ...int) *table {
	t := &table{right: make(map[int]bool, len(right))}
	for _, column := range right {
		t.right[column] = true
	}
	return t
}

// add appends a row. Every cell is cleaned: whatever it came from.
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = clean(cell)
	}
	t.rows = append(t.rows, row)
}

// print writes all rows, each behind indent.
func (t *table) print(w io.Writer, indent string) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], termtext.Width(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		b.WriteString(indent)
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-termtext.Width(cell))
			switch {
			case t.right[i]:
				b.WriteString(pad + cell)
			case i == len(row)-1:
				b.WriteString(strings.TrimRight(cell, " "))
			default:
				b.WriteString(cell + pad)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
