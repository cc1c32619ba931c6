package serveview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Trials judges what came into a serve by other thresholds. Try may take long; it
// ends with ctx.
type Trials interface {
	Reach(ctx context.Context) (TrialReach, error)
	Try(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error)
}

// TrialReach is on what a trial looks, and by which policy it is judged now.
type TrialReach struct {
	Policy watchdog.Policy
	Text   string // for people
}

const (
	trialWithin = 10 * time.Minute // waiting for others included
	trialAlive  = 2 * time.Second  // how often one that runs says so
)

// tried is one event of a trial: its result, why there is none, or neither while
// it runs.
type tried struct {
	Result *watchdog.TrialResult `json:"result"`
	Error  string                `json:"error"`
}

var errNoTrials = &failure{http.StatusNotFound, "this serve keeps nothing that could be tried on"}

// trialReach says on what a trial looks.
func (s *Server) trialReach(w http.ResponseWriter, r *http.Request) error {
	if s.o.Trial == nil {
		return errNoTrials
	}
	reach, err := s.o.Trial.Reach(r.Context())
	if err != nil {
		return err
	}
	return send(w, reach)
}

// try judges what came in by other thresholds, one trial at a time. Its result is
// the last event of a stream, which ends the trial when it is closed.
func (s *Server) try(w http.ResponseWriter, r *http.Request) error {
	if s.o.Trial == nil {
		return errNoTrials
	}
	var asked struct{ Words string }
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAskBytes)).Decode(&asked) != nil {
		return &failure{http.StatusBadRequest, `name thresholds: {"words":"stall_timeout=10m"}`}
	}
	reach, err := s.o.Trial.Reach(r.Context())
	if err != nil {
		return err
	}
	would, err := watchdog.ParseTrial(reach.Policy, asked.Words)
	if err != nil {
		return &failure{http.StatusBadRequest, err.Error()}
	}
	events := startEvents(w)
	alive := aliveWhile(r.Context(), events)
	result, err := s.inTurn(r.Context(), would)
	alive()
	last := tried{Result: &result}
	if err != nil {
		last = tried{Error: err.Error()}
	}
	body, err := json.Marshal(last)
	if err != nil {
		return err
	}
	_ = events.send(body) // who asked is gone
	return nil
}

// inTurn tries once nobody else does.
func (s *Server) inTurn(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error) {
	ctx, cancel := context.WithTimeout(ctx, trialWithin)
	defer cancel()
	select {
	case s.trying <- struct{}{}:
		defer func() { <-s.trying }()
	case <-ctx.Done():
		return watchdog.TrialResult{}, errors.New("others try on this serve; try again in a while")
	}
	result, err := s.o.Trial.Try(ctx, would)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("given up after %s: this serve has too much else to do", watchdog.FormatLimit(trialWithin))
	}
	return result, err
}

// aliveWhile says that a stream is there, until what it returns is called.
func aliveWhile(ctx context.Context, events *eventStream) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(trialAlive)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if events.send([]byte(`{}`)) != nil {
					return
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// TrialReach asks on what a trial looks.
func (c *Client) TrialReach(ctx context.Context) (reach TrialReach, err error) {
	return reach, c.json(ctx, http.MethodGet, "/v1/trial", nil, &reach)
}

// Try asks what the thresholds that words name would have raised. It may take
// minutes; the serve gives it up when ctx ends.
func (c *Client) Try(ctx context.Context, words string) (watchdog.TrialResult, error) {
	res, err := c.do(ctx, http.MethodPost, "/v1/trial", map[string]string{"words": words})
	if err != nil {
		return watchdog.TrialResult{}, err
	}
	var last tried
	err = c.readEvents(res, answerWithin, func(body []byte) error {
		if json.Unmarshal(body, &last) != nil {
			return c.unreadable("its trial")
		}
		if last.Error != "" || last.Result != nil {
			return io.EOF
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return watchdog.TrialResult{}, ctx.Err()
	case err != nil:
		return watchdog.TrialResult{}, err
	case last.Error != "":
		return watchdog.TrialResult{}, fmt.Errorf("the serve at %s: %s", c.o.Address, netreason.Short(last.Error))
	}
	return *last.Result, nil
}
