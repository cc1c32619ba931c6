package ui

// segment is a piece of a line that may have to give way.
type segment struct {
	st   Style
	text string
	gap  int // cells before it
	keep int // the higher, the longer it stays when room is short
}

// segments writes as many of them as fit in width cells, dropping those with
// the lowest keep first, and stops at the edge.
func (p *painter) segments(all []segment, width int) {
	var few [24]int
	widths := few[:0]
	total := 0
	for i := range all {
		n := all[i].gap + cells(all[i].text)
		if all[i].text == "" {
			n = 0
		}
		widths = append(widths, n)
		total += n
	}
	for total > width {
		worst := -1
		for i := range all {
			if widths[i] > 0 && (worst < 0 || all[i].keep <= all[worst].keep) {
				worst = i
			}
		}
		if worst < 0 || total == widths[worst] { // the last one is cut by the edge instead
			break
		}
		total -= widths[worst]
		widths[worst] = 0
	}
	gap, first := 0, true
	for i := range all { // what takes the place of another keeps its distance
		switch {
		case widths[i] == 0:
			gap = max(gap, all[i].gap)
			continue
		case first:
			all[i].gap = 0
		default:
			all[i].gap = max(all[i].gap, gap)
		}
		gap, first = 0, false
	}
	edge := p.edge
	p.edge = min(p.edge, p.x+max(width, 0))
	for i := range all {
		if widths[i] > 0 {
			p.pad(p.x + all[i].gap)
			p.text(all[i].st, all[i].text)
		}
	}
	p.edge = edge
}
