package watchdog

// The kinds of a Transition that is no change of a verdict.
const (
	EventSettled    = "settled"    // a terminal record was written
	EventNumbered   = "numbered"   // an execution got its number
	EventSight      = "sight"      // a source went blind, or is seen again
	EventGroup      = "group"      // sessions went silent together, or no longer are; held ones were released
	EventLedger     = "ledger"     // the authority came or went, or an end could not be written
	EventAlert      = "alert"      // somebody answered an alert
	EventSupervisor = "supervisor" // a supervisor does something else with a session
)

// eventsKept is how many events are kept, eventsShown how many of them a window
// carries that asks for no number.
const (
	eventsKept  = 4096
	eventsShown = 64
)

// timeline keeps the latest events.
type timeline struct {
	ring []Transition
	at   int
}

func (e *timeline) push(tr Transition) {
	if len(e.ring) < eventsKept {
		e.ring = append(e.ring, tr)
		return
	}
	e.ring[e.at] = tr
	e.at = (e.at + 1) % eventsKept
}

// latest gives up to n events, newest first; of one session if id is not empty.
func (e *timeline) latest(n int, id ID) []Transition {
	if n == 0 {
		n = eventsShown
	}
	if n < 0 {
		n = eventsKept
	}
	out := make([]Transition, 0, min(n, len(e.ring)))
	for i := 0; i < len(e.ring) && len(out) < n; i++ {
		tr := &e.ring[(e.at+len(e.ring)-1-i)%len(e.ring)]
		if id == "" || tr.ID == id {
			out = append(out, *tr)
		}
	}
	return out
}

// note keeps an event for whoever asks for the latest.
func (t *Tracker) note(tr Transition) { t.events.push(tr) }

// noteEnd tells of a terminal record.
func (t *Tracker) noteEnd(e *TerminalSeen) {
	tr := Transition{Kind: EventSettled, ID: e.ID, Generation: e.Generation, To: verdictOfOutcome(e.Outcome), From: verdictOfOutcome(e.Outcome),
		At: t.instantAt(e.At), Text: endText(e)}
	if e.Foreign {
		tr.Kind, tr.From, tr.To = EventLedger, Disputed, Disputed
		tr.Text = "a foreign terminal record stands: it blocks settling and is no outcome"
	}
	t.note(tr)
}
