package httpregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
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

var nonces atomic.Int64

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

func TestAnswersOfHeartbeat(t *testing.T) {
	good := `{"session_id":"abc-1234","timestamp":1718823042.331}`
	for name, c := range map[string]struct {
		token, body string
		header      []string
		code        int
	}{
		"accepted":               {fleetToken, good, nil, 204},
		"all fields of a beat":   {fleetToken, `{"session_id":"abc-1234","state":"waiting on you","uptime_secs":3,"current_task":"x","timestamp":1}`, nil, 204},
		"no token":               {"", good, nil, 401},
		"wrong token":            {"wrong", good, nil, 401},
		"token before body":      {"", `{`, nil, 401},
		"token before type":      {"", good, []string{"Content-Type", "text/plain"}, 401},
		"token before host":      {"", good, []string{"Host", "evil.example"}, 401},
		"forged generation":      {"g1.AAAA", good, nil, 401},
		"no JSON":                {fleetToken, `session_id=abc`, nil, 400},
		"empty":                  {fleetToken, ``, nil, 400},
		"an array":               {fleetToken, `[]`, nil, 400},
		"no id":                  {fleetToken, `{"timestamp":1}`, nil, 400},
		"null id":                {fleetToken, `{"session_id":null}`, nil, 400},
		"bad id":                 {fleetToken, `{"session_id":"a b"}`, nil, 400},
		"hidden twin":            {fleetToken, "{\"session_id\":\"abc\u200b\"}", nil, 400},
		"negative uptime":        {fleetToken, `{"session_id":"a","uptime_secs":-5}`, nil, 400},
		"null state":             {fleetToken, `{"session_id":"a","state":null}`, nil, 400},
		"state twice":            {fleetToken, `{"session_id":"a","state":"running","state":"error"}`, nil, 400},
		"generation never given": {fleetToken, `{"session_id":"a","generation":7}`, nil, 400},
		"wrong type":             {fleetToken, good, []string{"Content-Type", "text/plain"}, 415},
		"too large":              {fleetToken, `{"session_id":"a","message":"` + strings.Repeat("x", 20<<10) + `"}`, nil, 413},
		"foreign host":           {fleetToken, good, []string{"Host", "evil.example"}, 403},
		"foreign page":           {fleetToken, good, []string{"Origin", "http://evil.example"}, 403},
		"a page of ours":         {fleetToken, good, []string{"Origin", "http://localhost:7077"}, 204},
		"null origin":            {fleetToken, good, []string{"Origin", "null"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			code, body, header := r.post("/heartbeat", c.token, c.body, c.header...)
			if code != c.code {
				t.Fatalf("%d %s, want %d", code, body, c.code)
			}
			if code >= 400 {
				var said struct{ Error string }
				if json.Unmarshal([]byte(body), &said) != nil || len(said.Error) < 10 {
					t.Errorf("the error says nothing: %q", body)
				}
			}
			if code == 401 && header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			if code != 204 && len(r.beats) > 0 {
				t.Error("a refused heartbeat reached the engine")
			}
		})
	}
}

func TestHeartbeatReachesEngineWithItsGeneration(t *testing.T) {
	r := newRig(t, nil)
	if code := r.beat("a"); code != 204 {
		t.Fatal(code)
	}
	b := r.beats[0]
	if b.Source != watchdog.SourceHTTP || b.Generation != 1 || b.State != watchdog.StateRunning || b.Interval != DefaultInterval {
		t.Errorf("%+v", b)
	}
}

func TestReapsStrictlyAfterTheTTL(t *testing.T) {
	r := newRig(t, nil)
	r.beat("a")
	r.rounds(45 * time.Second)
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s at exactly the ttl", s)
	}
	r.pass(time.Millisecond)
	r.reg.Round(context.Background())
	if s := r.status("a"); s != Reaped {
		t.Fatalf("%s past the ttl", s)
	}
	code, body, _ := r.post("/heartbeat", fleetToken, `{"session_id":"a"}`)
	var g gone
	if err := json.Unmarshal([]byte(body), &g); err != nil || code != 410 {
		t.Fatal(code, body)
	}
	if g.Error != "session_gone" || g.SessionID != "a" || g.Generation != 1 || g.Outcome == nil || *g.Outcome != "lost" || g.At == nil || g.Reason == "" {
		t.Errorf("%s", body)
	}
	if !strings.Contains(r.audit[0], `"event":"session.reaped"`) || !strings.Contains(r.audit[0], `"session_id":"a"`) {
		t.Errorf("audit: %s", r.audit)
	}
	if len(r.beats) != 2 || r.beats[1].Generation != 1 {
		t.Errorf("the late heartbeat must reach the quarantine: %+v", r.beats)
	}
	// Nothing is settled twice.
	r.rounds(time.Minute)
	if len(r.audit) != 1 {
		t.Errorf("audited again: %s", r.audit)
	}
}

func TestHeartbeatBetweenScanAndReap(t *testing.T) {
	r := newRig(t, nil)
	r.beat("a")
	e, _, _ := r.store.Entry(context.Background(), "a")
	r.pass(46 * time.Second)
	r.beat("a")
	r.reg.consider(context.Background(), e, time.Unix(0, r.clock.Now().Wall))
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s, though it beat", s)
	}
}

func TestNobodyIsReapedForOurAbsence(t *testing.T) {
	r := newRig(t, nil)
	_ = r.store.Register(context.Background(), Entry{ID: "old", LastSeen: time.Unix(0, r.clock.Now().Wall).Add(-time.Hour), TTL: 45 * time.Second, Status: Alive})
	r.rounds(45 * time.Second) // just started: it may have tried while nobody listened
	if s := r.status("old"); s != Alive {
		t.Fatalf("%s before one ttl of listening", s)
	}
	r.rounds(15 * time.Second)
	if s := r.status("old"); s != Reaped {
		t.Fatalf("%s after it", s)
	}
	r.beat("b")
	r.reg.Round(context.Background())
	r.pass(2 * time.Hour) // we were stopped
	r.reg.Round(context.Background())
	if s := r.status("b"); s != Alive {
		t.Fatalf("%s after a stop of ours", s)
	}
}

func TestBreakGlass(t *testing.T) {
	for name, broken := range map[string]func(*Entry){
		"status":    func(e *Entry) { e.Status = Expired },
		"last_seen": func(e *Entry) { e.LastSeen = time.Time{} },
	} {
		for _, by := range []string{"the reaper", "the next heartbeat"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				r := newRig(t, nil)
				r.beat("a")
				e, _, _ := r.store.Entry(context.Background(), "a")
				broken(&e)
				r.store.entries["a"] = e
				if by == "the reaper" {
					r.rounds(DefaultReapInterval)
				}
				code, body, _ := r.post("/heartbeat", fleetToken, `{"session_id":"a"}`)
				if code != 410 || !strings.Contains(body, `"outcome":"expired"`) {
					t.Fatalf("%d %s", code, body)
				}
				e, _, _ = r.store.Entry(context.Background(), "a")
				if e.Status != Expired || !e.LastSeen.IsZero() {
					t.Errorf("hash: %+v", e)
				}
				r.rounds(time.Minute)
				if len(r.audit) != 1 {
					t.Errorf("%d audit lines: %s", len(r.audit), r.audit)
				}
			})
		}
	}
}

// A mark that an older generation left in the hash says nothing of a newer one,
// which came by another way; what an operator does to the newer one counts.
func TestMarkOfAnOlderGenerationExpiresNobody(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		between []watchdog.Outcome // how the generations in between ended
		restart bool               // the registry remembers nothing
		hash    func(r *rig)       // what is done once the newer one lives; nil: nothing
		expired bool
	}{
		"the next one":                  {},
		"the next one, after a restart": {restart: true},
		"one behind others":             {between: []watchdog.Outcome{watchdog.OutcomeLost, watchdog.OutcomeCompleted}},
		"status is set again":           {hash: func(r *rig) { r.store.entries["a"] = Entry{ID: "a", LastSeen: wall(r.clock), Status: Expired} }, expired: true},
		"only a status is there": {restart: true, hash: func(r *rig) {
			r.store.entries["a"] = Entry{ID: "a", LastSeen: wall(r.clock), TTL: DefaultTTL, Status: Expired}
		}, expired: true},
		"only a last_seen is there":        {hash: func(r *rig) { r.store.entries["a"] = Entry{ID: "a"} }, expired: true},
		"last_seen is set to 0":            {restart: true, hash: func(r *rig) { r.store.entries["a"] = Entry{ID: "a", TTL: DefaultTTL, Status: Alive} }, expired: true},
		"both, of a hash that was alive":   {hash: aliveThenBoth, expired: true},
		"a heartbeat without a generation": {hash: func(r *rig) { r.post("/heartbeat", fleetToken, `{"session_id":"a","generation":2}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.beat("a")
			r.store.entries["a"] = Entry{ID: "a", TTL: DefaultTTL, Status: Expired}
			r.rounds(DefaultReapInterval)
			g := watchdog.Generation(1)
			next := func() {
				var err error
				g++
				if g, err = watchdog.Allocate(ctx, r.ledger, watchdog.Claim{ID: "a", BootID: fmt.Sprint("boot-", g), Start: wall(r.clock), Knew: g - 1, Sources: watchdog.SourceNATS.Set()}); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range c.between {
				next()
				if _, _, err := (ends{r}).Settle(ctx, watchdog.Record{ID: "a", Generation: g, Outcome: o, SettledBy: watchdog.ByAgent, Writer: "x", At: wall(r.clock)}); err != nil {
					t.Fatal(err)
				}
			}
			r.pass(time.Second)
			next()
			if c.restart {
				r.reg.reaper.settled, r.reg.reaper.alive = map[watchdog.ID]watchdog.Generation{}, nil
			}
			if name != "a heartbeat without a generation" {
				r.reg.Round(ctx)
			}
			if c.hash != nil {
				c.hash(r)
			}
			r.rounds(2 * DefaultReapInterval)
			rec, found, err := r.ledger.Record(ctx, "a", g)
			if err != nil || found != c.expired {
				t.Errorf("record of generation %d: %v %+v %v, want one: %v", g, found, rec, err, c.expired)
			}
		})
	}
}

// A mark that an operator sets where there is no hash ends one generation, and
// not every one that comes after it.
func TestMarkWithoutAHashExpiresOnce(t *testing.T) {
	for name, mark := range map[string]Entry{"status": {ID: "a", Status: Expired}, "last_seen": {ID: "a"}} {
		t.Run(name, func(t *testing.T) {
			r, ctx := newRig(t, nil), context.Background()
			for g := watchdog.Generation(1); g <= 3; g++ {
				n, err := watchdog.Allocate(ctx, r.ledger, watchdog.Claim{ID: "a", BootID: fmt.Sprint("boot-", g), Start: wall(r.clock), Knew: g - 1, Sources: watchdog.SourceNATS.Set()})
				if n != g || err != nil {
					t.Fatal(n, err)
				}
				r.rounds(2 * DefaultReapInterval)
				if _, found, _ := r.ledger.Record(ctx, "a", g); found {
					t.Fatalf("generation %d was expired by the mark of an older one", g)
				}
				r.store.entries["a"] = mark
				r.rounds(DefaultReapInterval)
				if rec, found, _ := r.ledger.Record(ctx, "a", g); !found || rec.Outcome != watchdog.OutcomeExpired {
					t.Fatalf("the mark on generation %d was overlooked", g)
				}
				if e := r.store.entries["a"]; e.Status != Expired || !e.LastSeen.IsZero() || e.TTL <= 0 {
					t.Errorf("the hash afterwards: %+v", e)
				}
			}
		})
	}
}

// aliveThenBoth: the newer generation heartbeats here, is seen alive, and is then
// expired by both halves of the mark at once.
func aliveThenBoth(r *rig) {
	r.store.entries["a"] = Entry{ID: "a", LastSeen: wall(r.clock), TTL: DefaultTTL, Status: Alive}
	r.reg.Round(context.Background())
	r.store.entries["a"] = Entry{ID: "a", TTL: DefaultTTL, Status: Expired}
}

// A ledger that is away costs one line a round, however many wait for it.
func TestOneWarningARound(t *testing.T) {
	var log strings.Builder
	r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for i := range 20 {
		r.beat(fmt.Sprint("s", i))
	}
	r.reg.o.Ends = endsAway{r.reg.o.Ends}
	r.rounds(2 * time.Minute)
	if n, rounds := strings.Count(log.String(), "level=WARN"), int(2*time.Minute/DefaultReapInterval); n == 0 || n > rounds {
		t.Errorf("%d warnings in %d rounds:\n%.600s", n, rounds, log.String())
	}
	if !strings.Contains(log.String(), "count=20") {
		t.Errorf("how many wait is not said:\n%.600s", log.String())
	}
}

type endsAway struct{ Ends }

func (endsAway) Head(context.Context, watchdog.ID) (watchdog.Head, error) {
	return watchdog.Head{}, watchdog.ErrAuthorityAway
}

func TestGenerationsAndTheirTokens(t *testing.T) {
	r := newRig(t, nil)
	g1, old := r.register("a")
	if code, _, _ := r.post("/heartbeat", old, `{"session_id":"a"}`); code != 204 || g1 != 1 {
		t.Fatal(code, g1)
	}
	if code, _, _ := r.post("/heartbeat", old, `{"session_id":"other"}`); code != 401 {
		t.Errorf("a token of another session: %d", code)
	}
	g2, fresh := r.register("a")
	if g2 != 2 {
		t.Fatalf("generation %d", g2)
	}
	for name, c := range map[string]struct {
		token, body string
		code        int
	}{
		"old token":          {old, `{"session_id":"a"}`, 410},
		"neither":            {fleetToken, `{"session_id":"a"}`, 410},
		"old generation":     {fleetToken, `{"session_id":"a","generation":1}`, 410},
		"its token":          {fresh, `{"session_id":"a"}`, 204},
		"its generation":     {fleetToken, `{"session_id":"a","generation":2}`, 204},
		"token contradicted": {fresh, `{"session_id":"a","generation":1}`, 400},
		"beyond the newest":  {fleetToken, `{"session_id":"a","generation":3}`, 400},
	} {
		if code, body, _ := r.post("/heartbeat", c.token, c.body); code != c.code {
			t.Errorf("%s: %d %s, want %d", name, code, body, c.code)
		}
	}
	if code, _, _ := r.post("/sessions", fresh, `{"session_id":"a"}`); code != 401 {
		t.Errorf("a generation's token registered another: %d", code)
	}
}

func TestLedgerAwayIsNeverGone(t *testing.T) {
	r := newRig(t, nil)
	r.beat("known")
	r.beat("reaped")
	r.rounds(time.Minute)
	r.beat("fresh")
	r.ledger.SetFault(func(watchdog.Call, watchdog.ID) watchdog.Fault { return watchdog.FaultAway })
	for id, want := range map[string]int{"unheard-of": 503, "reaped": 503, "fresh": 204} {
		code, body, header := r.post("/heartbeat", fleetToken, `{"session_id":"`+id+`"}`)
		if code != want {
			t.Errorf("%s: %d %s, want %d", id, code, body, want)
		}
		if code == 503 && header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", id)
		}
		if n := r.heard(id); id == "reaped" && n != 1 || id == "unheard-of" && n != 1 {
			t.Errorf("%d beats of %s are told", n, id)
		}
	}
	r.rounds(5 * time.Minute)
	if s := r.status("fresh"); s != Alive {
		t.Errorf("%s, though nothing could be settled", s)
	}
}

func TestStoreAwayEndsNobody(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Store = failing{o.Store} })
	if code := r.beat("a"); code != 503 {
		t.Errorf("%d", code)
	}
	if beats := r.heard("a"); beats != 1 {
		t.Errorf("%d of its beats are told; it lives, whatever our store does", beats)
	}
	r.reg.Round(context.Background())
	if _, why := r.reg.LastGoodRound(); why == "" {
		t.Error("the failed round is not told")
	}
}

type failing struct{ Store }

func (failing) Entry(context.Context, watchdog.ID) (Entry, bool, error) {
	return Entry{}, false, errors.New("connection refused")
}

func (failing) Entries(context.Context, func(Entry, error)) error {
	return errors.New("connection refused")
}

func TestElsewhereAndHeldAreNotReaped(t *testing.T) {
	r := newRig(t, nil)
	r.beat("a")
	r.sight = Sight{Elsewhere: "NATS"}
	r.rounds(2 * time.Minute)
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s, though it beats on NATS", s)
	}
	if _, ok := r.events[0].(watchdog.HTTPSilent); !ok {
		t.Errorf("the dispute is not told: %+v", r.events)
	}
	r.sight = Sight{Held: "400 silent together"}
	r.rounds(time.Minute)
	if s := r.status("a"); s != Alive {
		t.Fatalf("%s, though it is held", s)
	}
}

func TestEachStepOfAReapIsIsolated(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Release = []string{"sh", "-c", `echo "released $SESSIONWATCH_SESSION_ID $SESSIONWATCH_GENERATION $SESSIONWATCH_OUTCOME"; exit 3`}
		o.Sink = nil
	})
	r.reg.o.Sink = r
	for i := range 8 {
		r.beat(fmt.Sprint("s", i))
	}
	r.rounds(time.Minute)
	if len(r.audit) != 8 {
		t.Fatalf("%d audit lines", len(r.audit))
	}
	if !strings.Contains(r.audit[0], `"exit_code":3`) || !strings.Contains(r.audit[0], "1 lost") {
		t.Errorf("the hook's result is lost: %s", r.audit[0])
	}
	if n := len(r.reg.Releases()); n != 8 {
		t.Errorf("%d releases kept", n)
	}
	if len(r.alerts) != 1 {
		t.Errorf("alerts of the reap rate: %q", r.alerts)
	}
}

func TestReleaseHookThatHangs(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Release, o.ReleaseTimeout = []string{"sh", "-c", "sleep 60 & sleep 60"}, 100*time.Millisecond
	})
	r.beat("a")
	began := time.Now()
	r.rounds(time.Minute)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it held the round up for %v", took)
	}
	if got := r.reg.Releases()[0]; got.OK || !strings.Contains(got.Output, "ended after") {
		t.Errorf("%+v", got)
	}
}

func TestReapRate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var r reapRate
	for range 1000 {
		r.opened(now)
	}
	for i := range 30 {
		_, _, raised := r.reaped(now.Add(time.Duration(i) * time.Minute))
		if raised != (i == 20) {
			t.Fatalf("reap %d: raised %v", i, raised)
		}
	}
	reaps, opens, _ := r.reaped(now.Add(70 * time.Minute))
	if opens != 0 || reaps != 20 {
		t.Errorf("after the hour: %d reaps of %d opens", reaps, opens)
	}
	if _, _, raised := r.reaped(now.Add(-time.Hour)); raised {
		t.Error("a clock set back raised it again")
	}
}

type cancelSpy struct {
	got []string
	err error
}

func (c *cancelSpy) Cancel(_ context.Context, id watchdog.ID, g watchdog.Generation, reason string) (string, error) {
	c.got = append(c.got, fmt.Sprint(id, g, reason))
	return "cmd-1", c.err
}

func TestCancel(t *testing.T) {
	spy := &cancelSpy{}
	r := newRig(t, func(o *Options) { o.Cancel = spy })
	r.register("a")
	r.register("a")
	for _, c := range []struct {
		path, body string
		code, sent int
	}{
		{"/sessions/never/cancel", `{"reason":"x"}`, 200, 0},
		{"/sessions/a/cancel", `{"reason":"x","generation":1}`, 409, 0},
		{"/sessions/a/cancel", `{"reason":"x","generation":2}`, 202, 1},
		{"/sessions/a/cancel", `{"reason":"x"}`, 202, 2},
		{"/sessions/a/cancel", `{`, 400, 2},
	} {
		if code, body, _ := r.post(c.path, fleetToken, c.body); code != c.code || len(spy.got) != c.sent {
			t.Errorf("%s %s: %d %s, %d sent", c.path, c.body, code, body, len(spy.got))
		}
	}
	spy.err = ErrNothingToStop
	if code, _, _ := r.post("/sessions/a/cancel", fleetToken, `{}`); code != 200 {
		t.Errorf("%d for one that ended meanwhile", code)
	}
}

func TestTooManyRequests(t *testing.T) {
	r := newRig(t, nil)
	srv := httptest.NewServer(r.reg.Handler(Access{PerSecond: 1, Burst: 3}, func() Health { return Health{Status: "ok"} }))
	defer srv.Close()
	r.srv = srv
	codes := map[int]int{}
	for range 10 {
		codes[r.beat("a")]++
	}
	if codes[204] != 3 || codes[429] != 7 {
		t.Errorf("%v", codes)
	}
}

func TestHealthAndMetricsNameNobody(t *testing.T) {
	r := newRig(t, nil)
	r.beat("secret-session-id")
	for path, want := range map[string]string{"/health": `"status":"ok"`, "/metrics": "sessionwatch_http_answers_total"} {
		res, err := http.Get(r.srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || !strings.Contains(string(body), want) || strings.Contains(string(body), "secret") {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
		if path == "/health" && strings.Contains(string(body), "watchdog") {
			t.Errorf("a watchdog block without one: %s", body)
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"ttl":   {Interval: 15 * time.Second, TTL: 44 * time.Second, Token: fleetToken},
		"token": {Token: "short"},
		"zero":  {Interval: -1, Token: fleetToken},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// fault 29: beats race the reaper for a thousand sessions.
func TestRaceOfBeatsAndReaper(t *testing.T) {
	r := newRig(t, nil)
	const n = 200
	for i := range n {
		r.reg.Heartbeat(context.Background(), beatOf(fmt.Sprint("s", i)))
	}
	r.rounds(30 * time.Second)
	r.pass(16 * time.Second)
	var wg sync.WaitGroup
	taken := make([]bool, n)
	for i := range n {
		wg.Go(func() { taken[i] = r.reg.Heartbeat(context.Background(), beatOf(fmt.Sprint("s", i))) == nil })
	}
	wg.Go(func() { r.reg.Round(context.Background()) })
	wg.Wait()
	for i := range n {
		id := watchdog.ID(fmt.Sprint("s", i))
		_, ended, _ := r.ledger.Record(context.Background(), id, 1)
		again := r.reg.Heartbeat(context.Background(), beatOf(string(id))) == nil
		if ended == again {
			t.Fatalf("%s: ended %v, and the next heartbeat is accepted: %v", id, ended, again)
		}
		if !ended && !taken[i] {
			t.Fatalf("%s: refused, though it was not reaped", id)
		}
	}
}

func beatOf(id string) *watchdog.Beat {
	b := &watchdog.Beat{}
	b.Reset()
	b.ID = []byte(id)
	return b
}
