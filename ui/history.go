package ui

import (
	"strconv"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// beatsFact draws the beats of the last ten minutes.
func (m *Model) beatsFact(d *watchdog.Detail, full bool) fact {
	if !full {
		return fact{label: "beats", text: "-"}
	}
	step := historyStep(d.Cadence)
	bars, got := historyBars(&d.Beats, d.HistorySince, step)
	text := bars + "  " + strconv.Itoa(got)
	if d.Cadence > 0 {
		if expected := int(min(d.HistorySince, watchdog.HistoryPoints*watchdog.HistoryStep) / d.Cadence); expected > 0 {
			text = bars + "  " + strconv.Itoa(min(got, expected)) + " of " + strconv.Itoa(expected)
		}
	}
	text += " " + sinceText(d.HistorySince)
	if d.Cadence > 0 {
		text += ", every " + age(d.Cadence) + " (" + d.CadenceFrom + ")"
	} else {
		text += ", cadence not known yet"
	}
	return fact{label: "beats", text: text}
}

// workFact draws the work, or visible changes, of the last ten minutes.
func (m *Model) workFact(d *watchdog.Detail, full bool) fact {
	if !full {
		return fact{label: "work", text: "-"}
	}
	bars, _ := historyBars(&d.Work, d.HistorySince, historyStep(d.Cadence))
	what := "last work"
	if !d.WorkKnown {
		what = "last visible change"
	}
	switch {
	case d.WorkAge < 0:
		return fact{label: "work", text: bars + "  none seen"}
	case d.WorkBound:
		return fact{label: "work", text: bars + "  no change since we watch, " + age(stepped(&d.Row, d.WorkAge))}
	case healthy(&d.Row):
		return fact{label: "work", text: bars + "  " + what + " at most " + age(coarse(d.WorkAge)) + " ago"}
	}
	return fact{label: "work", text: bars + "  " + what + " " + wall(m.window.Now.Wall-int64(d.WorkAge), m.window.Now.Wall)}
}

// historyStep is how many history points one bar covers: a cadence's worth, so
// that a healthy session has no gaps.
func historyStep(cadence time.Duration) int {
	step := int((cadence + watchdog.HistoryStep - 1) / watchdog.HistoryStep)
	if cadence <= 0 {
		step = 3
	}
	for step < 6 && watchdog.HistoryPoints%max(step, 1) != 0 {
		step++
	}
	return min(max(step, 1), 6)
}

// historyBars draws "|" where something came, "." where nothing did, and a
// space for what we did not watch. A bar next to one that got two is no gap:
// its beat only fell on the other side of the border.
func historyBars(points *[watchdog.HistoryPoints]uint8, since time.Duration, step int) (bars string, total int) {
	n := watchdog.HistoryPoints / step
	counts := make([]int, n)
	for i, c := range points {
		if i/step < n {
			counts[i/step] += int(c)
		}
		total += int(c)
	}
	watched := int((since + watchdog.HistoryStep - 1) / watchdog.HistoryStep)
	out := make([]byte, n)
	for i := range out {
		first := watchdog.HistoryPoints - (i+1)*step // points before the end of this bar are older
		switch {
		case counts[i] > 0, i > 0 && counts[i-1] > 1, i+1 < n && counts[i+1] > 1:
			out[i] = '|'
		case first >= watched:
			out[i] = ' '
		default:
			out[i] = '.'
		}
	}
	return string(out), total
}
