package watchdog

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxNotes bounds the notes that are kept, the newest of them, and maxMutes
	// the patterns among them.
	maxNotes = 20_000
	maxMutes = 500
	// evidenceSlack is how far two observers may differ about the moment at which
	// something began, in seconds: by their wall clocks and by when they noticed.
	evidenceSlack = 90
	// groupSlack is the share by which a group may have grown since it was
	// answered: two observers count alike, not the same.
	groupSlack = 20
)

// EscapePattern gives the pattern that matches one id alone.
func EscapePattern(id ID) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(string(id))
}

// takeNotes takes in what stands on the board now.
func (t *Tracker) takeNotes(notes []AlertNote) {
	as := &t.alerts
	if len(notes) > maxNotes {
		notes = slices.Clone(notes)
		slices.SortFunc(notes, func(a, b AlertNote) int { return b.At.Compare(a.At) })
		notes = notes[:maxNotes]
	}
	as.notes = make(map[AlertKey]*AlertNote, len(notes))
	as.mutes = as.mutes[:0]
	over := map[AlertKey]time.Time{}
	for _, n := range notes {
		if n.Kind == NoteClear {
			continue
		}
		if pattern, ok := n.Key.Pattern(); ok {
			if _, err := path.Match(pattern, ""); err != nil || n.Kind != NoteMute || len(as.mutes) == maxMutes {
				continue
			}
			as.mutes = append(as.mutes, &n)
			continue
		}
		if at, ok := as.over[n.Key]; !ok || n.At.After(at) {
			as.notes[n.Key] = &n
			continue
		}
		over[n.Key] = as.over[n.Key]
	}
	as.over = over // what is off the board cannot answer again
	slices.SortFunc(as.mutes, func(a, b *AlertNote) int { return strings.Compare(string(a.Key), string(b.Key)) })
	t.standAll()
	as.noted = true
}

// standAll judges all alerts anew, and notes when the next note ends.
func (t *Tracker) standAll() {
	as := &t.alerts
	as.nextEnd = 0
	for _, a := range slices.Clone(as.all) {
		t.stand(a, "")
	}
	soonest := func(n *AlertNote) {
		if end := n.end(); end > t.now.Wall && (as.nextEnd == 0 || end < as.nextEnd) {
			as.nextEnd = end
		}
	}
	for _, n := range as.notes {
		soonest(n)
	}
	for _, n := range as.mutes {
		soonest(n)
	}
	t.changes++
}

// endNote lets a note answer nothing any more. Whoever may clears it off the board;
// we remember it as long as it stands there, for nobody may.
func (t *Tracker) endNote(n *AlertNote) {
	as := &t.alerts
	t.effects = append(t.effects, NoteOver{*n})
	delete(as.notes, n.Key)
	if as.over == nil {
		as.over = map[AlertKey]time.Time{}
	}
	as.over[n.Key] = n.At
}

// end is when a note ends, Unix nanoseconds; 0 never by itself.
func (n *AlertNote) end() int64 {
	if n.Until.IsZero() {
		return 0
	}
	return max(n.Until.UnixNano(), 1)
}

// holds reports whether a note has not ended yet.
func (t *Tracker) holds(n *AlertNote) bool {
	end := n.end()
	return end == 0 || end > t.now.Wall
}

// stand finds out what became of an alert. One that opens again is told again:
// because of again, or because its note is over.
func (t *Tracker) stand(a *alert, again string) {
	as := &t.alerts
	was, before := a.standing, a.note
	as.tally(a, -1)
	a.standing, a.note, a.own = t.answerOf(a)
	as.tally(a, +1)
	if a.standing != AlertOpen && (before == nil || *before != *a.note) {
		t.tellAnswer(a)
	}
	if a.standing == was {
		if was != AlertOpen && a.note.At.Equal(before.At) {
			return
		}
		t.leaveIfAcked(a)
		if was == AlertOpen && again != "" {
			t.changes++
		}
		return
	}
	t.changes++
	t.leaveIfAcked(a)
	if a.cause == CauseGroup {
		t.markGroup(a)
	} else if a.birth != 0 {
		t.markAnswered(a.rec, t.store.at(a.rec))
	}
	if a.standing != AlertOpen {
		return
	}
	switch {
	case again != "":
	case was == AlertSnoozed && !t.holds(before):
		again = "its snooze is over"
	case was == AlertMuted && !t.holds(before):
		again = "its mute is over"
	default:
		again = "the answer was taken back"
	}
	t.tell(a, again)
}

// tellAnswer puts an answer that was given just now among the events.
func (t *Tracker) tellAnswer(a *alert) {
	if !t.alerts.noted && a.note.At.UnixNano() < t.now.Wall-int64(time.Minute) {
		return // it stood on the board before we looked
	}
	text := a.cause.String() + ": " + a.note.Kind.String()
	if a.note.Author != "" {
		text += " by " + a.note.Author
	}
	if a.note.Text != "" {
		text += ": " + a.note.Text
	}
	v := Silent
	if a.birth != 0 {
		v = t.store.at(a.rec).verdict
	}
	t.note(Transition{Kind: EventAlert, ID: a.id, Generation: a.generation, From: v, To: v, At: t.instantAt(t.now.Mono), Text: text})
}

// answerOf looks for the note that answers an alert: its own, then a mute that
// matches it.
func (t *Tracker) answerOf(a *alert) (Standing, *AlertNote, bool) {
	if n := t.noteOn(a); n != nil && t.holds(n) {
		switch {
		case n.Kind == NoteMute:
			return AlertMuted, n, true
		case !t.covers(n, a):
		case n.Kind == NoteAck:
			return AlertAcked, n, true
		case n.Kind == NoteSnooze:
			return AlertSnoozed, n, true
		}
	}
	for _, n := range t.alerts.mutes {
		if t.holds(n) && t.matches(n, a) {
			return AlertMuted, n, false
		}
	}
	return AlertOpen, nil, false
}

// noteOn is the note on the key of an alert; nil: there is none. One that was
// written before the execution had a number is of it too.
func (t *Tracker) noteOn(a *alert) *AlertNote {
	notes := t.alerts.notes
	if len(notes) == 0 {
		return nil
	}
	if n := notes[a.key()]; n != nil {
		return n
	}
	switch {
	case a.cause == CauseGroup:
		return nearestGroup(notes, a.groupKey)
	case a.generation != 0 && a.cause != CauseCrashLoop:
		return notes[sessionKey(a.id, 0, a.cause)]
	}
	return nil
}

// nearestGroup finds the note of the same silence as another observer saw it: it
// began within GroupWindow of ours.
func nearestGroup(notes map[AlertKey]*AlertNote, key AlertKey) *AlertNote {
	start := func(k AlertKey) (int64, bool) {
		text, ok := strings.CutPrefix(string(k), keyGroup)
		s, err := strconv.ParseInt(text, 10, 64)
		return s, ok && err == nil
	}
	ours, _ := start(key)
	var best *AlertNote
	within := int64(GroupWindow / time.Second)
	for k, n := range notes {
		s, ok := start(k)
		off := max(s-ours, ours-s)
		if !ok || off > within || off == within && best != nil && k > best.Key {
			continue
		}
		best, within = n, off
	}
	return best
}

// covers reports whether a note answers what is known of an alert now, or was
// given before there was more to say.
func (t *Tracker) covers(n *AlertNote, a *alert) bool {
	switch a.cause {
	case CauseGroup:
		return a.evidence <= n.Evidence+n.Evidence/groupSlack
	case CauseCrashLoop, CauseAction, CauseReapRate:
		return a.evidence == n.Evidence
	case CauseCredits:
		return a.evidence <= n.Evidence
	case CauseLost, CauseError:
		if a.generation != 0 && n.Key == a.key() {
			return true // an execution ends once
		}
	}
	return a.found || a.evidence <= n.Evidence+evidenceSlack
}

// matches reports whether a mute of a pattern is of all that an alert is about.
func (t *Tracker) matches(n *AlertNote, a *alert) bool {
	if a.cause != CauseGroup {
		return a.id != "" && n.matches(string(a.id))
	}
	if a.group != nil {
		for member := range a.group.members {
			if !t.matchesOne(n, member) {
				return false
			}
		}
	}
	for member := range a.lost {
		if !t.matchesOne(n, member) {
			return false
		}
	}
	return true
}

func (t *Tracker) matchesOne(n *AlertNote, rec uint32) bool {
	return n.matches(string(t.store.idOf(t.store.at(rec))))
}

// matches reports whether the pattern of a mute takes in an id.
func (n *AlertNote) matches(id string) bool {
	pattern, _ := n.Key.Pattern()
	ok, _ := path.Match(pattern, id) // a bad one was left out
	return ok
}
