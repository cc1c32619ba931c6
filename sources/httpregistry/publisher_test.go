package httpregistry

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// a scripted registry, or whatever stands before it.
type script struct {
	answers []func(http.ResponseWriter)
	tokens  []string
	paths   []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.tokens = append(s.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	s.paths = append(s.paths, r.URL.Path)
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	next(w)
}

func says(code int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code); _, _ = w.Write([]byte(body)) }
}

var (
	typedGone  = says(410, `{"error":"session_gone","session_id":"a","generation":1,"outcome":"lost","reason":"no heartbeat","at":null}`)
	othersGone = says(410, `{"error":"session_gone","session_id":"b","generation":1,"outcome":"lost","reason":"no heartbeat","at":null}`)
	emptyGone  = says(410, ``)
	proxyGone  = says(410, `<html>this site has moved</html>`)
	accepted   = says(204, ``)
	registered = says(201, `{"session_id":"a","generation":2,"token":"g2.fresh"}`)
)

func TestWhichGoneIsBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		tls     bool
		answers []func(http.ResponseWriter)
		gone    []bool
	}{
		"the typed body":                 {false, []func(http.ResponseWriter){typedGone}, []bool{true}},
		"an empty body":                  {false, []func(http.ResponseWriter){emptyGone}, []bool{true}},
		"another session's":              {false, []func(http.ResponseWriter){othersGone, othersGone, othersGone}, []bool{false, false, false}},
		"a proxy's, plain":               {false, []func(http.ResponseWriter){proxyGone, proxyGone, proxyGone}, []bool{false, false, false}},
		"a proxy's, TLS, twice":          {true, []func(http.ResponseWriter){proxyGone, proxyGone}, []bool{false, true}},
		"a proxy's, TLS, not in a row":   {true, []func(http.ResponseWriter){proxyGone, accepted, proxyGone}, []bool{false, false, false}},
		"a server that is away for once": {false, []func(http.ResponseWriter){says(502, "bad gateway"), typedGone}, []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{answers: c.answers}
			srv := httptest.NewUnstartedServer(s)
			var conf *tls.Config
			if c.tls {
				srv.StartTLS()
				conf = srv.Client().Transport.(*http.Transport).TLSClientConfig
			} else {
				srv.Start()
			}
			defer srv.Close()
			p, err := OpenPublisher(PublisherOptions{URL: srv.URL, Token: fleetToken, TLS: conf})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for i, want := range c.gone {
				err := p.Publish(context.Background(), guard.Message{Beat: beatOf("a"), TTL: time.Minute})
				if got := errors.Is(err, guard.ErrGone); got != want {
					t.Errorf("beat %d: gone %v, want %v (%v)", i, got, want, err)
				}
			}
		})
	}
}

func TestGoneIsLoggedOnceAndRegisteredAnew(t *testing.T) {
	s := &script{answers: []func(http.ResponseWriter){typedGone, registered, typedGone, accepted}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	var log strings.Builder
	p, err := OpenPublisher(PublisherOptions{URL: srv.URL, Token: fleetToken, Recover: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Operation: func(watchdog.ID) (string, string) { return "repo/main", "push" }})
	if err != nil {
		t.Fatal(err)
	}
	b := beatOf("a")
	b.BootID, b.Agent, b.Task = []byte("k3x9"), []byte("worker-7"), []byte("pushing")
	for range 2 {
		if err := p.Publish(context.Background(), guard.Message{Beat: b}); !errors.Is(err, guard.ErrGone) {
			t.Fatal(err)
		}
	}
	b.BootID = []byte("next")
	if err := p.Publish(context.Background(), guard.Message{Beat: b}); err != nil {
		t.Fatal(err)
	}
	if got := s.tokens[len(s.tokens)-1]; got != "g2.fresh" {
		t.Errorf("the next execution beats with %q", got)
	}
	text := log.String()
	if strings.Count(text, "session_reaped_during_operation") != 1 {
		t.Errorf("logged: %s", text)
	}
	for _, want := range []string{"session=a", "agent=worker-7", "task=pushing", "resource=repo/main", "action=push"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s: %s", want, text)
		}
	}
}

func TestNetworkErrorsAreTransient(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	p, err := OpenPublisher(PublisherOptions{URL: url, Token: fleetToken})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Publish(context.Background(), guard.Message{Beat: beatOf("a")})
	if err == nil || errors.Is(err, guard.ErrGone) || strings.Contains(err.Error(), fleetToken) {
		t.Errorf("%v", err)
	}
}

func TestPublisherAgainstARegistry(t *testing.T) {
	r := newRig(t, nil)
	p, err := OpenPublisher(PublisherOptions{URL: r.srv.URL, Token: fleetToken})
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range []bool{false, true} {
		if err := p.Publish(context.Background(), guard.Message{Beat: beatOf("a"), Plain: plain}); err != nil {
			t.Fatal(err)
		}
	}
	r.rounds(time.Minute)
	if err := p.Publish(context.Background(), guard.Message{Beat: beatOf("a")}); !errors.Is(err, guard.ErrGone) {
		t.Errorf("after the reap: %v", err)
	}
}

func TestAddressesOfARegistry(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://127.0.0.1:7077": true, "https://watch.example:7077/": true, "": false, "watch.example": false,
		"https://user:pass@watch.example": false, "ftp://watch.example": false,
	} {
		if _, err := OpenPublisher(PublisherOptions{URL: url, Token: fleetToken}); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func FuzzHeartbeatBody(f *testing.F) {
	f.Add([]byte(`{"session_id":"a","timestamp":1}`))
	f.Add([]byte(`{"session_id":"a","state":"running","credits_remaining":NaN}`))
	f.Add([]byte(` [ `))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := decodeHeartbeat(body)
		var no *refusal
		if err != nil && (!errors.As(err, &no) || no.code != 400) {
			t.Fatalf("%v", err)
		}
		if err == nil && len(b.ID) == 0 {
			t.Fatal("accepted without an id")
		}
	})
}
