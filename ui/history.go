package ui

import (
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// beatsFact draws the beats of the last ten minutes.
func (m *Model) beatsFact(d *watchdog.Detail, full bool) fact {
	if !full {
		return fact{label: "beats", text: "-"}
	}
	step := historyStep(d.Cadence, d.HistorySince)
	bars, got := historyBars(&d.Beats, d.HistorySince, step, true)
	text := bars + "  " + count(got)
	expected := 0
	if d.Cadence > 0 {
		if expected = int(min(d.HistorySince, watchdog.HistoryPoints*watchdog.HistoryStep) / d.Cadence); expected > 0 {
			text = bars + "  " + count(min(got, expected)) + " of " + count(expected)
		}
	}
	text += " " + sinceText(d.HistorySince)
	if d.Cadence > 0 {
		every := ", every "
		if got > 2*expected+1 {
			every = ", at least every "
		}
		text += every + age(d.Cadence) + " (" + d.CadenceFrom + ")"
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
	bars, _ := historyBars(&d.Work, d.HistorySince, historyStep(d.Cadence, d.HistorySince), false)
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
	return fact{label: "work", text: bars + "  " + what + " " + m.wallAt(m.window.Now.Mono-d.WorkAge)}
}

// mostBars is how many bars fit beside their labels on a small screen.
const mostBars = 30

// historyStep is how many history points one bar covers: a cadence's worth, so
// that a healthy session has no gaps, and more where there are too many bars.
func historyStep(cadence, since time.Duration) int {
	step := int((cadence + watchdog.HistoryStep - 1) / watchdog.HistoryStep)
	if cadence <= 0 {
		step = 3
	}
	step = max(step, (watchedPoints(since)+mostBars-1)/mostBars)
	for step < 6 && watchdog.HistoryPoints%max(step, 1) != 0 {
		step++
	}
	return min(max(step, 1), 6)
}

// watchedPoints is how many of the newest history points we watched.
func watchedPoints(since time.Duration) int {
	return int(min((max(since, 0)+watchdog.HistoryStep-1)/watchdog.HistoryStep, watchdog.HistoryPoints))
}

// historyBars draws "|" where something came and "." where nothing did, for as
// long as we watched. With slack, a bar next to one that got two is no gap: its
// beat only fell on the other side of the border.
func historyBars(points *[watchdog.HistoryPoints]uint8, since time.Duration, step int, slack bool) (bars string, total int) {
	n := watchdog.HistoryPoints / step
	counts := make([]int, n)
	for i, c := range points {
		if i/step < n {
			counts[i/step] += int(c)
		}
		total += int(c)
	}
	shown := min((watchedPoints(since)+step-1)/step, n)
	out := make([]byte, 0, n)
	for i := n - shown; i < n; i++ {
		if counts[i] > 0 || slack && (i > 0 && counts[i-1] > 1 || i+1 < n && counts[i+1] > 1) {
			out = append(out, '|')
		} else {
			out = append(out, '.')
		}
	}
	return string(out), total
}
