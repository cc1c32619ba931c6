package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

type late struct {
	ID         watchdog.ID     `json:"session_id"`
	Generation ordinal         `json:"generation"`
	Source     string          `json:"source"`
	At         string          `json:"quarantined_at"`
	LateBy     secs            `json:"late_by_secs"`
	MaybeNew   bool            `json:"maybe_new"`
	Original   json.RawMessage `json:"original"`
}

// EncodeLate prints one entry of the quarantine on one line: the original as it
// came, with when and by how much it was late. An original that is not JSON is
// printed as a string.
func EncodeLate(to io.Writer, l watchdog.Late) error {
	e := late{ID: l.ID, Generation: ordinal(l.Generation), Source: l.Source.String(), At: FormatTime(l.At), LateBy: secs(l.LateBy),
		MaybeNew: l.MaybeNew, Original: l.Raw}
	if !json.Valid(l.Raw) {
		e.Original, _ = json.Marshal(string(l.Raw)) // any text can be marshalled
	}
	line := json.NewEncoder(to)
	line.SetEscapeHTML(false)
	return line.Encode(e)
}

// DecodeLate reads what EncodeLate prints.
func DecodeLate(line []byte) (watchdog.Late, error) {
	var e struct {
		ID         watchdog.ID         `json:"session_id"`
		Generation watchdog.Generation `json:"generation"`
		Source     string              `json:"source"`
		At         string              `json:"quarantined_at"`
		LateBy     float64             `json:"late_by_secs"`
		MaybeNew   bool                `json:"maybe_new"`
		Original   json.RawMessage     `json:"original"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return watchdog.Late{}, fmt.Errorf("an entry of the quarantine cannot be read: %w", err)
	}
	at, err := ParseTime(e.At)
	if err != nil {
		return watchdog.Late{}, fmt.Errorf("an entry of the quarantine has no time: %w", err)
	}
	l := watchdog.Late{ID: e.ID, Generation: e.Generation, Raw: e.Original, At: at, LateBy: time.Duration(e.LateBy * float64(time.Second)), MaybeNew: e.MaybeNew}
	for _, s := range watchdog.AllSources() {
		if s.String() == e.Source {
			l.Source = s
		}
	}
	var text string
	if json.Unmarshal(e.Original, &text) == nil {
		l.Raw = []byte(text)
	}
	return l, nil
}
