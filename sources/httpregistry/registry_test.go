package httpregistry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var nonces atomic.Int64

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
