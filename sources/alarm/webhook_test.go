package alarm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// receiver is the other side of a webhook.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.bodies, r.heads = append(r.bodies, string(body)), append(r.heads, req.Header)
	n := len(r.bodies)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(n, w, req)
	}
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.bodies...)
}

const secretPath = "/services/T0/hunter9"

func hookTo(t *testing.T, address string, timeout time.Duration) *webhook {
	t.Helper()
	h, err := newWebhook(address, timeout)
	if err != nil {
		t.Fatal(err)
	}
	h.again = 20 * time.Millisecond
	return h
}

func anAlarm() wire.Alarm {
	m := wire.NewAlarm([]watchdog.Raise{raise("batch-job-abc123")}, 0)
	m.ID, m.At, m.Cluster = "ABC", time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC), "prod"
	return m
}

// post sends, and gives the error, which never tells the secret.
func post(t *testing.T, h *webhook) error {
	t.Helper()
	err := h.send(t.Context(), anAlarm())
	if err != nil && strings.Contains(err.Error(), "hunter9") {
		t.Errorf("the error tells the secret: %v", err)
	}
	return err
}

func TestWebhookPosts(t *testing.T) {
	r := receive(t, nil)
	if err := post(t, hookTo(t, r.URL+secretPath, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	want := `{"id":"ABC","at":"2026-11-30T03:12:44.120Z","session_id":"batch-job-abc123","generation":3,"kind":"alert","from":null,"to":"stalled",` +
		`"text":"STALLED batch-job-abc123 #3: no work 5m00, limit 5m00; beats go on.","cluster":"prod","writer":null,` +
		`"alerts":[{"key":"batch-job-abc123#3/stalled","session_id":"batch-job-abc123","generation":3,"cause":"stalled","sessions":1,` +
		`"since":"2026-11-30T03:03:00.000Z","text":"STALLED batch-job-abc123 #3: no work 5m00, limit 5m00; beats go on.","again":null,"found":false,"shared":null,` +
		`"held":false,"held_secs":null,"members":[]}],"more":0}`
	if got := r.got(); len(got) != 1 || got[0] != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if head := r.heads[0]; head.Get("Content-Type") != "application/json" || head.Get("User-Agent") != "sessionwatch" {
		t.Errorf("head: %v", head)
	}
}

// TestWebhookHearsNoProxy has a proxy in the environment, and an address at which
// nobody answers.
func TestWebhookHearsNoProxy(t *testing.T) {
	proxy := receive(t, nil)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	if err := post(t, hookTo(t, "http://192.0.2.1"+secretPath, 200*time.Millisecond)); err == nil || len(proxy.got()) != 0 {
		t.Errorf("%v; a proxy was told %q", err, proxy.got())
	}
}

func TestWebhookTriesTwice(t *testing.T) {
	code := func(codes ...int) func(int, http.ResponseWriter, *http.Request) {
		return func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(codes[min(n, len(codes))-1]) }
	}
	for _, c := range []struct {
		name  string
		codes []int
		posts int
		says  string // empty: it is told in the end
	}{
		{"a server that recovers", []int{500, 204}, 2, ""},
		{"a server that does not", []int{503}, 2, "answered 503"},
		{"too many requests", []int{429, 200}, 2, ""},
		{"a wrong address", []int{404}, 1, "refused the alert with 404"},
		{"a wrong secret", []int{403}, 1, "refused the alert with 403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := receive(t, code(c.codes...))
			err := post(t, hookTo(t, r.URL+secretPath, 5*time.Second))
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v", err)
			}
			if got := r.got(); len(got) != c.posts || got[0] != got[len(got)-1] {
				t.Errorf("%d posts: %q", len(got), got)
			}
		})
	}
}

func TestWebhookFollowsNoRedirect(t *testing.T) {
	other := receive(t, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		r := receive(t, func(_ int, w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.URL+secretPath, code)
		})
		if err := post(t, hookTo(t, r.URL+secretPath, 5*time.Second)); err == nil || !strings.Contains(err.Error(), "points elsewhere") {
			t.Errorf("%d: %v", code, err)
		}
		if len(r.got()) != 1 || len(other.got()) != 0 {
			t.Errorf("%d: %d posts here and %d elsewhere", code, len(r.got()), len(other.got()))
		}
	}
}

func TestWebhookThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"before its answer": func(_ int, _ http.ResponseWriter, req *http.Request) {
			select {
			case <-hang:
			case <-req.Context().Done():
			}
		},
		"within its answer": func(_ int, w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(http.StatusOK)
			for {
				if _, err := fmt.Fprint(w, "."); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-req.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		},
	} {
		r := receive(t, answer)
		began := time.Now()
		err := post(t, hookTo(t, r.URL+secretPath, 200*time.Millisecond))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it takes %v", name, took)
		}
		if strings.HasPrefix(name, "before") && (err == nil || !strings.Contains(err.Error(), "timed out")) {
			t.Errorf("%s: it says %v", name, err)
		}
	}
}

func TestWebhookEndsWithUs(t *testing.T) {
	r := receive(t, func(_ int, _ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := hookTo(t, r.URL, time.Minute).send(ctx, anAlarm()); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestWebhookBelievesNoStranger(t *testing.T) {
	r := &receiver{}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	if err := post(t, hookTo(t, server.URL+secretPath, 5*time.Second)); err == nil || !strings.Contains(err.Error(), "TLS: ") {
		t.Errorf("a certificate that nobody signed: %v", err)
	}
	if len(r.got()) != 0 {
		t.Error("an alert was told to a stranger")
	}
	if err := post(t, hookTo(t, "http://127.0.0.1:1"+secretPath, 5*time.Second)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a port where nobody listens: %v", err)
	}
}

// TestWebhookOfADigest spells a storm.
func TestWebhookOfADigest(t *testing.T) {
	var many []watchdog.Raise
	for i := range 30 {
		many = append(many, raise(watchdog.ID(fmt.Sprintf("job-%d\x1b[2J", i))))
	}
	group := raise("")
	group.Alert.Attention, group.Alert.Cause, group.Alert.HeldFor, group.Alert.Members = watchdog.AttentionAct, watchdog.CauseGroup, 10*time.Minute, []watchdog.ID{"a", "b"}
	group.Again = "2 more"
	many[0] = group
	many[5].Alert.Attention = watchdog.AttentionQuiet
	m := wire.NewAlarm(many, 7)
	body, err := wire.EncodeAlarm(m)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind, Text string
		Session    *string `json:"session_id"`
		Alerts     []struct {
			Cause, Again string
			Held         bool
			HeldSecs     *float64 `json:"held_secs"`
			Members      []string
		}
		More int
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "alerts" || got.Session != nil || len(got.Alerts) != wire.MaxAlarmAlerts || got.More != 17 || !strings.HasPrefix(got.Text, "37 alerts: ") ||
		!strings.HasSuffix(got.Text, "And 34 more.") {
		t.Errorf("%+v", got)
	}
	if a := got.Alerts[0]; a.Cause != "group" || !a.Held || *a.HeldSecs != 600 || len(a.Members) != 2 || a.Again != "2 more" {
		t.Errorf("the group is %+v", a)
	}
	if strings.Contains(string(body), "\\u001b") || strings.Contains(string(body), "\x1b") {
		t.Error("what a terminal would obey is told")
	}
}
