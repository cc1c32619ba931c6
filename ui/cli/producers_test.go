package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// amount chooses between the counts that every change is tested with and the full
// ones.
func amount[T any](short, long T) T {
	if sourcetest.Soaking() {
		return long
	}
	return short
}

// waits lets a test that mostly waits do so beside others, unless it is measured.
func waits(t *testing.T) {
	if os.Getenv("SESSIONWATCH_SOAK") == "" {
		t.Parallel()
	}
}

// measures is for a test that loads or measures what others show to work: under
// the race detector it would only be slow, so it runs without it alone.
func measures(t *testing.T) {
	if racing {
		t.Skip("it measures; it runs without the race detector")
	}
}

// realNATS starts nats-server on a port of its own.
func realNATS(t testing.TB) (server *sourcetest.Process, address string) {
	t.Helper()
	port := sourcetest.FreePort(t)
	server = sourcetest.StartProcess(t, sourcetest.RealBinary(t, "nats-server"), port, "-a", "127.0.0.1", "-p", strconv.Itoa(port))
	return server, fmt.Sprintf("127.0.0.1:%d", port)
}

// realRedis starts redis-server, which keeps nothing on disk.
func realRedis(t testing.TB) (server *sourcetest.Process, address string) {
	t.Helper()
	port := sourcetest.FreePort(t)
	server = sourcetest.StartProcess(t, sourcetest.RealBinary(t, "redis-server"), port,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	return server, fmt.Sprintf("127.0.0.1:%d", port)
}

// producers are agents that beat once a second over bare sockets, whatever
// becomes of the servers. What cannot be sent is thrown away, as it must be.
type producers struct {
	name        string
	n           int
	nats, redis string // host:port; "" not there
	began       time.Time
	quit        chan struct{}
	running     sync.WaitGroup
}

// rounds is into how many parts a second is cut, so that beats do not come all
// at once.
const rounds = 10

func startProducers(t testing.TB, name string, n int, nats, redis string) *producers {
	t.Helper()
	p := &producers{name: name, n: n, nats: nats, redis: redis, began: time.Now(), quit: make(chan struct{})}
	if nats != "" {
		p.running.Go(func() { p.keep(nats, "CONNECT {\"verbose\":false}\r\n", p.publish) })
	}
	if redis != "" {
		p.running.Go(func() { p.keep(redis, "", p.set) })
	}
	t.Cleanup(p.stop)
	return p
}

func (p *producers) stop() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.running.Wait()
}

func (p *producers) publish(dst []byte, i int, at time.Time) []byte {
	beat := p.beat(i, at)
	return fmt.Appendf(dst, "PUB agent.liveness.%s-%05d %d\r\n%s\r\n", p.name, i, len(beat), beat)
}

func (p *producers) set(dst []byte, i int, at time.Time) []byte {
	return appendCommand(dst, "SET", fmt.Sprintf("agent:liveness:%s-%05d", p.name, i), string(p.beat(i, at)), "EX", "60")
}

func appendCommand(dst []byte, words ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(words))
	for _, w := range words {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(w), w)
	}
	return dst
}

func (p *producers) beat(i int, at time.Time) []byte {
	up := int(at.Sub(p.began) / time.Second)
	return fmt.Appendf(nil, `{"session_id":"%s-%05d","state":"running","uptime_secs":%d,"credits_remaining":8.43,"current_task":"Processing chunk %d/99999",`+
		`"boot_id":"%x","seq":%d,"idle_secs":0.1,"heartbeat_interval_secs":1,"host":"eu1-%02d"}`, p.name, i, up, up, p.began.UnixNano(), up, i%50)
}

// keep connects again and again until stop.
func (p *producers) keep(address, greeting string, frame func([]byte, int, time.Time) []byte) {
	for {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			p.pour(c, greeting, frame)
			c.Close()
		}
		select {
		case <-p.quit:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *producers) pour(c net.Conn, greeting string, frame func([]byte, int, time.Time) []byte) {
	var writing sync.Mutex
	write := func(b []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err := c.Write(b)
		return err
	}
	p.running.Go(func() { // ends when c is closed
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				c.Close()
				return
			}
			if strings.HasPrefix(line, "PING") {
				_ = write([]byte("PONG\r\n"))
			}
		}
	})
	if write([]byte(greeting)) != nil {
		return
	}
	tick := time.NewTicker(time.Second / rounds)
	defer tick.Stop()
	var buf []byte
	for round := 0; ; round++ {
		select {
		case <-p.quit:
			return
		case at := <-tick.C:
			buf = buf[:0]
			for i := round % rounds; i < p.n; i += rounds {
				buf = frame(buf, i, at)
			}
			if write(buf) != nil {
				return
			}
		}
	}
}

// natsFlood publishes one beat of each of n ids that nobody has seen, as fast
// as the server takes them, and returns when it has them all.
func natsFlood(t testing.TB, address, name string, n int) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	heard := make(chan error, 1)
	go func() {
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "PONG") {
				heard <- err
				return
			}
		}
	}()
	out := bufio.NewWriterSize(c, 256<<10)
	_, _ = io.WriteString(out, "CONNECT {\"verbose\":false}\r\n")
	for i := range n {
		beat := fmt.Sprintf(`{"session_id":"%s-%07d","state":"running","uptime_secs":1,"credits_remaining":null,"current_task":"flood"}`, name, i)
		fmt.Fprintf(out, "PUB agent.liveness.%s-%07d %d\r\n%s\r\n", name, i, len(beat), beat)
	}
	_, _ = io.WriteString(out, "PING\r\n")
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != nil {
		t.Fatal(err)
	}
}
