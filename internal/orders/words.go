package orders

import (
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Words passes on what becomes of a command, in the order of the fates and each
// word once: the last one is repeated to whoever sends a command again. It is for
// one goroutine.
type Words struct {
	heard func(watchdog.Answer)
	last  watchdog.Answer
}

// NewWords makes a Words; a nil heard hears nothing.
func NewWords(heard func(watchdog.Answer)) *Words { return &Words{heard: heard} }

// Say passes on one word.
func (w *Words) Say(a watchdog.Answer) {
	same := a.Fate == w.last.Fate && a.By == w.last.By && a.Detail == w.last.Detail && a.At.Equal(w.last.At)
	if a.Fate < w.last.Fate || a.Fate.Final() || same {
		return
	}
	w.last = a
	if w.heard != nil {
		w.heard(a)
	}
}

// Taken reports whether a receiver has said that it has the command.
func (w *Words) Taken() bool { return w.last.Fate >= watchdog.FateDelivered }

// Result is a result as the sender knows it: who had the command and is not heard
// of in its result may have obeyed it too. Whoever keeps the command knows that
// as well, unless it was killed meanwhile.
func (w *Words) Result(a watchdog.Answer) watchdog.Answer {
	did := a.Fate == watchdog.FateEffective || a.Fate == watchdog.FateIneffective
	if did && w.Taken() && w.last.By != a.By && w.last.By != "" && !strings.Contains(a.Detail, hadBefore) {
		a.Detail = join(a.Detail, hadBefore+" ("+w.last.By+")")
	}
	return a
}
