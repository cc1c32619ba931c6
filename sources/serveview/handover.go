package serveview

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The reach of a hand-over.
const (
	handoverDefault = 8 * time.Hour
	handoverMost    = 30 * 24 * time.Hour
)

// handover sums up what happened for who comes next.
func (s *Server) handover(w http.ResponseWriter, r *http.Request) error {
	if s.o.Handover == nil {
		return &failure{http.StatusNotFound, "this serve makes no hand-over"}
	}
	since := handoverDefault
	if text := r.URL.Query().Get("since"); text != "" {
		var err error
		if since, err = time.ParseDuration(text); err != nil || since <= 0 || since > handoverMost {
			return &failure{http.StatusBadRequest, "since must be a duration of up to 720h, such as 8h or 90m"}
		}
	}
	h, err := s.o.Handover(r.Context(), since)
	if err != nil {
		return err
	}
	return send(w, h)
}

// Handover asks for a summary of so long until now.
func (c *Client) Handover(ctx context.Context, since time.Duration) (h watchdog.Handover, err error) {
	return h, c.json(ctx, http.MethodGet, "/v1/handover?"+url.Values{"since": {since.String()}}.Encode(), nil, &h)
}
