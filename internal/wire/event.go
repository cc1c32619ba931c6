package wire

import (
	"encoding/json"
	"io"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

type event struct {
	At         string       `json:"at"`
	ID         *watchdog.ID `json:"session_id"`
	Generation ordinal      `json:"generation"`
	Kind       string       `json:"kind"`
	From       text         `json:"from"`
	To         text         `json:"to"`
	Text       string       `json:"text"`
}

// EncodeEvent prints one event as events --json does: an object on one line.
func EncodeEvent(to io.Writer, t watchdog.Transition) error {
	e := event{At: FormatTime(time.Unix(0, t.At.Wall)), Generation: ordinal(t.Generation), Kind: t.Kind, Text: t.Text}
	if t.ID != "" {
		e.ID = &t.ID
	}
	if t.Kind == "" {
		e.Kind, e.To = "verdict", text(t.To.String())
		if !t.New {
			e.From = text(t.From.String())
		}
	}
	line := json.NewEncoder(to)
	line.SetEscapeHTML(false)
	return line.Encode(e)
}
