package serveview

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// wish is an action in words, as it is asked for over HTTP.
type wish struct {
	ID         string              `json:"command_id"` // minted by who asks, so that asking again is safe; empty: by us
	Op         string              `json:"op"`
	Session    watchdog.ID         `json:"session_id"`
	Generation watchdog.Generation `json:"generation"` // 0 or absent: not known
	BootID     string              `json:"boot_id"`
	Reason     string              `json:"reason"`
	IssuedBy   string              `json:"issued_by"`
}

// act takes in an action and answers with its fate so far. What becomes of it
// then stands in windows and under /v1/actions.
func (s *Server) act(w http.ResponseWriter, r *http.Request) error {
	var asked wish
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAskBytes)).Decode(&asked); err != nil {
		return &failure{http.StatusBadRequest, `the body is not an action in JSON: {"op":"stop","session_id":"indexer","generation":2,"reason":"wedged","issued_by":"ops1"}`}
	}
	op, err := watchdog.ParseOp(asked.Op)
	if err != nil {
		return &failure{http.StatusBadRequest, err.Error()}
	}
	switch {
	case !wire.ValidID(asked.Session):
		return &failure{http.StatusBadRequest, "session_id names no session"}
	case asked.ID != "" && !wire.Mintable(asked.ID):
		return &failure{http.StatusBadRequest, "command_id must be letters, digits, - and _"}
	case s.o.Do == nil:
		return &failure{http.StatusForbidden, "nothing can be acted on through this serve"}
	}
	a, err := s.o.Do(r.Context(), watchdog.Command{ID: asked.ID, Op: op, Session: asked.Session, Generation: asked.Generation, BootID: asked.BootID,
		Reason: asked.Reason, IssuedBy: asked.IssuedBy})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = wire.EncodeAction(w, a) // who asked is gone
	return nil
}

// actions lists what was asked for through this serve, newest first.
func (s *Server) actions(w http.ResponseWriter, r *http.Request) error {
	win, err := s.o.Engine.Look(r.Context(), watchdog.Ask{Actions: actionsAsked})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return wire.EncodeActions(w, win.Actions)
}

const actionsAsked = 1000

// Do asks the serve for an action and gives its fate so far. Asking again with
// the same id is safe.
func (c *Client) Do(ctx context.Context, cmd watchdog.Command) (watchdog.Action, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	res, err := c.do(ctx, http.MethodPost, "/v1/actions", wish{ID: cmd.ID, Op: string(cmd.Op), Session: cmd.Session, Generation: cmd.Generation,
		BootID: cmd.BootID, Reason: cmd.Reason, IssuedBy: cmd.IssuedBy})
	if err != nil {
		return watchdog.Action{}, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAskBytes))
	if err != nil {
		return watchdog.Action{}, fmt.Errorf("the serve at %s: %s; whether it took the action is not known: look at its actions", c.o.Address, netreason.Network(err))
	}
	a, err := wire.DecodeAction(bytes.TrimSpace(answer))
	if err != nil {
		return watchdog.Action{}, fmt.Errorf("the serve at %s: %w; is it of another version?", c.o.Address, err)
	}
	return a, nil
}
