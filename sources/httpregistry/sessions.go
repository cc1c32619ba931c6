package httpregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Canceler delivers a stop to a generation. It answers before the stop has
// taken effect: its fate is told elsewhere.
type Canceler interface {
	Cancel(ctx context.Context, id watchdog.ID, g watchdog.Generation, reason string) (commandID string, err error)
}

// register answers POST /sessions: a new generation and its own token.
func (r *Registry) register(w http.ResponseWriter, req *http.Request) error {
	if !grantOf(req).fleet {
		return &refusal{code: http.StatusUnauthorized, text: "only the fleet's token may register sessions"}
	}
	var asked struct {
		ID      string  `json:"session_id"`
		AgentID *string `json:"agent_id"`
		BootID  *string `json:"boot_id"`
	}
	if err := r.decode(w, req, &asked); err != nil {
		return err
	}
	id := watchdog.ID(asked.ID)
	if !wire.ValidID(id) {
		return invalid("session_id is missing or cannot be an id; use 1 to 256 bytes without white space, control characters and * > { }")
	}
	ctx, cancel := context.WithTimeout(req.Context(), 2*storeTimeout)
	defer cancel()
	now := wall(r.o.Clock)
	c := watchdog.Claim{ID: id, Start: now, New: true, Cadence: r.o.Interval, Sources: watchdog.SourceHTTP.Set(), BootID: clean(asked.BootID)}
	g, err := r.o.Ends.Claim(ctx, c)
	if err != nil {
		return away("the ledger", err)
	}
	r.SawHead(watchdog.Head{ID: id, Generation: g})
	entry := Entry{ID: id, AgentID: clean(asked.AgentID), LastSeen: now, TTL: r.o.TTL, Status: Alive}
	if err := r.o.Store.Register(ctx, entry); err != nil {
		return away("the session store", err)
	}
	r.rate.opened(now)
	return reply(w, http.StatusCreated, struct {
		ID         watchdog.ID         `json:"session_id"`
		Generation watchdog.Generation `json:"generation"`
		Token      string              `json:"token"`
	}{id, g, r.tokens.of(id, g)})
}

func clean(text *string) string {
	if text == nil {
		return ""
	}
	return string(termtext.Clean([]byte(*text)))
}

// decode reads a small JSON body.
func (r *Registry) decode(w http.ResponseWriter, req *http.Request, into any) error {
	body, err := r.body(w, req)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return invalid("the body is not the JSON object that is asked for; see the documentation of this path")
	}
	return nil
}

// cancel answers POST /sessions/<id>/cancel: 202 accepted, 200 nothing to stop,
// 409 another generation is current, and then nothing is written.
func (r *Registry) cancel(w http.ResponseWriter, req *http.Request) error {
	id := watchdog.ID(req.PathValue("id"))
	if !wire.ValidID(id) {
		return invalid("%q cannot be a session id", clean((*string)(&id)))
	}
	allowed := grantOf(req)
	if !r.tokens.covers(allowed, id) {
		return &refusal{code: http.StatusUnauthorized, text: "this token is of another session"}
	}
	var asked struct {
		Reason     string              `json:"reason"`
		Generation watchdog.Generation `json:"generation"`
	}
	if err := r.decode(w, req, &asked); err != nil {
		return err
	}
	if allowed.generation != 0 && asked.Generation == 0 {
		asked.Generation = allowed.generation
	}
	ctx, cancel := context.WithTimeout(req.Context(), 2*storeTimeout)
	defer cancel()
	head, _, err := r.head(ctx, id, true)
	if err != nil {
		return away("the ledger", err)
	}
	answer := struct {
		ID         watchdog.ID         `json:"session_id"`
		Generation watchdog.Generation `json:"generation"`
		Result     string              `json:"result"`
		CommandID  *string             `json:"command_id"`
	}{ID: id, Generation: head.Generation}
	switch {
	case asked.Generation != 0 && asked.Generation != head.Generation:
		return &refusal{code: http.StatusConflict, text: fmt.Sprintf("generation %d is current, not %d; nothing was done", head.Generation, asked.Generation)}
	case head.Generation == 0 || head.Ended:
		answer.Result = "nothing to stop"
		return reply(w, http.StatusOK, answer)
	case r.o.Cancel == nil:
		return &refusal{code: http.StatusServiceUnavailable, text: "nobody here delivers stops to this session; stop it where it runs"}
	}
	command, err := r.o.Cancel.Cancel(ctx, id, head.Generation, string(termtext.Clean([]byte(asked.Reason))))
	switch {
	case errors.Is(err, ErrNothingToStop):
		answer.Result = "nothing to stop"
		return reply(w, http.StatusOK, answer)
	case err != nil:
		return &refusal{code: http.StatusServiceUnavailable, text: err.Error()}
	}
	answer.Result, answer.CommandID = "accepted", &command
	return reply(w, http.StatusAccepted, answer)
}

// ErrNothingToStop: the generation ended meanwhile.
var ErrNothingToStop = errors.New("there is nothing to stop")

func reply(w http.ResponseWriter, code int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	write(w, body)
	return nil
}
