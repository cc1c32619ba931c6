//go:build linux

package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// The load that a screen must bear: 100,000 sessions that beat every 10 s.
const (
	loadSessions = 100_000
	loadRate     = 10_000 // beats a second
	loadStep     = 10 * time.Millisecond
)

// load holds the rendered beats of all sessions one after the other, each of the
// same length, so that pouring them costs next to nothing.
type load struct {
	frames []byte
	size   int   // of one
	marks  []int // where the six digits of time stand in one
	next   int
	began  time.Time
}

func newLoad(verb string) *load {
	l := &load{began: time.Now()}
	for i := range loadSessions {
		body := fmt.Sprintf(`{"session_id":"batch-job-%06d","state":"running","uptime_secs":100000,"credits_remaining":8.43,`+
			`"current_task":"Processing chunk 100000/999999","heartbeat_interval_secs":10}`, i)
		frame := fmt.Appendf(nil, "%s agent.liveness.batch-job-%06d %s%d\r\n%s\r\n", verb, i, map[string]string{"MSG": "1 "}[verb], len(body), body)
		if i == 0 {
			l.size = len(frame)
			for at := 0; ; {
				k := bytes.Index(frame[at:], []byte("100000"))
				if k < 0 {
					break
				}
				l.marks = append(l.marks, at+k)
				at += k + 6
			}
		}
		l.frames = append(l.frames, frame...)
	}
	return l
}

// pour writes at the rate until the connection is gone.
func (l *load) pour(c net.Conn) {
	tick := time.NewTicker(loadStep)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for at := range tick.C {
		for due := int(at.Sub(began).Seconds() * loadRate); sent < due; {
			n := min(due-sent, loadSessions-l.next)
			digits := fmt.Sprintf("%06d", 100_000+int(at.Sub(l.began).Seconds()))
			for i := l.next; i < l.next+n; i++ {
				for _, m := range l.marks {
					copy(l.frames[i*l.size+m:], digits)
				}
			}
			if _, err := c.Write(l.frames[l.next*l.size : (l.next+n)*l.size]); err != nil {
				return
			}
			sent += n
			l.next = (l.next + n) % loadSessions
		}
	}
}

// loadServer is a fake NATS server that pours into who subscribes to the beats,
// so that the consumer alone is measured. It gives its address.
func loadServer(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	l := newLoad("MSG")
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				l.greet(c)
			}()
		}
	}()
	return listener.Addr().String()
}

func (l *load) greet(c net.Conn) {
	fmt.Fprint(c, "INFO {\"server_id\":\"F\",\"version\":\"2.9.10\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
	var writing sync.Mutex
	locked := &lockedConn{Conn: c, mu: &writing}
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return
		case strings.HasPrefix(line, "PING"):
			fmt.Fprint(locked, "PONG\r\n")
		case strings.HasPrefix(line, "SUB agent.liveness.>"):
			go l.pour(locked)
		}
	}
}

// lockedConn writes one thing at a time.
type lockedConn struct {
	net.Conn
	mu *sync.Mutex
}

func (c *lockedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.Write(b)
}

// loadThroughNATS pours the same through a real server.
func loadThroughNATS(t testing.TB) string {
	t.Helper()
	_, address := realNATS(t)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var writing sync.Mutex
	locked := &lockedConn{Conn: c, mu: &writing}
	go func() {
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "PING") {
				fmt.Fprint(locked, "PONG\r\n")
			}
		}
	}()
	fmt.Fprint(locked, "CONNECT {\"verbose\":false}\r\n")
	go newLoad("PUB").pour(locked)
	return address
}

var cursorPlace = regexp.MustCompile(`([0-9,]+) of 100,000`)

// TestLoad100kSessions is the screen under its full load. It runs from .ci/soak
// alone: it takes minutes and measures times.
func TestLoad100kSessions(t *testing.T) {
	if os.Getenv("SESSIONWATCH_SOAK") == "" {
		t.Skip("set SESSIONWATCH_SOAK=short or long, as .ci/soak does")
	}
	binary := asBuilt(t)
	for _, c := range []struct {
		name   string
		serve  func(testing.TB) string
		size   terminaltest.Size
		length time.Duration
	}{
		{"fake server, 120x40", loadServer, terminaltest.Large, 2 * time.Minute},
		{"fake server, 200x60", loadServer, terminaltest.Huge, amount(45*time.Second, 10*time.Minute)},
		{"nats-server, 120x40", loadThroughNATS, terminaltest.Large, amount(45*time.Second, 10*time.Minute)},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := program(t, alone(t), "attach", "--nats", "nats://"+c.serve(t), "--redis", "-")
			cmd.Path = binary
			p := terminaltest.StartPTY(t, c.size, cmd)
			for deadline := time.Now().Add(60 * time.Second); !strings.Contains(p.Screen(), "100,000 live"); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("not all sessions are seen:\n%s", p.Screen())
				}
			}
			began, cpu, written := time.Now(), cpuOf(t, p.PID()), len(p.Raw())
			time.Sleep(30 * time.Second)
			early := statusOf(t, p.PID(), "VmRSS:")
			share := 100 * (cpuOf(t, p.PID()) - cpu).Seconds() / time.Since(began).Seconds()
			drawn := float64(len(p.Raw())-written) / time.Since(began).Seconds()
			taps := keyLatencies(t, p, amount(100, 1000))
			time.Sleep(max(0, c.length-time.Since(began)))
			late := statusOf(t, p.PID(), "VmRSS:")
			screen := p.Screen()
			if accusation.MatchString(screen) || !strings.Contains(screen, "drops 0") {
				t.Errorf("under load somebody is accused, or beats are lost:\n%s", screen)
			}
			at := func(q float64) float64 { return taps[int(q*float64(len(taps)-1))].Seconds() * 1e3 }
			sourcetest.Figure(t, "P6", fmt.Sprintf("%s: %d sessions, %d beats/s", c.name, loadSessions, loadRate), "key to screen p50 <= 25 ms; drops 0; memory flat",
				fmt.Sprintf("key p50 %.1f ms, p99 %.1f ms; drops 0: %v; RSS %d MB after 30 s, %d MB after %v; CPU %.0f %% of one; %.0f B/s",
					at(0.5), at(0.99), strings.Contains(screen, "drops 0"), early>>20, late>>20, time.Since(began).Round(time.Second), share, drawn))
		})
	}
}

// keyLatencies is how long the cursor takes to move on the screen, in order.
func keyLatencies(t *testing.T, p *terminaltest.PTY, n int) []time.Duration {
	t.Helper()
	var out []time.Duration
	for i := range n {
		time.Sleep(time.Duration(120+i*37%100) * time.Millisecond) // in no step with the frames
		before := cursorPlace.FindString(p.Screen())
		key := "j"
		if i%40 >= 20 {
			key = "k"
		}
		began := time.Now()
		p.Type(key)
		for cursorPlace.FindString(p.Screen()) == before {
			if time.Since(began) > 5*time.Second {
				t.Fatalf("the cursor does not move:\n%s", p.Screen())
			}
			time.Sleep(time.Millisecond)
		}
		out = append(out, time.Since(began))
	}
	slices.Sort(out)
	return out
}
