package serveview

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// full gives a value in which every field that can be reached is set, and every
// float is NaN: what JSON cannot spell.
func full(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(1_800_000_000, 7).UTC()
			return
		}
		for i := range v.NumField() {
			full(v.Field(i), depth)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			full(v.Index(i), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			full(v.Index(i), depth)
		}
	case reflect.Float64, reflect.Float32:
		v.SetFloat(math.NaN())
	case reflect.String:
		v.SetString("a text with \"quotes\" and ümläuts")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	}
}

func TestWindowsSurviveTheWire(t *testing.T) {
	var w watchdog.Window
	full(reflect.ValueOf(&w).Elem(), 0)
	body, err := encodeWindow(&w)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeWindow(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	var empty watchdog.Window
	body, err = encodeWindow(&empty)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = decodeWindow(body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(empty, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
}

// serving is an engine behind a server, on a socket and on a port.
type serving struct {
	engine *watchdog.Engine
	socket string
	port   *httptest.Server
	posted atomic.Int64
	stuck  sync.RWMutex // held: the engine answers nobody
}

// Look, Changes and Post are the engine's.
func (s *serving) Look(ctx context.Context, a watchdog.Ask) (watchdog.Window, error) {
	s.stuck.RLock()
	defer s.stuck.RUnlock()
	return s.engine.Look(ctx, a)
}
func (s *serving) Changes() uint64        { return s.engine.Changes() }
func (s *serving) Post(ev watchdog.Event) { s.posted.Add(1); s.engine.Post(ev) }

func serve(t *testing.T) *serving {
	t.Helper()
	s := &serving{engine: watchdog.NewEngine(watchdog.EngineConfig{Clock: clock.System()})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.engine.Run(ctx) }()
	now := clock.System().Now().Mono
	s.engine.Post(watchdog.SourceAdded{Source: watchdog.SourceNATS, At: now})
	s.engine.Post(watchdog.RoundTrip{Source: watchdog.SourceNATS, Sent: now, At: now})
	h := NewServer(Options{Engine: s, About: About{Name: "test", Sweeper: "serve@test/1"}}).Handler()
	s.port = httptest.NewServer(h)
	s.socket = filepath.Join(t.TempDir(), "serve.sock")
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-ended
		s.port.CloseClientConnections()
		s.port.Close()
		cancel()
		<-done
	})
	return s
}

func (s *serving) beat(id string) {
	b := watchdog.Beat{}
	b.Reset()
	b.ID, b.StateText, b.Uptime, b.Received = []byte(id), []byte("running"), 5, clock.System().Now().Mono
	b.Task = []byte("chunk 3/10")
	s.engine.Beats([]watchdog.Beat{b})
}

func TestLookThroughSocketAndPort(t *testing.T) {
	s := serve(t)
	s.beat("a.b:c")
	s.beat("other")
	for _, address := range []string{s.socket, s.port.URL} {
		c, err := NewClient(ClientOptions{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w, err := c.Look(context.Background(), watchdog.Ask{Height: -1, Query: "a.b", Focus: "a.b:c"})
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Rows) != 1 || w.Rows[0].ID != "a.b:c" || w.Total != 2 || w.Focus == nil || !math.IsNaN(w.Rows[0].Credits) || w.Rows[0].Progress.Of != 10 {
			t.Errorf("%s: %+v", address, w.Rows)
		}
		if about, err := c.About(context.Background()); err != nil || about.Sweeper != "serve@test/1" {
			t.Errorf("%+v %v", about, err)
		}
		if _, err := c.Look(context.Background(), watchdog.Ask{Query: "work>>5"}); err == nil || !strings.Contains(err.Error(), "work") {
			t.Errorf("a filter that does not compile: %v", err)
		}
	}
}

// A release stands in the audit file before it is done, and so does one that is
// refused; what cannot be written down is not done.
func TestReleaseIsAudited(t *testing.T) {
	for name, c := range map[string]struct {
		readOnly bool
		broken   error
		posts    int64
		fate     string
	}{
		"nothing held": {posts: 1, fate: `"fate":"ineffective"`},
		"read-only":    {readOnly: true, fate: `"fate":"refused"`},
		"full disk":    {broken: errors.New("no space left on device")},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			before := s.posted.Load()
			var lines []string
			h := NewServer(Options{Engine: s, About: About{ReadOnly: c.readOnly}, Audit: func(entry any) error {
				if s.posted.Load() != before {
					t.Error("it was done before it was written down")
				}
				text, err := json.Marshal(entry)
				lines = append(lines, string(text))
				return errors.Join(err, c.broken)
			}}).Handler()
			res := httptest.NewRecorder()
			h.ServeHTTP(res, httptest.NewRequest(http.MethodPost, "/v1/release", strings.NewReader(`{"by":"ops1","reason":"the host is gone"}`)))
			if (res.Code == http.StatusOK) != (c.posts == 1) || s.posted.Load()-before != c.posts {
				t.Errorf("%d %s, and %d posted", res.Code, res.Body, s.posted.Load()-before)
			}
			if len(lines) != 1 || !strings.Contains(lines[0], `"by":"ops1","reason":"the host is gone"`) || !strings.Contains(lines[0], c.fate) {
				t.Errorf("%q", lines)
			}
		})
	}
}

// Screens that go just as they wish for another window leave no stream behind
// that keeps others out.
func TestStreamsThatNobodyReadsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{})
		wish := func(name string) int {
			res := httptest.NewRecorder()
			s.Handler().ServeHTTP(res, httptest.NewRequest(http.MethodPost, "/v1/ask?stream="+name, strings.NewReader(`{"height":20}`)))
			return res.Code
		}
		for i := range maxStreams {
			if code := wish(fmt.Sprintf("gone-%04d", i)); code != http.StatusNoContent {
				t.Fatal(i, code)
			}
		}
		read, err := s.stream("gone-0000")
		if err != nil {
			t.Fatal(err)
		}
		s.watch(read, 1)
		if code := wish("another1"); code != http.StatusServiceUnavailable {
			t.Errorf("%d beyond the limit", code)
		}
		time.Sleep(streamUnread + time.Second)
		if code := wish("another1"); code != http.StatusNoContent || len(s.streams) != 2 || s.streams["gone-0000"] != read {
			t.Errorf("%d, %d streams are left", code, len(s.streams))
		}
	})
}

func TestShapesOfTheCommandLine(t *testing.T) {
	s := serve(t)
	s.beat("a")
	for path, want := range map[string]string{"/v1/sessions": `"session_id": "a"`, "/v1/sessions/a": `"settings"`, "/v1/sessions/a/why": `"rule"`} {
		res, err := http.Get(s.port.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	res, err := http.Get(s.port.URL + "/v1/sessions/nobody")
	if err != nil || res.StatusCode != 404 {
		t.Errorf("%v %v", res, err)
	}
	res.Body.Close()
}

func TestFeedFollowsAndGoesBlind(t *testing.T) {
	s := serve(t)
	s.beat("a")
	c, err := NewClient(ClientOptions{Address: s.port.URL})
	if err != nil {
		t.Fatal(err)
	}
	f := Follow(c, clock.System(), func(run func()) { go run() })
	defer f.Close()
	f.Ask(watchdog.Ask{Seq: 1, Height: 10})
	first := await(t, f, func(w watchdog.Window) bool { return w.AskSeq == 1 && len(w.Rows) == 1 })
	if first.Rows[0].Verdict != watchdog.Running {
		t.Fatalf("%v", first.Rows[0].Verdict)
	}
	s.beat("b")
	await(t, f, func(w watchdog.Window) bool { return len(w.Rows) == 2 })
	f.Ask(watchdog.Ask{Seq: 2, Height: 10, Query: "b"})
	await(t, f, func(w watchdog.Window) bool { return w.AskSeq == 2 && len(w.Rows) == 1 && w.Rows[0].ID == "b" })
	s.port.CloseClientConnections()
	s.port.Listener.Close()
	blind := await(t, f, func(w watchdog.Window) bool { return len(w.Rows) == 1 && w.Rows[0].Verdict == watchdog.Unknown })
	if blind.Fleet.ByVerdict[watchdog.Unknown] == 0 || blind.Links[0].Phase != watchdog.LinkDown || !strings.Contains(blind.Rows[0].Why, "was running") {
		t.Errorf("%+v", blind)
	}
}

// TestSilentServeIsNotBelieved: one that holds its connections and says nothing
// makes us blind within seconds, each second anew, and is believed again at once.
func TestSilentServeIsNotBelieved(t *testing.T) {
	s := serve(t)
	s.beat("a")
	c, err := NewClient(ClientOptions{Address: s.socket})
	if err != nil {
		t.Fatal(err)
	}
	f := Follow(c, clock.System(), func(run func()) { go run() })
	defer f.Close()
	f.Ask(watchdog.Ask{Seq: 1, Height: 10})
	await(t, f, func(w watchdog.Window) bool { return len(w.Rows) == 1 && w.Rows[0].Verdict == watchdog.Running })
	s.stuck.Lock()
	began := time.Now()
	blind := func(w watchdog.Window) bool { return len(w.Rows) == 1 && w.Rows[0].Verdict == watchdog.Unknown }
	first := await(t, f, blind)
	if l := first.Links[0]; l.Phase != watchdog.LinkDown || l.Since < silentAfter || !strings.HasSuffix(l.Detail, "says nothing") || time.Since(began) < silentAfter-2*streamRefresh {
		t.Errorf("after %v: %+v", time.Since(began), l)
	}
	f.Ask(watchdog.Ask{Seq: 2, Height: 10})
	next := await(t, f, func(w watchdog.Window) bool { return w.AskSeq == 2 })
	if !blind(next) || next.Now.Mono <= first.Now.Mono {
		t.Errorf("what was asked meanwhile: %+v", next)
	}
	s.stuck.Unlock()
	await(t, f, func(w watchdog.Window) bool { return w.AskSeq == 2 && w.Rows[0].Verdict == watchdog.Running })
}

// await reads windows until one is as wanted.
func await(t *testing.T, f *Feed, ok func(watchdog.Window) bool) watchdog.Window {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case w := <-f.Windows():
			if ok(w) {
				return w
			}
		case <-deadline:
			t.Fatal("no such window came")
		}
	}
}

func TestEventsAreLines(t *testing.T) {
	s := serve(t)
	b := watchdog.Beat{}
	b.Reset()
	b.ID, b.State, b.StateText, b.Received = []byte("a"), watchdog.StateError, []byte("error"), clock.System().Now().Mono
	s.engine.Beats([]watchdog.Beat{b})
	c, err := NewClient(ClientOptions{Address: s.socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	deadline := time.Now().Add(10 * time.Second)
	for {
		var out bytes.Buffer
		if err := c.Events(context.Background(), &out, "", false); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var e struct{ Kind, To string }
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if e.Kind == "verdict" && e.To == "error" {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s", out.String())
		}
		time.Sleep(20 * time.Millisecond) // the engine ticks on its own
	}
}

func TestMarkTellsNothingTwice(t *testing.T) {
	ev := func(n int) watchdog.Transition {
		return watchdog.Transition{ID: "a", Generation: watchdog.Generation(n)}
	}
	var m Mark
	news, m := m.After([]watchdog.Transition{ev(2), ev(1)})
	if len(news) != 2 || news[0] != ev(1) {
		t.Fatal(news)
	}
	if news, m = m.After([]watchdog.Transition{ev(2), ev(1)}); len(news) != 0 {
		t.Fatal(news)
	}
	if news, _ = m.After([]watchdog.Transition{ev(4), ev(3), ev(2)}); len(news) != 2 || news[0] != ev(3) {
		t.Fatal(news)
	}
}

func TestReleaseNeedsAReason(t *testing.T) {
	s := serve(t)
	c, err := NewClient(ClientOptions{Address: s.socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Release(context.Background(), "ops1", ""); err == nil || s.posted.Load() != 0 {
		t.Errorf("%v", err)
	}
	if _, err := c.Release(context.Background(), "ops1", "the host is gone"); err != nil || s.posted.Load() != 1 {
		t.Errorf("%v", err)
	}
}

func TestAddressesOfAServe(t *testing.T) {
	for address, ok := range map[string]bool{"/tmp/x.sock": true, "http://127.0.0.1:7077": true, "": false, "https://a:b@h": false, "ftp://h": false, "127.0.0.1:7077": false, "[::1]:7077": false, "./a:1": true} {
		if _, err := NewClient(ClientOptions{Address: address}); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	unknown := httptest.NewTLSServer(http.NotFoundHandler())
	defer unknown.Close()
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	for address, why := range map[string]string{
		filepath.Join(t.TempDir(), "none.sock"): "there is no such socket",
		"http://127.0.0.1:1":                    "refused",
		unknown.URL:                             "signed by an unknown authority",
	} {
		c, err := NewClient(ClientOptions{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.About(context.Background()); !errors.Is(err, ErrNoServe) || !strings.HasSuffix(err.Error(), why) {
			t.Errorf("%q: %v, want %q", address, err, why)
		}
		c.Close()
	}
}
