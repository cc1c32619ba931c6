package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// action is what the command line prints of an action, and what a serve answers.
type action struct {
	Command    string      `json:"command_id"`
	Op         string      `json:"op"`
	ID         watchdog.ID `json:"session_id"`
	Generation ordinal     `json:"generation"`
	Fate       string      `json:"fate"`
	Detail     text        `json:"detail"`
	By         text        `json:"by"`
	Way        text        `json:"way"`
	Next       text        `json:"next"`
	Reason     text        `json:"reason"`
	IssuedBy   text        `json:"issued_by"`
	At         instant     `json:"at"`
	Age        secs        `json:"age_secs"`
	Since      secs        `json:"since_secs"`
}

func actionOf(a *watchdog.Action) action {
	return action{Command: a.ID, Op: string(a.Op), ID: a.Session, Generation: ordinal(a.Generation), Fate: a.Fate.String(),
		Detail: text(a.Detail), By: text(a.By), Way: text(a.Way), Next: text(a.Next), Reason: text(a.Reason), IssuedBy: text(a.IssuedBy),
		At: instant(a.At), Age: secs(a.Age), Since: secs(a.Since)}
}

// EncodeAction writes one action and its fate.
func EncodeAction(to io.Writer, a watchdog.Action) error { return write(to, actionOf(&a)) }

// EncodeActions writes actions, newest first.
func EncodeActions(to io.Writer, list []watchdog.Action) error {
	out := make([]action, len(list))
	for i := range list {
		out[i] = actionOf(&list[i])
	}
	return write(to, out)
}

// DecodeAction reads what EncodeAction wrote.
func DecodeAction(src []byte) (watchdog.Action, error) {
	var in struct {
		Command    string              `json:"command_id"`
		Op         watchdog.Op         `json:"op"`
		ID         watchdog.ID         `json:"session_id"`
		Generation watchdog.Generation `json:"generation"`
		Fate       string              `json:"fate"`
		Detail     string              `json:"detail"`
		By         string              `json:"by"`
		Way        string              `json:"way"`
		Next       string              `json:"next"`
		Reason     string              `json:"reason"`
		IssuedBy   string              `json:"issued_by"`
		At         time.Time           `json:"at"`
		Age        float64             `json:"age_secs"`
		Since      float64             `json:"since_secs"`
	}
	if err := json.Unmarshal(src, &in); err != nil {
		return watchdog.Action{}, fmt.Errorf("an action cannot be read: %w", err)
	}
	fate, err := watchdog.ParseFate(in.Fate)
	if err != nil {
		return watchdog.Action{}, fmt.Errorf("an action cannot be read: %w", err)
	}
	return watchdog.Action{
		Command: watchdog.Command{ID: in.Command, Op: in.Op, Session: in.ID, Generation: in.Generation, Reason: in.Reason, IssuedBy: in.IssuedBy, At: in.At},
		Fate:    fate, Detail: in.Detail, By: in.By, Way: in.Way, Next: in.Next,
		Age: time.Duration(in.Age * 1e9), Since: time.Duration(in.Since * 1e9),
	}, nil
}
