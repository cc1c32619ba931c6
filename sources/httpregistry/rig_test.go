package httpregistry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const fleetToken = "a-token-of-the-whole-fleet"

// rig is a registry over a ledger in memory, with a clock that the test moves.
type rig struct {
	t      testing.TB
	clock  *clock.Manual
	ledger *watchdog.MemoryLedger
	store  *MemoryStore
	reg    *Registry
	srv    *httptest.Server

	mu     sync.Mutex
	beats  []watchdog.Beat
	events []watchdog.Event
	audit  []string
	alerts []string
	sight  Sight
}

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(watchdog.Instant{Mono: time.Hour, Boot: time.Hour, Wall: time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).UnixNano()})}
	r.ledger = watchdog.NewMemoryLedger("test", r.clock)
	r.store = NewMemoryStore()
	if err := r.ledger.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	o := Options{Store: r.store, Ends: ends{r}, Sink: r, Watch: r, Clock: r.clock, Token: fleetToken, Writer: "serve@test/1",
		Audit: func(entry any) error {
			line, err := json.Marshal(entry)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.audit = append(r.audit, string(line))
			return err
		},
		Alert: func(text string) { r.alerts = append(r.alerts, text) }}
	if change != nil {
		change(&o)
	}
	var err error
	if r.reg, err = New(o); err != nil {
		t.Fatal(err)
	}
	r.srv = httptest.NewServer(r.reg.Handler(Access{}, func() Health { return Health{Status: "ok", UptimeSecs: 1} }))
	t.Cleanup(r.srv.Close)
	return r
}

// ends joins the rig's ledger to the rules of heads, as the wiring does.
type ends struct{ r *rig }

func (e ends) Head(ctx context.Context, id watchdog.ID) (watchdog.Head, error) {
	h, _, err := e.r.ledger.Head(ctx, id)
	return h, err
}

func (e ends) Record(ctx context.Context, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool, error) {
	return e.r.ledger.Record(ctx, id, g)
}

func (e ends) Claim(ctx context.Context, c watchdog.Claim) (watchdog.Generation, error) {
	return watchdog.Allocate(ctx, e.r.ledger, c)
}

func (e ends) Settle(ctx context.Context, r watchdog.Record) (watchdog.Record, bool, error) {
	r.Nonce = fmt.Sprint("nonce-", nonces.Add(1))
	stands, err := e.r.ledger.WriteOnce(ctx, r)
	if err != nil {
		return stands, false, err
	}
	return stands, stands.Nonce == r.Nonce, watchdog.CloseHead(ctx, e.r.ledger, stands)
}

// Beats and Post take what the registry tells the engine.
func (r *rig) Beats(b []watchdog.Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats = append(r.beats, b...)
}

// heard counts the beats of a session that were told.
func (r *rig) heard(id string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.beats {
		if string(b.ID) == id {
			n++
		}
	}
	return n
}

func (r *rig) Post(ev watchdog.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ev)
}

// Sight answers as the engine would.
func (r *rig) Sight(context.Context, watchdog.ID, watchdog.Generation) (Sight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sight, nil
}

func (r *rig) post(path, token, body string, header ...string) (int, string, http.Header) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.srv.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(answer), res.Header
}

func (r *rig) beat(id string) int {
	r.t.Helper()
	code, _, _ := r.post("/heartbeat", fleetToken, fmt.Sprintf(`{"session_id":%q,"timestamp":1718823042.331}`, id))
	return code
}

func (r *rig) register(id string) (g watchdog.Generation, token string) {
	r.t.Helper()
	code, body, _ := r.post("/sessions", fleetToken, fmt.Sprintf(`{"session_id":%q}`, id))
	var given struct {
		Generation watchdog.Generation
		Token      string
	}
	if code != http.StatusCreated || json.Unmarshal([]byte(body), &given) != nil {
		r.t.Fatalf("POST /sessions: %d %s", code, body)
	}
	return given.Generation, given.Token
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) { r.clock.Advance(d) }

// rounds lets time go by with the reaper's rounds in it.
func (r *rig) rounds(d time.Duration) {
	for ; d > 0; d -= DefaultReapInterval {
		r.pass(DefaultReapInterval)
		r.reg.Round(context.Background())
	}
}

func (r *rig) status(id string) Status {
	e, _, _ := r.store.Entry(context.Background(), watchdog.ID(id))
	return e.Status
}

func beatOf(id string) *watchdog.Beat {
	b := &watchdog.Beat{}
	b.Reset()
	b.ID = []byte(id)
	return b
}
