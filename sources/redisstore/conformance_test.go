//go:build unix

package redisstore

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	adminSecret  = "admin-secret"
	readerSecret = "reader-secret"
)

func TestConformanceRealServer(t *testing.T) {
	sourcetest.RunBeatSource(t, sourcetest.Harness{Source: watchdog.SourceRedis, Serve: serveReal, Open: openAs})
}

func TestConformanceEmbeddedServer(t *testing.T) {
	sourcetest.RunBeatSource(t, sourcetest.Harness{Source: watchdog.SourceRedis, Serve: serveEmbedded, Open: openAs})
}

func openAs(t testing.TB, address string, as sourcetest.Role, sink sourcetest.Sink) func() {
	t.Helper()
	o := fast(address)
	o.Username, o.Password = "reader", readerSecret
	switch as {
	case sourcetest.WrongPassword:
		o.Password = sourcetest.WrongSecret
	case sourcetest.Forbidden:
		o.Username = "forbidden"
	}
	s, err := Open(o, sink, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	return func() {
		s.Close()
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// serveReal starts a redis-server whose reader may do what the README tells
// operators to allow, and nothing else.
func serveReal(t testing.TB) sourcetest.BeatServer {
	s := startReal(t,
		"user default on >"+adminSecret+" ~* &* +@all",
		"user reader on >"+readerSecret+" ~agent:liveness:* resetchannels -@all +scan +mget +get +strlen +pttl +ping +info +dbsize +config|get",
		"user forbidden on >"+readerSecret+" ~other:* resetchannels -@all +ping",
	)
	s.password = adminSecret
	return s
}

// embeddedServer is miniredis with the three roles.
type embeddedServer struct {
	mini *miniredis.Miniredis

	mu        sync.Mutex
	forbidden map[*server.Peer]bool
}

func serveEmbedded(t testing.TB) sourcetest.BeatServer {
	e := &embeddedServer{mini: miniredis.NewMiniRedis(), forbidden: make(map[*server.Peer]bool)}
	e.mini.RequireUserAuth("reader", readerSecret)
	e.mini.RequireUserAuth("forbidden", readerSecret)
	if err := e.mini.Start(); err != nil {
		t.Fatal(err)
	}
	e.mini.Server().SetPreHook(e.hook)
	t.Cleanup(e.mini.Close)
	return e
}

// hook refuses everything but the handshake to the forbidden user.
func (e *embeddedServer) hook(peer *server.Peer, cmd string, args ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch strings.ToUpper(cmd) {
	case "HELLO", "AUTH":
		e.forbidden[peer] = strings.Contains(strings.Join(args, " "), "forbidden")
		return false
	case "PING", "CLIENT":
		return false
	}
	if e.forbidden[peer] {
		peer.WriteError("NOPERM this user has no permissions to run the '" + strings.ToLower(cmd) + "' command")
	}
	return e.forbidden[peer]
}

func (e *embeddedServer) Address() string { return e.mini.Addr() }

func (e *embeddedServer) Send(t testing.TB, id string, payload []byte) {
	t.Helper()
	if err := e.mini.Set("agent:liveness:"+id, string(payload)); err != nil {
		t.Fatal(err)
	}
	e.mini.SetTTL("agent:liveness:"+id, time.Minute)
}

func (e *embeddedServer) Kill(testing.TB) { e.mini.Close() }

func (e *embeddedServer) Restart(t testing.TB) {
	t.Helper()
	if err := e.mini.Restart(); err != nil {
		t.Fatal(err)
	}
	e.mini.Server().SetPreHook(e.hook)
}
