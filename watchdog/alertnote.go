package watchdog

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// AlertKey is the stable name of one alert, the same for every observer of a
// cluster, so that colleagues answer the same thing:
//
//	<id>#<generation>/<cause>   of one execution; generation 0: not known yet, or of the session as a whole
//	group/<start>               of a correlated silence; start in Unix seconds
//	fleet/<cause>               of no session
//	match/<pattern>             of a mute: every alert of a session whose id matches (path.Match)
//
// It is text with the characters of a session id in it: who stores it encodes it.
type AlertKey string

const (
	keyGroup = "group/"
	keyFleet = "fleet/"
	keyMatch = "match/"
)

// MatchKey is the key of a mute of every session whose id matches pattern, as
// path.Match has it.
func MatchKey(pattern string) AlertKey { return AlertKey(keyMatch + pattern) }

// Pattern gives the pattern of a mute; ok is false for the key of one alert.
func (k AlertKey) Pattern() (pattern string, ok bool) { return strings.CutPrefix(string(k), keyMatch) }

// sessionKey is the key of an alert of one execution.
func sessionKey(id ID, g Generation, c AlertCause) AlertKey {
	return AlertKey(string(id) + "#" + strconv.FormatUint(uint64(g), 10) + "/" + c.String())
}

// NoteKind is what an operator said of an alert.
type NoteKind uint8

// The kinds of notes. The newest note of a key is the one that counts.
const (
	NoteAck    NoteKind = iota // seen, somebody is at it
	NoteSnooze                 // not before Until
	NoteMute                   // nothing of this key, or of what matches it, before Until
	NoteClear                  // takes back what stood there
)

var noteKindNames = [...]string{"ack", "snooze", "mute", "clear"}

// String is the word of a kind, in JSON and on the bus.
func (k NoteKind) String() string {
	if int(k) < len(noteKindNames) {
		return noteKindNames[k]
	}
	return "invalid"
}

// NoteKindOf reads the word of a kind.
func NoteKindOf(word string) (NoteKind, bool) {
	for i, name := range noteKindNames {
		if name == word {
			return NoteKind(i), true
		}
	}
	return 0, false
}

// AlertNote is what an operator said of an alert, for all colleagues to see.
// Author and Text are hostile text when they come from a bus.
type AlertNote struct {
	Key    AlertKey
	Kind   NoteKind
	Author string
	Text   string
	At     time.Time // wall clock of the author
	Until  time.Time // wall clock of the author; zero: without an end
	// Evidence is what was answered, as Alert.Evidence has it: what is newer
	// opens the alert again.
	Evidence uint64
}

// NoteBoard keeps notes where all observers of a cluster see them. It holds one
// note for each key, the last that was put; a NoteClear takes the key away. A
// board may drop a note thirty days after the later of At and Until.
type NoteBoard interface {
	// Put writes one note; an error says what to do, and nothing was written then,
	// as far as can be told.
	Put(context.Context, AlertNote) error
	// Watch calls back with the whole set, at first and after each change, until
	// ctx ends or the board cannot be read any more. The slice is the callee's.
	Watch(context.Context, func([]AlertNote)) error
}

// Noted tells what stands on the board now: the whole set.
type Noted struct {
	Notes []AlertNote
	At    time.Duration // Mono
}

// Trouble raises an alert that no verdict tells of: an action that failed, too
// many reaped sessions. Told again with other Evidence it is news; with Over it
// is gone.
type Trouble struct {
	Cause      AlertCause
	ID         ID         // "" of no session
	Generation Generation // 0 not known
	Text       string     // the whole sentence, with its stop
	Evidence   uint64     // grows with what is new about it
	Over       bool
	At         time.Duration // Mono
}

func (Noted) event()   {}
func (Trouble) event() {}

// Raise says that an alert opened, or opened again: once for each transition,
// and once for a group. Bell, desktop notice and hooks hang on it.
type Raise struct {
	Alert Alert
	Again string // why it opened again: "another exit", "its snooze is over" ...; "" for the first time
	Found bool   // it stood already when we first looked
	At    Instant
}

// NoteOver says that what a note answered is gone, so that the note must not
// answer the next one. Whoever wrote it, and a serve, clears it from the board.
type NoteOver struct {
	Note AlertNote
}

func (Raise) effect()    {}
func (NoteOver) effect() {}
