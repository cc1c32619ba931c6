package natsbus

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeServer speaks as much NATS as a subscriber needs, over pipes, so that it
// lives in simulated time and does what real servers do rarely.
type fakeServer struct {
	began time.Time

	mu       sync.Mutex
	refuse   error  // the answer to a dial
	hang     bool   // a dial ends with its context only
	silent   bool   // no greeting
	farewell bool   // closes each connection as soon as it has subscribed
	deny     string // said to each SUB
	info     string // more fields of the greeting
	remote   net.Addr
	dials    []time.Duration // when, since began
	hosts    []string
	lines    []string // what clients sent
	conns    []*fakeConn

	mute atomic.Bool // reads, and answers nothing
}

// fakeConn writes through a queue of any length. A pipe has no buffer: without
// the queue both ends could wait for the other to read, as sockets never do.
type fakeConn struct {
	net.Conn
	queue chan []byte // closed: hang up when all is written

	mu   sync.Mutex
	gone bool
	sids []string
}

func newFakeConn(c net.Conn) *fakeConn {
	f := &fakeConn{Conn: c, queue: make(chan []byte, 10_000)}
	go func() {
		for text := range f.queue {
			_, _ = f.Conn.Write(text)
		}
		_ = f.Conn.Close()
	}()
	return f
}

func (c *fakeConn) subscribed(sid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sids = append(c.sids, sid)
}

// sid is the newest subscription; empty none.
func (c *fakeConn) sid() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sids) == 0 {
		return ""
	}
	return c.sids[len(c.sids)-1]
}

// hangUp closes once all that was said has been read.
func (c *fakeConn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.gone = true
		close(c.queue)
	}
}

func (c *fakeConn) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.queue <- fmt.Appendf(nil, format, args...)
	}
}

// farConn is a connection with an address of its own.
type farConn struct {
	net.Conn
	remote net.Addr
}

func (c farConn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

func (f *fakeServer) set(change func(*fakeServer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeServer) dial(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	f.dials = append(f.dials, time.Since(f.began))
	f.hosts = append(f.hosts, address)
	refuse, hang := f.refuse, f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if refuse != nil {
		return nil, refuse
	}
	client, server := net.Pipe()
	c := newFakeConn(server)
	f.mu.Lock()
	f.conns = append(f.conns, c)
	remote := f.remote
	f.mu.Unlock()
	go f.serve(c)
	return farConn{Conn: client, remote: remote}, nil
}

func (f *fakeServer) serve(c *fakeConn) {
	defer c.hangUp()
	f.mu.Lock()
	silent, info := f.silent, f.info
	f.mu.Unlock()
	if !silent {
		c.say("INFO {\"server_id\":\"F\",\"version\":\"2.9.10\",\"proto\":1,\"headers\":true,\"max_payload\":1048576%s}\r\n", info)
	}
	r := bufio.NewReader(c.Conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if !f.answer(c, strings.TrimSpace(line)) {
			return
		}
	}
}

func (f *fakeServer) answer(c *fakeConn, line string) bool {
	f.mu.Lock()
	f.lines = append(f.lines, line)
	deny, farewell := f.deny, f.farewell
	f.mu.Unlock()
	if f.mute.Load() {
		return true
	}
	switch word, rest, _ := strings.Cut(line, " "); word {
	case "PING":
		c.say("PONG\r\n")
		return !farewell || c.sid() == ""
	case "SUB":
		fields := strings.Fields(rest)
		c.subscribed(fields[len(fields)-1])
		if deny != "" {
			c.say("-ERR '%s'\r\n", deny)
		}
	}
	return true
}

// last is the newest connection.
func (f *fakeServer) last() *fakeConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns[len(f.conns)-1]
}

// send delivers n beats of one session.
func (f *fakeServer) send(id string, from, n int) {
	c := f.last()
	var all []byte
	for i := range n {
		beat := fmt.Sprintf(`{"session_id":%q,"state":"running","uptime_secs":%d,"credits_remaining":null,"current_task":null}`, id, from+i)
		all = fmt.Appendf(all, "MSG agent.liveness.%s %s %d\r\n%s\r\n", id, c.sid(), len(beat), beat)
	}
	c.say("%s", all)
}

func (f *fakeServer) sent(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, l := range f.lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// ear is a Sink that keeps what it hears.
type ear struct {
	mu      sync.Mutex
	beats   []watchdog.Beat
	batches []int
	events  []watchdog.Event
}

func (e *ear) Beats(batch []watchdog.Beat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beats = append(e.beats, batch...)
	e.batches = append(e.batches, len(batch))
}

func (e *ear) Post(ev watchdog.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
}

func (e *ear) heard() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.beats)
}

func eventsOf[E watchdog.Event](e *ear) []E {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []E
	for _, ev := range e.events {
		if ev, ok := ev.(E); ok {
			out = append(out, ev)
		}
	}
	return out
}

func (e *ear) dropped() (n uint64) {
	for _, ev := range eventsOf[watchdog.Dropped](e) {
		n += ev.Count
	}
	return n
}

// simulate runs a bus against a fake server in simulated time.
func simulate(t *testing.T, prepare func(*fakeServer, *Options, *Bus), run func(*fakeServer, *ear, *Bus)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, e := &fakeServer{began: time.Now()}, &ear{}
		o := Options{dial: f.dial, Origin: "test"}
		if prepare != nil {
			prepare(f, &o, nil)
		}
		b, err := Open(o, e, clock.System(), discard())
		if err != nil {
			t.Fatal(err)
		}
		if prepare != nil {
			prepare(f, &o, b)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := b.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		run(f, e, b)
		b.Close()
		<-done
		f.mu.Lock()
		conns := slices.Clone(f.conns)
		f.mu.Unlock()
		for _, c := range conns {
			c.hangUp()
		}
	})
}

// holdUp makes the callback for messages wait until the gate is closed, as if
// this machine had no time for it.
func holdUp(b *Bus) (gate chan struct{}) {
	gate = make(chan struct{})
	mono := b.intake.mono
	b.intake.mono = func() time.Duration {
		<-gate
		return mono()
	}
	return gate
}

type fixedClock struct{}

func (fixedClock) Now() watchdog.Instant { return watchdog.Instant{} }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
