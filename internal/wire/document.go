package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Documents are what is read rarely and must be understood by all in the same
// way: records, heads, markers, envelopes, commands. They are strict JSON with
// exact names and no known field twice; unknown fields are ignored, and null is
// as good as absent.

// MaxDocumentBytes is the longest document that is read or written.
const MaxDocumentBytes = 64 << 10

// value is one field of a document.
type value struct {
	kind kind
	raw  []byte // as it stands there
	text string // of a text, its escapes resolved
}

// fields says what to do with each known field that is not null.
type fields map[string]func(value) error

// readDocument reads the one JSON object in src.
func readDocument(src []byte, known fields) error {
	if len(src) > MaxDocumentBytes {
		return fmt.Errorf("it is longer than %d KiB", MaxDocumentBytes>>10)
	}
	if !json.Valid(src) {
		return errors.New("it is not JSON")
	}
	return readMembers(src, known)
}

// readMembers reads the one object in src, which is valid JSON.
func readMembers(src []byte, known fields) error {
	s := scanner{src: src}
	if s.space() != '{' {
		return errors.New("it is not a JSON object")
	}
	s.pos++
	if s.space() == '}' {
		return nil
	}
	seen := map[string]bool{}
	for {
		var name, t token
		if !s.text(&name) || !s.colon() {
			return s.why
		}
		start := s.pos
		if !s.value(&t) {
			return fmt.Errorf("it is nested deeper than %d", MaxDepth)
		}
		v := value{kind: t.kind, raw: src[start:s.pos]}
		if t.kind == kindText {
			v.text = textOf(src, t)
		}
		field := textOf(src, name)
		if take := known[field]; take != nil {
			if seen[field] {
				return fmt.Errorf("%s stands in it twice", field)
			}
			seen[field] = true
			if v.kind != kindNull {
				if err := take(v); err != nil {
					return fmt.Errorf("%s %w", field, err)
				}
			}
		}
		if s.space() == '}' {
			return nil
		}
		s.pos++ // the comma
		s.space()
	}
}

func textOf(src []byte, t token) string {
	if t.escaped {
		return string(unquote(src[t.start:t.end]))
	}
	return string(src[t.start:t.end])
}

var (
	errNoText   = errors.New("is not a text")
	errNoNumber = errors.New("is not a number that may stand there")
)

// cleaned reads a text for people.
func cleaned(into *string) func(value) error {
	return func(v value) error {
		if v.kind != kindText {
			return errNoText
		}
		*into = termtext.Clean(v.text)
		return nil
	}
}

// maxNameBytes is the longest name that is compared and not just shown.
const maxNameBytes = 256

// exactly reads a text that is compared: cleaning must not change it.
func exactly(into *string) func(value) error {
	return func(v value) error {
		if v.kind != kindText {
			return errNoText
		}
		if !plainName(v.text) {
			return errors.New("is empty, too long, or holds what is not seen")
		}
		*into = v.text
		return nil
	}
}

func plainName(text string) bool {
	return text != "" && len(text) <= maxNameBytes && !termtext.Changes(text)
}

// sessionID reads the id of a session.
func sessionID(into *watchdog.ID) func(value) error {
	return func(v value) error {
		if v.kind != kindText || !ValidID(v.text) {
			return errors.New("is no session id")
		}
		*into = watchdog.ID(v.text)
		return nil
	}
}

// generation reads the number of a generation.
func generation(into *watchdog.Generation) func(value) error {
	return func(v value) error {
		n, exact, ok := v.scaled(0)
		if !ok || !exact || n < 1 || n > math.MaxUint32 {
			return errors.New("is not a whole number from 1 on")
		}
		*into = watchdog.Generation(n)
		return nil
	}
}

// scaled is the value times 10^power, if it is a number of 0 or more.
func (v value) scaled(power int) (n int64, exact, ok bool) {
	var t token
	if s := (scanner{src: v.raw}); v.kind != kindNumber || !s.value(&t) || t.number.negative {
		return 0, false, false
	}
	return t.number.scaled(v.raw, power)
}

// flag reads true or false.
func flag(into *bool) func(value) error {
	return func(v value) error {
		switch string(v.raw) {
		case "true":
			*into = true
		case "false":
			*into = false
		default:
			return errors.New("is neither true nor false")
		}
		return nil
	}
}

// duration reads seconds, 0 or more, cut down to MaxDeclared.
func duration(into *time.Duration) func(value) error {
	return func(v value) error {
		n, _, ok := v.scaled(seconds)
		if !ok {
			return errNoNumber
		}
		*into = min(time.Duration(n), MaxDeclared)
		return nil
	}
}

// moment reads an RFC 3339 time.
func moment(into *time.Time) func(value) error {
	return func(v value) error {
		at, err := time.Parse(time.RFC3339Nano, v.text)
		at = at.UTC()
		if v.kind != kindText || err != nil || at.Year() < 1 || at.Year() > 9999 {
			return errors.New("is not a time as in 2026-11-30T03:12:44.120Z")
		}
		*into = at
		return nil
	}
}

// list reads an array: each element goes through take.
func list(take func(value) error) func(value) error {
	return func(v value) error {
		var raw []json.RawMessage
		if len(v.raw) == 0 || v.raw[0] != '[' || json.Unmarshal(v.raw, &raw) != nil {
			return errors.New("is not an array")
		}
		for _, element := range raw {
			s := scanner{src: element}
			var t token
			if !s.value(&t) {
				return s.why
			}
			inner := value{kind: t.kind, raw: element}
			if t.kind == kindText {
				inner.text = textOf(element, t)
			}
			if err := take(inner); err != nil {
				return fmt.Errorf("has an element that %w", err)
			}
		}
		return nil
	}
}

// MomentLayout is how a moment stands on the wire: RFC 3339, UTC, milliseconds.
const MomentLayout = "2006-01-02T15:04:05.000Z"

// instant is printed as a moment; the zero one is unknown.
type instant time.Time

func (i instant) MarshalJSON() ([]byte, error) {
	t := time.Time(i)
	if t.IsZero() {
		return []byte("null"), nil
	}
	return AppendString(nil, t.UTC().Format(MomentLayout)), nil
}

// cleanJSON gives valid JSON whose texts are cleaned, for whoever prints what
// it did not read. Names are texts too.
func cleanJSON(src []byte) []byte {
	s := scanner{src: src}
	out := make([]byte, 0, len(src))
	for s.pos < len(src) {
		if src[s.pos] != '"' {
			out = append(out, src[s.pos])
			s.pos++
			continue
		}
		var t token
		if !s.text(&t) {
			return nil
		}
		if t.plain {
			out = append(out, src[t.start-1:t.end+1]...)
			continue
		}
		out = AppendString(out, termtext.CleanLong(textOf(src, t)))
	}
	return out
}

// marshal is the one way in which documents are written: compact, without the
// escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
