package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Where notes on alerts are kept.
const (
	// AlertsBucket is the KV bucket of notes, by NoteField.
	AlertsBucket = "SW_ALERTS"
	// AlertsKey is the hash of notes in Redis, by NoteField.
	AlertsKey = "sessionwatch:alerts"
	// AlertsRevision is a field of that hash that changes with each of our
	// writes. It is no NoteField.
	AlertsRevision = "~revision"
	// MaxNoteBytes is the longest note that is read or written.
	MaxNoteBytes = 8 << 10
)

type note struct {
	Key      string  `json:"key"`
	Kind     string  `json:"kind"`
	Author   text    `json:"author"`
	Text     text    `json:"text"`
	At       instant `json:"at"`
	Until    instant `json:"until"`
	Evidence string  `json:"evidence"` // a decimal number; as a number it would lose digits in some readers
}

// NoteField is the place of an alert's note in a bucket or a hash: base64url,
// for keys hold what those cannot carry.
func NoteField(key watchdog.AlertKey) string {
	return base64.RawURLEncoding.EncodeToString([]byte(key))
}

// KeyFromNoteField gives the alert of a place; ok is false for what is none of
// ours.
func KeyFromNoteField(field string) (key watchdog.AlertKey, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(field)
	return watchdog.AlertKey(text), err == nil && len(text) > 0
}

// EncodeNote writes a note on an alert. Its texts are cleaned and its times cut
// to milliseconds; DecodeNote gives what then stands there. An error says what
// no note may lack.
func EncodeNote(n watchdog.AlertNote) ([]byte, error) {
	if err := checkNote(n); err != nil {
		return nil, fmt.Errorf("the note cannot be written: %w", err)
	}
	out, err := marshal(note{
		Key: string(n.Key), Kind: n.Kind.String(), Author: text(termtext.Clean(n.Author)), Text: text(termtext.Clean(n.Text)),
		At: instant(n.At), Until: instant(n.Until), Evidence: strconv.FormatUint(n.Evidence, 10),
	})
	if err == nil && len(out) > MaxNoteBytes {
		err = fmt.Errorf("a note of %d bytes cannot be written: %d are the most that is read; make its text shorter", len(out), MaxNoteBytes)
	}
	return out, err
}

// DecodeNote reads the note that stands at the place of an alert. An error says
// what is wrong with it.
func DecodeNote(key watchdog.AlertKey, src []byte) (n watchdog.AlertNote, err error) {
	if len(src) > MaxNoteBytes {
		err = fmt.Errorf("it is longer than %d KiB", MaxNoteBytes>>10)
	} else {
		err = readNote(src, &n)
	}
	switch {
	case err != nil:
	case n.Key != key:
		err = errors.New("it speaks of another alert")
	default:
		err = checkNote(n)
	}
	if err != nil {
		return watchdog.AlertNote{}, fmt.Errorf("a note cannot be read: %w", err)
	}
	return n.OnBoard(), nil
}

func checkNote(n watchdog.AlertNote) error {
	switch {
	case termtext.Changes(string(n.Key)):
		return errors.New("its key holds what is not seen")
	case !writable(n.At) || !n.Until.IsZero() && !writable(n.Until):
		return errors.New("its times are not within the years 1 to 9999")
	}
	return n.Check()
}

func writable(t time.Time) bool { return t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 }

func readNote(src []byte, n *watchdog.AlertNote) error {
	kind := false
	err := readDocument(src, fields{
		"key": func(v value) error {
			if v.kind != kindText {
				return errNoText
			}
			n.Key = watchdog.AlertKey(v.text)
			return nil
		},
		"kind": func(v value) error {
			n.Kind, kind = watchdog.NoteKindOf(v.text)
			if v.kind != kindText || !kind {
				return errors.New("is not ack, snooze, mute or clear")
			}
			return nil
		},
		"author": cleaned(&n.Author),
		"text":   cleaned(&n.Text),
		"at":     moment(&n.At),
		"until":  moment(&n.Until),
		"evidence": func(v value) (err error) {
			n.Evidence, err = strconv.ParseUint(v.text, 10, 64)
			if v.kind != kindText || err != nil {
				return errors.New("is not a whole number in quotes")
			}
			return nil
		},
	})
	if err == nil && !kind {
		err = errors.New("it does not say what kind it is")
	}
	return err
}
