package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// maxEvidenceBytes is the longest evidence that goes into a record; what is
// longer is left out, and its length said.
const maxEvidenceBytes = 16 << 10

type record struct {
	ID         watchdog.ID         `json:"session_id"`
	Generation watchdog.Generation `json:"generation"`
	Outcome    string              `json:"outcome"`
	SettledBy  watchdog.SettledBy  `json:"settled_by"`
	Writer     text                `json:"writer"`
	Nonce      string              `json:"nonce"`
	Reason     text                `json:"reason"`
	At         instant             `json:"at"`
	Evidence   json.RawMessage     `json:"evidence"`
	Entries    []entry             `json:"records"`
}

// entry is one transcript record; a kind of it has only its own fields.
type entry struct {
	ID         string `json:"id"`
	Index      int    `json:"index"`
	Type       string `json:"type"`
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
}

// EncodeRecord writes a terminal record. Its texts are cleaned and its time cut
// to milliseconds; DecodeRecord gives what then stands there. An error says
// what no terminal record may lack.
func EncodeRecord(r watchdog.Record) ([]byte, error) {
	switch {
	case !ValidID(r.ID):
		return nil, fmt.Errorf("the terminal record of %q cannot be written: that is no session id", termtext.Clean(string(r.ID)))
	case r.Generation == 0 || r.Outcome == watchdog.OutcomeNone || !slices.Contains(offices(), r.SettledBy) || !plainName(r.Nonce):
		return nil, fmt.Errorf("the terminal record of %s cannot be written: it needs a generation, an outcome, who settled it and a nonce, and has %d, %q, %q and %q",
			r.ID, r.Generation, r.Outcome, termtext.Clean(string(r.SettledBy)), termtext.Clean(r.Nonce))
	}
	r.Reason, r.Writer = termtext.Clean(r.Reason), termtext.Clean(r.Writer)
	out := record{
		ID: r.ID, Generation: r.Generation, Outcome: r.Outcome.String(), SettledBy: r.SettledBy,
		Writer: text(r.Writer), Nonce: r.Nonce, Reason: text(r.Reason), At: instant(r.At), Evidence: evidence(r.Why),
	}
	for _, e := range r.Entries() {
		out.Entries = append(out.Entries, entry(e))
	}
	return marshal(out)
}

// evidence is what of why can stand in a record.
func evidence(why []byte) json.RawMessage {
	if !json.Valid(why) {
		return nil
	}
	if clean := cleanJSON(why); len(clean) <= maxEvidenceBytes {
		return clean
	}
	return fmt.Appendf(nil, `{"left_out_bytes":%d}`, len(why))
}

func offices() []watchdog.SettledBy {
	return []watchdog.SettledBy{watchdog.ByAgent, watchdog.BySupervisor, watchdog.BySweeper, watchdog.ByReaper, watchdog.ByOperator}
}

// DecodeRecord reads the terminal record that stands at the place of (id, g).
// One that does not decode, or that speaks of another place, is no outcome: the
// error wraps watchdog.ErrForeignRecord and says what is wrong.
func DecodeRecord(id watchdog.ID, g watchdog.Generation, src []byte) (watchdog.Record, error) {
	r, err := readRecord(src)
	if err == nil {
		err = checkRecord(r, id, g)
	}
	if err != nil {
		return watchdog.Record{}, foreign(id, g, err)
	}
	return r, nil
}

// foreign is the error about what stands at the place of a terminal record.
func foreign(id watchdog.ID, g watchdog.Generation, why error) error {
	return fmt.Errorf("%s#%d: %w: %w; only an operator's expire ends this generation", id, g, watchdog.ErrForeignRecord, why)
}

func checkRecord(r watchdog.Record, id watchdog.ID, g watchdog.Generation) error {
	switch {
	case r.ID != id || r.Generation != g:
		return fmt.Errorf("it speaks of %q#%d", r.ID, r.Generation)
	case r.Outcome == watchdog.OutcomeNone:
		return fmt.Errorf("it has no outcome")
	case r.SettledBy == "":
		return fmt.Errorf("it does not say who settled it")
	case r.Nonce == "":
		return fmt.Errorf("it has no nonce")
	}
	return nil
}

func readRecord(src []byte) (r watchdog.Record, err error) {
	err = readDocument(src, fields{
		"session_id": sessionID(&r.ID),
		"generation": generation(&r.Generation),
		"outcome":    outcome(&r.Outcome),
		"settled_by": func(v value) error {
			r.SettledBy = watchdog.SettledBy(v.text)
			if !slices.Contains(offices(), r.SettledBy) {
				return fmt.Errorf("is %q, which is no office", termtext.Clean(v.text))
			}
			return nil
		},
		"writer": cleaned(&r.Writer),
		"nonce":  exactly(&r.Nonce),
		"reason": cleaned(&r.Reason),
		"at":     momentCut(&r.At),
		"evidence": func(v value) error {
			r.Why = cleanJSON(v.raw)
			return nil
		},
		// They are a function of the rest, so they are looked at no closer.
		"records": list(func(value) error { return nil }),
	})
	return r, err
}

// momentCut reads a moment to the millisecond, as we write it.
func momentCut(into *time.Time) func(value) error {
	read := moment(into)
	return func(v value) error {
		err := read(v)
		*into = into.Truncate(time.Millisecond)
		return err
	}
}

func outcome(into *watchdog.Outcome) func(value) error {
	return func(v value) error {
		for o := watchdog.OutcomeCompleted; o <= watchdog.OutcomeExpired; o++ {
			if v.kind == kindText && v.text == o.String() {
				*into = o
				return nil
			}
		}
		return fmt.Errorf("is %q, which is no outcome", termtext.Clean(v.text))
	}
}
