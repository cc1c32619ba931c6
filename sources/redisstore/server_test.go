//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// patience is how long a test's own client waits for a server that the machine may
// hold up.
const patience = time.Minute

// realServer is a redis-server process on loopback.
type realServer struct {
	*sourcetest.Process
	port     int
	password string // of the default user
	admin    *redis.Client
}

// startReal starts a redis-server with lines of configuration of its own.
func startReal(t testing.TB, config ...string) *realServer {
	t.Helper()
	return startRealOn(t, sourcetest.FreePort(t), nil, config...)
}

func startRealOn(t testing.TB, port int, flags []string, config ...string) *realServer {
	t.Helper()
	binary := sourcetest.RealBinary(t, "redis-server")
	dir := t.TempDir()
	lines := append([]string{
		"bind 127.0.0.1", "port " + strconv.Itoa(port), "dir " + dir, `save ""`, "daemonize no",
		"enable-debug-command local",
	}, config...)
	if len(flags) > 0 { // a sentinel knows other settings
		lines = append([]string{"bind 127.0.0.1", "port " + strconv.Itoa(port), "dir " + dir}, config...)
	}
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &realServer{port: port}
	s.Process = sourcetest.StartProcess(t, binary, port, append([]string{file}, flags...)...)
	s.admin = redis.NewClient(&redis.Options{Addr: s.Address(), Protocol: 2, MaxRetries: 3, ReadTimeout: patience, WriteTimeout: patience, DialTimeout: patience, CredentialsProvider: func() (string, string) { return "default", s.password }})
	t.Cleanup(func() { _ = s.admin.Close() })
	return s
}

func (s *realServer) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *realServer) Send(t testing.TB, id string, payload []byte) {
	t.Helper()
	if err := s.admin.Set(context.Background(), "agent:liveness:"+id, payload, time.Minute).Err(); err != nil {
		t.Fatalf("SET: %v", err)
	}
}

// fast are options for tests that do not want to wait.
func fast(address string) Options {
	return Options{URL: "redis://" + address, PollInterval: 50 * time.Millisecond, Origin: "test"}
}

// watch opens a store and waits until it answers.
func watch(t testing.TB, o Options) (*Store, *sourcetest.Recorder) {
	t.Helper()
	rec := &sourcetest.Recorder{}
	s, err := Open(o, rec, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, s, nil)
	rec.Wait(t, 60*time.Second, "the first good poll", func() bool { return trips(rec, 0) > 0 })
	return s, rec
}

func trips(rec *sourcetest.Recorder, since int) int {
	return len(sourcetest.EventsOf[watchdog.RoundTrip](rec, since))
}

// waitPolls waits for polls that began after the call.
func waitPolls(t testing.TB, rec *sourcetest.Recorder, n int) {
	t.Helper()
	mark := rec.Mark()
	rec.Wait(t, patience, "more polls", func() bool { return trips(rec, mark) > n })
}

func beatOf(id string, uptime int) []byte {
	return fmt.Appendf(nil, `{"session_id":%q,"state":"running","uptime_secs":%d,"credits_remaining":8.43,"current_task":"Processing chunk 47/200"}`, id, uptime)
}

func waitBeats(t testing.TB, rec *sourcetest.Recorder, n int) []watchdog.Beat {
	t.Helper()
	rec.Wait(t, 60*time.Second, fmt.Sprintf("%d beats", n), func() bool { return rec.Heard() >= n })
	return rec.AllBeats()
}

func changes(rec *sourcetest.Recorder, since int) []string {
	var out []string
	for _, ev := range sourcetest.EventsOf[watchdog.StoreChanged](rec, since) {
		out = append(out, ev.Reason)
	}
	return out
}

// startMini starts the embedded server, whose clock stands still.
func startMini(t testing.TB) (admin *redis.Client, address string) {
	t.Helper()
	mini := miniredis.NewMiniRedis()
	if err := mini.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mini.Close)
	admin = redis.NewClient(&redis.Options{Addr: mini.Addr(), Protocol: 2, ReadTimeout: patience, WriteTimeout: patience, DialTimeout: patience})
	t.Cleanup(func() { _ = admin.Close() })
	return admin, mini.Addr()
}

func testClock() watchdog.Clock { return clock.System() }
