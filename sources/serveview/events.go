package serveview

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// eventsAsked is how many of the latest events one request gives.
const eventsAsked = 4096

// followPause is how often a stream of events looks for new ones.
const followPause = 200 * time.Millisecond

// events gives what happened, oldest first, one JSON object a line. With
// follow=1 it goes on with what happens.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	ask := watchdog.Ask{Events: eventsAsked, EventsOf: watchdog.ID(r.URL.Query().Get("id"))}
	win, err := s.o.Engine.Look(r.Context(), ask)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctrl := http.NewResponseController(w)
	var after Mark
	if after, err = writeEvents(w, win.Events, after); err != nil {
		return nil // who asked is gone
	}
	if r.URL.Query().Get("follow") != "1" {
		return nil
	}
	_ = ctrl.SetReadDeadline(time.Time{}) // the stream has no end
	ticker := time.NewTicker(followPause)
	defer ticker.Stop()
	seen := uint64(0)
	for {
		if ctrl.Flush() != nil {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-ticker.C:
		}
		if now := s.o.Engine.Changes(); now == seen {
			continue
		} else {
			seen = now
		}
		if win, err = s.o.Engine.Look(r.Context(), ask); err != nil {
			return nil
		}
		_ = ctrl.SetWriteDeadline(time.Now().Add(eventWithin)) // not every writer can
		if after, err = writeEvents(w, win.Events, after); err != nil {
			return nil
		}
	}
}

// maxLate is how many entries of the quarantine one request gives.
const maxLate = 10_000

// late gives what came late from one session, or from all, newest first, one
// object a line.
func (s *Server) late(w http.ResponseWriter, r *http.Request) error {
	if s.o.Late == nil {
		return &failure{http.StatusNotFound, "this serve keeps no quarantine"}
	}
	most, err := strconv.Atoi(r.URL.Query().Get("most"))
	if err != nil || most < 1 || most > maxLate {
		most = maxLate
	}
	list, err := s.o.Late(r.Context(), watchdog.ID(r.URL.Query().Get("id")), most)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, l := range list {
		if err := wire.EncodeLate(w, l); err != nil {
			return nil // who asked is gone
		}
	}
	return nil
}

// Mark is the newest event that was told.
type Mark struct {
	last watchdog.Transition
	any  bool
}

// After gives those of latest (newest first) that came after the mark, oldest
// first, and the new mark.
func (m Mark) After(latest []watchdog.Transition) ([]watchdog.Transition, Mark) {
	n := len(latest)
	if m.any {
		for i := range latest {
			if latest[i] == m.last {
				n = i
				break
			}
		}
	}
	out := make([]watchdog.Transition, 0, n)
	for i := n - 1; i >= 0; i-- {
		out = append(out, latest[i])
	}
	if n > 0 {
		m = Mark{latest[0], true}
	}
	return out, m
}

func writeEvents(w http.ResponseWriter, latest []watchdog.Transition, after Mark) (Mark, error) {
	news, after := after.After(latest)
	for i := range news {
		if err := wire.EncodeEvent(w, news[i]); err != nil {
			return after, err
		}
	}
	return after, nil
}
