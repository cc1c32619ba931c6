package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// OutputLine is one line that a supervised session wrote, as it goes over a bus
// to whoever listens.
type OutputLine struct {
	Session    watchdog.ID
	Generation watchdog.Generation // 0 not known when it was written
	Seq        int64               // counted by By, over all generations
	At         time.Time           // wall clock of By
	Stream     string              // stdout, stderr
	Text       string              // cleaned
	Dropped    int64               // lines right before this one that were not sent
	Newest     bool                // the newest lines that are kept begin with it; live ones follow
	By         string              // the process that supervises: "run@eu1-02/4700"
}

// OutputHold is how long one wish for a session's output holds.
const OutputHold = 30 * time.Second

// MaxOutputBytes is the longest message with a line that is read.
const MaxOutputBytes = 128 << 10

type outputLine struct {
	ID         watchdog.ID `json:"session_id"`
	Generation ordinal     `json:"generation"`
	Seq        int64       `json:"seq"`
	At         string      `json:"at"`
	Stream     string      `json:"stream"`
	Text       string      `json:"text"`
	Dropped    int64       `json:"dropped"`
	Newest     bool        `json:"newest"`
	By         string      `json:"by"`
}

// EncodeOutput spells a line.
func EncodeOutput(l OutputLine) ([]byte, error) {
	return json.Marshal(outputLine{l.Session, ordinal(l.Generation), l.Seq, FormatTime(l.At), l.Stream, l.Text, l.Dropped, l.Newest, l.By})
}

// DecodeOutput reads a line of session id. Its texts are cleaned.
func DecodeOutput(id watchdog.ID, data []byte) (OutputLine, error) {
	if len(data) > MaxOutputBytes {
		return OutputLine{}, fmt.Errorf("a line of output of %d bytes is longer than %d", len(data), MaxOutputBytes)
	}
	var in struct {
		ID         watchdog.ID         `json:"session_id"`
		Generation watchdog.Generation `json:"generation"`
		Seq        int64               `json:"seq"`
		At         string              `json:"at"`
		Stream     string              `json:"stream"`
		Text       string              `json:"text"`
		Dropped    int64               `json:"dropped"`
		Newest     bool                `json:"newest"`
		By         string              `json:"by"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return OutputLine{}, fmt.Errorf("a line of output cannot be read: %w", err)
	}
	at, err := ParseTime(in.At)
	switch {
	case err != nil:
		return OutputLine{}, fmt.Errorf("a line of output has no time: %w", err)
	case in.ID != id:
		return OutputLine{}, errors.New("a line of output is of another session than its subject")
	case in.Seq < 1 || in.Dropped < 0:
		return OutputLine{}, errors.New("a line of output has no number")
	}
	if in.Stream != "stderr" {
		in.Stream = "stdout"
	}
	return OutputLine{Session: id, Generation: in.Generation, Seq: in.Seq, At: at, Stream: in.Stream, Text: termtext.CleanLong(in.Text),
		Dropped: in.Dropped, Newest: in.Newest, By: termtext.Clean(in.By)}, nil
}

// OutputWish is what a request for output says: Newest asks for the newest lines
// that are kept, too. Any other payload asks for what comes from now on, and for
// the newest lines if nobody listened before.
type OutputWish struct {
	Newest bool `json:"newest"`
}

// OutputHeld answers a request: who sends, and for how long.
type OutputHeld struct {
	Session  watchdog.ID `json:"session_id"`
	By       string      `json:"by"`
	HeldSecs float64     `json:"held_secs"`
}
