package serveview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// raisedAlive is how often a stream of raised alerts says that it is there.
const raisedAlive = 5 * time.Second

// note writes what an operator says of an alert on the board of the serve.
func (s *Server) note(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxNoteBytes))
	if err != nil {
		return &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("a note has %d bytes at most", wire.MaxNoteBytes)}
	}
	var named struct {
		Key watchdog.AlertKey `json:"key"`
	}
	_ = json.Unmarshal(body, &named) // what is wrong is said below
	n, err := wire.DecodeNote(named.Key, body)
	switch {
	case err != nil:
		return &failure{http.StatusBadRequest, err.Error()}
	case s.o.Note == nil || s.o.About.ReadOnly:
		return &failure{http.StatusForbidden, "this serve is read-only; nothing can be acknowledged through it"}
	}
	var newer *watchdog.NewerNote
	var here *watchdog.KeptHere
	switch err := s.o.Note(r.Context(), n); {
	case errors.As(err, &here):
		return send(w, noteKept{&here.Why})
	case errors.As(err, &newer):
		return &failure{http.StatusConflict, err.Error()}
	case err != nil:
		return err
	}
	return send(w, noteKept{})
}

// noteKept says that a note was kept.
type noteKept struct {
	Here *string `json:"kept_here"` // why on the serve's machine alone; null: on a bus
}

// PutNote writes what an operator says of an alert on the board of the serve.
func (c *Client) PutNote(ctx context.Context, n watchdog.AlertNote) error {
	text, err := wire.EncodeNote(n)
	if err != nil {
		return err
	}
	var kept noteKept
	if err := c.json(ctx, http.MethodPost, "/v1/notes", json.RawMessage(text), &kept); err != nil {
		return err
	}
	if kept.Here != nil {
		return &watchdog.KeptHere{Why: *kept.Here}
	}
	return nil
}

// raisedAlerts streams alerts as they are raised, from now on.
func (s *Server) raisedAlerts(w http.ResponseWriter, r *http.Request) error {
	if s.o.Raised == nil {
		return &failure{http.StatusNotFound, "this serve raises no alerts"}
	}
	_, seen, _ := s.o.Raised(0)
	if after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64); err == nil && after <= seen {
		seen = after
	}
	events := startEvents(w)
	alive := time.NewTicker(raisedAlive)
	defer alive.Stop()
	for {
		news, now, changed := s.o.Raised(seen)
		for i, raise := range news {
			body, err := json.Marshal(raised{now - uint64(len(news)-1-i), &raise})
			if err != nil || events.send(body) != nil {
				return nil // who asked is gone
			}
		}
		seen = now
		select {
		case <-r.Context().Done():
			return nil
		case <-changed:
		case <-alive.C:
			if body, err := json.Marshal(raised{Count: seen}); err != nil || events.send(body) != nil {
				return nil
			}
		}
	}
}

// raised is one event of the stream.
type raised struct {
	Count uint64          `json:"count"` // of alerts that were raised by then
	Raise *watchdog.Raise `json:"raise"` // null: it only says that it is there
}

// Raised calls each with every alert that the serve raises from now on, until ctx
// ends. It survives a serve that is away, and misses what is raised meanwhile
// beyond the last few hundred.
func (c *Client) Raised(ctx context.Context, each func(watchdog.Raise)) {
	path := "/v1/raised"
	for ctx.Err() == nil {
		_ = c.raisedOnce(ctx, path, func(r raised) { // why it broke is said by the stream of windows
			path = "/v1/raised?after=" + strconv.FormatUint(r.Count, 10)
			if r.Raise != nil {
				each(*r.Raise)
			}
		})
		select {
		case <-ctx.Done():
		case <-time.After(retryMost):
		}
	}
}

// raisedOnce reads one stream until it breaks.
func (c *Client) raisedOnce(ctx context.Context, path string, each func(raised)) error {
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return c.readEvents(res, 3*raisedAlive, func(body []byte) error {
		var r raised
		if json.Unmarshal(body, &r) != nil {
			return c.unreadable("an alert")
		}
		each(r)
		return nil
	})
}
