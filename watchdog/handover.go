package watchdog

import (
	"cmp"
	"slices"
	"time"
)

// EventWatch is the Kind of a Transition of a kept history: an observer began to
// watch, or ended. Its Text is WatchBegan or WatchEnded.
const (
	EventWatch = "watch"
	WatchBegan = "began to watch"
	WatchEnded = "ended"
)

// handoverListed bounds each list of a summary; what is left out is counted.
const handoverListed = 200

// HandoverAsk is what a window for a summary must hold.
func HandoverAsk() Ask {
	return Ask{Events: eventsKept, Alerts: maxAlertsShown, Actions: actionsKept}
}

// HandoverInput is what a summary is made from.
type HandoverInput struct {
	Since time.Time // as asked for
	// Window is an answer to HandoverAsk.
	Window Window
	// Past is what a history kept, by this observer or one before it, in any order;
	// its instants have a wall clock alone. What Window tells too is taken once.
	Past []Transition
	// PastFrom is from when on Past tells everything; zero: there is no history.
	PastFrom time.Time
	// Actions are those of an audit file. One that Window tells of too is taken from
	// there.
	Actions []HandoverAction
	// Doubts say what could not be read, a sentence each.
	Doubts []string
}

// Handover is what one who leaves tells the one who comes. All times are by the
// wall clock of the observer that made it. Its JSON goes over the wire.
type Handover struct {
	Since time.Time `json:"since"` // as asked for
	Until time.Time `json:"until"` // when it was made
	Looks time.Time `json:"looks_since"`
	// Known is from when on everything that happened is known; before it nothing is.
	// It may be before Looks: a history was kept.
	Known    time.Time `json:"known_since"`
	Sessions int       `json:"sessions"` // known now
	Seeing   bool      `json:"seeing"`   // at least one source is seen now, or none is configured

	Open      []HandoverAlert    `json:"open"` // open and acknowledged ones, as in the queue
	OpenTotal int                `json:"open_total"`
	Acked     int                `json:"acknowledged"` // of OpenTotal
	Happened  []HandoverIncident `json:"happened"`     // oldest first
	Alerts    int                `json:"alerts"`       // incidents of one session, those not listed too
	Groups    int                `json:"groups"`
	Actions   []HandoverAction   `json:"actions"` // oldest first
	Unlisted  int                `json:"unlisted"`
	Quiet     []HandoverQuiet    `json:"quiet"`
	Blind     []HandoverBlind    `json:"blind"` // oldest first
	Doubts    []string           `json:"doubts"`
}

// HandoverAlert is one alert that stands.
type HandoverAlert struct {
	Cause      string     `json:"cause"`
	ID         ID         `json:"session_id,omitempty"`
	Generation Generation `json:"generation,omitempty"` // 0 not known, or none
	N          int        `json:"sessions"`
	Began      time.Time  `json:"since"`
	Text       string     `json:"text"`
	Standing   string     `json:"standing"` // open, ack
	Author     string     `json:"author,omitempty"`
	Note       string     `json:"note,omitempty"`
	Held       bool       `json:"held"` // settling its members is
}

// HandoverIncident is trouble of one session, or a group that fell silent together.
type HandoverIncident struct {
	At         time.Time  `json:"at"`
	ID         ID         `json:"session_id,omitempty"` // "" of a group
	Generation Generation `json:"generation,omitempty"`
	Verdict    string     `json:"verdict"` // the last one of it; of a group silent
	Text       string     `json:"text"`
	Times      int        `json:"times"`            // it came again within loopStable of its end
	Found      bool       `json:"found"`            // it stood already when it was first seen
	Until      *time.Time `json:"until,omitempty"`  // nil: it goes on
	Became     string     `json:"became,omitempty"` // the verdict after it, or how a group ended; "unknown" with no end: its observer ended first
	Released   string     `json:"released,omitempty"`
}

// HandoverAction is one action and its fate.
type HandoverAction struct {
	Command    string     `json:"command_id,omitempty"`
	At         time.Time  `json:"at"`
	By         string     `json:"issued_by"`
	Op         string     `json:"op"`
	ID         ID         `json:"session_id,omitempty"`
	Generation Generation `json:"generation,omitempty"` // 0 not known
	Next       Generation `json:"next_generation,omitempty"`
	Fate       string     `json:"fate"` // "" not known
	Final      bool       `json:"final"`
	Secs       float64    `json:"secs"` // from the wish to its fate
	Detail     string     `json:"detail,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// HandoverQuiet is an alert or a pattern of ids that somebody muted or snoozed.
type HandoverQuiet struct {
	What   string     `json:"what"` // a pattern, or an id and its cause
	Kind   string     `json:"kind"` // mute, snooze
	Until  *time.Time `json:"until,omitempty"`
	Author string     `json:"author,omitempty"`
	Note   string     `json:"note,omitempty"`
}

// HandoverBlind is a time in which a source was not seen, or in which nobody
// looked. Nobody is accused of anything because of it.
type HandoverBlind struct {
	Source string     `json:"source,omitempty"` // "" nobody looked: the observer did not run
	From   time.Time  `json:"from"`
	Until  *time.Time `json:"until,omitempty"` // nil: it goes on
	Vague  bool       `json:"vague"`           // it began at some time after From
	Reason string     `json:"reason,omitempty"`
}

// NewHandover makes the summary. It reads no clock: now is that of the window.
func NewHandover(in HandoverInput) Handover {
	w := &in.Window
	h := Handover{Since: in.Since.UTC(), Until: wallTime(w.Now.Wall), Looks: wallTime(w.Started.Wall), Sessions: w.Total, Seeing: len(w.Links) == 0,
		Doubts: append([]string{}, in.Doubts...)}
	for i := range w.Links {
		h.Seeing = h.Seeing || w.Links[i].Sighted
	}
	h.Known = h.Looks
	if len(w.Events) >= eventsKept { // older ones were given up
		h.Known = wallTime(w.Events[len(w.Events)-1].At.Wall)
	}
	if !in.PastFrom.IsZero() && in.PastFrom.Before(h.Known) {
		h.Known = in.PastFrom.UTC()
	}
	happened := oldestFirst(in.Past, w.Events)
	h.standing(&w.Alerts)
	h.incidents(happened)
	h.blindness(happened)
	h.actions(w, in.Actions, happened)
	return h
}

func wallTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// oldestFirst joins what was kept with what is in memory, oldest first.
func oldestFirst(past, events []Transition) []Transition {
	type name struct {
		at         int64
		id         ID
		generation Generation
		kind       string
		to         Verdict
	}
	seen := make(map[name]struct{}, len(events))
	all := slices.Clone(events)
	slices.Reverse(all)
	of := func(t *Transition) name { return name{t.At.Wall, t.ID, t.Generation, t.Kind, t.To} }
	for i := range all {
		if all[i].Kind != "" { // a history has none of the verdicts beside another kind
			all[i].To = Running
		}
		seen[of(&all[i])] = struct{}{}
	}
	for i := range past {
		t := past[i]
		if t.Kind != "" {
			t.To = Running
		}
		if _, twice := seen[of(&t)]; !twice {
			all = append(all, t)
		}
	}
	first := func(t *Transition) int { // who begins to watch sees the first of it at the same moment
		if t.Kind == EventWatch {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(a.At.Wall, b.At.Wall), cmp.Compare(first(&a), first(&b)))
	})
	return all
}

// standing lists what is open, and what was told to be quiet.
func (h *Handover) standing(v *AlertsView) {
	h.OpenTotal, h.Acked, h.Open, h.Quiet = v.Open+v.Acked, v.Acked, []HandoverAlert{}, []HandoverQuiet{}
	for i := range v.Mutes {
		pattern, _ := v.Mutes[i].Key.Pattern()
		h.Quiet = append(h.Quiet, quietBy(pattern, &v.Mutes[i]))
	}
	for i := range v.List {
		a := &v.List[i]
		if a.Standing == AlertSnoozed || a.Standing == AlertMuted {
			if _, pattern := a.Note.Key.Pattern(); !pattern {
				h.Quiet = append(h.Quiet, quietBy(a.what(), a.Note))
			}
			continue
		}
		if len(h.Open) == handoverListed {
			continue
		}
		one := HandoverAlert{Cause: a.Cause.String(), ID: a.ID, Generation: a.Generation, N: a.N, Began: wallTime(a.Began), Text: a.Text,
			Standing: a.Standing.String(), Held: a.HeldFor != 0}
		if a.Note != nil {
			one.Author, one.Note = a.Note.Author, a.Note.Text
		}
		h.Open = append(h.Open, one)
	}
	h.Unlisted += max(h.OpenTotal-len(h.Open), 0)
}

// what names an alert in few words.
func (a *Alert) what() string {
	switch {
	case a.Cause == CauseGroup:
		return FormatCount(a.N) + " silent together"
	case a.ID == "":
		return a.Cause.String()
	}
	return string(a.ID) + " " + a.Cause.String()
}

func quietBy(what string, n *AlertNote) HandoverQuiet {
	q := HandoverQuiet{What: what, Kind: n.Kind.String(), Author: n.Author, Note: n.Text}
	if !n.Until.IsZero() {
		until := n.Until.UTC()
		q.Until = &until
	}
	return q
}

// actions lists what was asked for since, with what came of it.
func (h *Handover) actions(w *Window, kept []HandoverAction, happened []Transition) {
	all := make([]HandoverAction, 0, len(w.Actions)+len(kept))
	ours := map[string]struct{}{}
	for i := range w.Actions {
		a := &w.Actions[i]
		ours[a.ID] = struct{}{}
		all = append(all, HandoverAction{Command: a.ID, At: wallTime(w.Now.Wall - int64(a.Age)), By: a.IssuedBy, Op: string(a.Op), ID: a.Session,
			Generation: a.Generation, Fate: a.Fate.String(), Final: a.Fate.Final(), Secs: (a.Age - a.Since).Seconds(), Detail: a.Detail, Reason: a.Reason})
	}
	for _, a := range kept {
		if _, twice := ours[a.Command]; !twice || a.Command == "" {
			all = append(all, a)
		}
	}
	all = slices.DeleteFunc(all, func(a HandoverAction) bool { return a.At.Before(h.Since) })
	slices.SortStableFunc(all, func(a, b HandoverAction) int { return a.At.Compare(b.At) })
	for i := range all {
		if all[i].Op == string(OpRestart) && all[i].Fate == FateEffective.String() {
			all[i].Next = nextRun(&all[i], happened)
		}
	}
	h.Actions = h.lastOf(all)
}

// nextRun is the first execution that was seen after a restart; 0: none was.
func nextRun(a *HandoverAction, happened []Transition) Generation {
	for i := range happened {
		if t := &happened[i]; t.ID == a.ID && t.Generation > a.Generation && t.At.Wall >= a.At.UnixNano() {
			return t.Generation
		}
	}
	return 0
}

// lastOf keeps the newest of a list, and counts the others.
func (h *Handover) lastOf(all []HandoverAction) []HandoverAction {
	n := max(len(all)-handoverListed, 0)
	h.Unlisted += n
	return all[n:]
}
