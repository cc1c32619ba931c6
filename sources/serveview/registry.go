package serveview

import (
	"context"
	"net/http"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Registry is how well the reaper of a serve does, and what became of what it
// released. Times are of the serve's wall clock.
type Registry struct {
	LastRun  *time.Time `json:"last_run"` // of the last good round; nil: there was none
	Problem  string     `json:"problem"`  // why the last round was not good; empty: it was
	Releases []Release  `json:"releases"` // newest first
}

// Release is what became of one run of the release hook.
type Release struct {
	SessionID watchdog.ID `json:"session_id"`
	OK        bool        `json:"ok"`
	ExitCode  int         `json:"exit_code"` // -1: it did not end by itself
	Output    string      `json:"output"`    // the end of what it said, cleaned
	At        time.Time   `json:"at"`
	TookMs    int64       `json:"took_ms"`
}

func (s *Server) registry(w http.ResponseWriter, _ *http.Request) error {
	if s.o.Registry == nil {
		return &failure{http.StatusNotFound, "this serve keeps no registry: it listens on no port"}
	}
	r := s.o.Registry()
	if r.Releases == nil {
		r.Releases = []Release{}
	}
	return send(w, r)
}

// Registry asks how the registry does.
func (c *Client) Registry(ctx context.Context) (r Registry, err error) {
	return r, c.json(ctx, http.MethodGet, "/v1/registry", nil, &r)
}
