package serveview

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeTrials answers as try says.
type fakeTrials struct {
	try func(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error)
}

// Reach is by the default policy.
func (f fakeTrials) Reach(context.Context) (TrialReach, error) {
	return TrialReach{Policy: watchdog.DefaultPolicy(), Text: "what came in from 02:08:44Z, 1h04"}, nil
}

// Try is as the test says.
func (f fakeTrials) Try(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error) {
	return f.try(ctx, would)
}

func TestTrialsThroughAServe(t *testing.T) {
	var result watchdog.TrialResult
	full(reflect.ValueOf(&result).Elem(), 0)
	result.Now.BrakeShare, result.Would.BrakeShare = 0.02, 0.05
	var tried watchdog.Policy
	c := clientOf(t, NewServer(Options{About: About{ReadOnly: true}, Trial: fakeTrials{func(_ context.Context, would watchdog.Policy) (watchdog.TrialResult, error) {
		tried = would
		return result, nil
	}}}).Handler())
	if about, err := c.About(t.Context()); err != nil || !about.Trial {
		t.Errorf("it does not say that it can try: %+v, %v", about, err)
	}
	reach, err := c.TrialReach(t.Context())
	if err != nil || !strings.HasSuffix(reach.Text, "1h04") {
		t.Errorf("%+v, %v", reach, err)
	}
	if diff := cmp.Diff(watchdog.DefaultPolicy(), reach.Policy); diff != "" {
		t.Error(diff)
	}
	got, err := c.Try(t.Context(), "stall_timeout=10m batch-*:quiet=ignore")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(result, got); diff != "" {
		t.Error(diff)
	}
	if tried.StallTimeout != 10*time.Minute || len(tried.Overrides) != 1 || tried.Overrides[0].Match != "batch-*" {
		t.Errorf("tried %+v", tried)
	}
	if _, err := c.Try(t.Context(), "max_sessions=9"); err == nil || !strings.Contains(err.Error(), "max_sessions") {
		t.Errorf("what is no threshold: %v", err)
	}
}

// TestWhoCannotTry: a serve that keeps nothing, one that fails, and one of before
// there were trials say so in a sentence.
func TestWhoCannotTry(t *testing.T) {
	for want, h := range map[string]http.Handler{
		"keeps nothing that could be tried on": NewServer(Options{}).Handler(),
		"nothing is kept yet": NewServer(Options{Trial: fakeTrials{func(context.Context, watchdog.Policy) (watchdog.TrialResult, error) {
			return watchdog.TrialResult{}, errors.New("nothing is kept yet")
		}}}).Handler(),
		"it is older than this program": http.NewServeMux(),
		"connection lost": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			startEvents(w)
		}),
		"cannot be read; is it of another version?": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = startEvents(w).send([]byte(`{"result":7}`))
		}),
	} {
		if _, err := clientOf(t, h).Try(t.Context(), "stall_timeout=10m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestTrialEndsWithWhoAsked: a screen that leaves takes its trial with it, and
// then the next one has its turn.
func TestTrialEndsWithWhoAsked(t *testing.T) {
	begun, ended := make(chan bool, 2), make(chan bool, 2)
	c := clientOf(t, NewServer(Options{Trial: fakeTrials{func(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error) {
		begun <- true
		defer func() { ended <- true }()
		if would.StallTimeout == time.Hour {
			<-ctx.Done()
			return watchdog.TrialResult{}, ctx.Err()
		}
		return watchdog.TrialResult{Sessions: 7}, nil
	}}}).Handler())
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := c.Try(ctx, "stall_timeout=1h")
		gone <- err
	}()
	<-begun
	next := make(chan error)
	go func() {
		r, err := c.Try(t.Context(), "stall_timeout=10m")
		if err == nil && r.Sessions != 7 {
			err = errors.New("another result")
		}
		next <- err
	}()
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who left hears %v", err)
	}
	<-ended
	if err := <-next; err != nil {
		t.Errorf("the next one hears %v", err)
	}
}

// TestOneTrialAtATime: two screens cost no more than one, and hear that the serve
// is there meanwhile; none takes for ever.
func TestOneTrialAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		s := NewServer(Options{Trial: fakeTrials{func(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error) {
			running++
			most = max(most, running)
			defer func() { running-- }()
			select {
			case <-time.After(would.StallTimeout):
				return watchdog.TrialResult{Sessions: 7}, nil
			case <-ctx.Done():
				return watchdog.TrialResult{}, ctx.Err()
			}
		}}})
		ask := func(words string) *httptest.ResponseRecorder {
			res := httptest.NewRecorder()
			s.Handler().ServeHTTP(res, httptest.NewRequest(http.MethodPost, "/v1/trial", strings.NewReader(`{"words":"`+words+`"}`)))
			return res
		}
		answers := make(chan string, 2)
		for range 2 {
			go func() { answers <- ask("stall_timeout=20s").Body.String() }()
		}
		for range 2 {
			body := <-answers
			events := strings.Split(strings.TrimSpace(body), "\n\n")
			var last tried
			if err := json.Unmarshal([]byte(strings.TrimPrefix(events[len(events)-1], "data: ")), &last); err != nil || last.Result == nil || last.Result.Sessions != 7 {
				t.Errorf("%v: %s", err, body)
			}
			if n := len(events); n < 9 {
				t.Errorf("%d events in 20 s: a client would take it for hung", n)
			}
		}
		if most != 1 {
			t.Errorf("%d trials ran at once", most)
		}
		if body := ask("stall_timeout=1h").Body.String(); !strings.Contains(body, "given up after 10m") {
			t.Errorf("no end: %s", body)
		}
	})
}
