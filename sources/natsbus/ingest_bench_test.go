//go:build unix

package natsbus_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	feederVariable = "SESSIONWATCH_TEST_FEEDER"
	feedSessions   = 10_000
	feedBeats      = 50 * feedSessions
)

// TestMain makes the test binary a feeder when a benchmark runs it as one.
func TestMain(m *testing.M) {
	if os.Getenv(feederVariable) != "" {
		feed()
		return
	}
	sourcetest.AtOnce(8)
	os.Exit(m.Run())
}

// feed is a fake NATS server that pours beats, so that the consumer is the
// limit and nobody else's work is counted. It prints its address; each line on
// its standard input makes it pour all beats into the newest subscriber.
func feed() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	var mu sync.Mutex
	var subscriber net.Conn
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go greet(c, func() {
				mu.Lock()
				subscriber = c
				mu.Unlock()
			})
		}
	}()
	frames := renderFrames()
	round := 0
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		mu.Lock()
		c := subscriber
		mu.Unlock()
		for range feedBeats / feedSessions {
			round++
			frames.advance(round)
			if _, err := c.Write(frames.bytes); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
}

func greet(c net.Conn, subscribed func()) {
	_, _ = fmt.Fprint(c, "INFO {\"server_id\":\"F\",\"version\":\"2.15.2\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch {
		case strings.HasPrefix(line, "PING"): // never while it pours: nobody asks then
			_, _ = fmt.Fprint(c, "PONG\r\n")
		case strings.HasPrefix(line, "SUB"):
			subscribed()
		}
	}
}

// frames is one beat of each session as the server would send it. What changes
// from beat to beat has a fixed place.
type frames struct {
	bytes  []byte
	uptime []int
	chunk  []int
}

func renderFrames() *frames {
	f := &frames{}
	for i := range feedSessions {
		id := fmt.Sprintf("batch-job-%07x", i)
		beat := fmt.Sprintf(`{"session_id":%q,"state":"running","uptime_secs":100000,"credits_remaining":%.2f,"current_task":"Processing chunk 000/200"}`,
			id, float64(i%1000)/100+0.01)
		head := fmt.Sprintf("MSG agent.liveness.%s 1 %d\r\n", id, len(beat))
		start := len(f.bytes) + len(head)
		f.uptime = append(f.uptime, start+strings.Index(beat, "100000"))
		f.chunk = append(f.chunk, start+strings.Index(beat, "000/200"))
		f.bytes = append(f.bytes, head+beat+"\r\n"...)
	}
	return f
}

func (f *frames) advance(round int) {
	uptime, chunk := fmt.Sprintf("%06d", 100_000+round), fmt.Sprintf("%03d", round%1000)
	for i := range f.uptime {
		copy(f.bytes[f.uptime[i]:], uptime)
		copy(f.bytes[f.chunk[i]:], chunk)
	}
}

// feeder is the child process, seen from here.
type feeder struct {
	address string
	in      io.Writer
}

func startFeeder(b *testing.B) *feeder {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), feederVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &feeder{address: strings.TrimSpace(address), in: in}
}

// cost is the CPU time of this process for one pour.
func (f *feeder) cost(b *testing.B, done func()) time.Duration {
	b.Helper()
	runtime.GC()
	before := cpuTime()
	if _, err := fmt.Fprintln(f.in, "pour"); err != nil {
		b.Fatal(err)
	}
	done()
	return cpuTime() - before
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// floor is the library with an empty callback.
func (f *feeder) floor(b *testing.B) time.Duration {
	b.Helper()
	nc, err := nats.Connect(f.address)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	seen, all := 0, make(chan struct{})
	sub, err := nc.Subscribe("agent.liveness.>", func(*nats.Msg) {
		if seen++; seen == feedBeats {
			close(all)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		b.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
	return f.cost(b, func() { <-all })
}

// nowhere is a sink that costs nothing.
type nowhere struct{}

func (nowhere) Beats([]watchdog.Beat) {}
func (nowhere) Post(watchdog.Event)   {}

// decoded is a Bus whose beats go nowhere: receiving, decoding and batching.
func (f *feeder) decoded(b *testing.B) time.Duration {
	b.Helper()
	bus := f.bus(b, nowhere{})
	defer bus.Close()
	return f.cost(b, func() { awaitBeats(b, bus) })
}

// whole is a Bus that feeds an engine, up to the last beat applied.
func (f *feeder) whole(b *testing.B) (cost time.Duration, lost, coalesced uint64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	system := clock.System()
	engine := watchdog.NewEngine(watchdog.EngineConfig{Clock: system})
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	defer running.Wait()
	defer cancel()
	bus := f.bus(b, engine)
	defer bus.Close()
	var w watchdog.Window
	cost = f.cost(b, func() {
		awaitBeats(b, bus)
		var err error
		if w, err = engine.Look(ctx, watchdog.Ask{}); err != nil {
			b.Fatal(err)
		}
	})
	if w.Total != feedSessions {
		b.Errorf("the engine knows %d sessions, want %d", w.Total, feedSessions)
	}
	return cost, w.Self.Drops + w.Links[0].Dropped, w.Self.Coalesced
}

func (f *feeder) bus(b *testing.B, sink natsbus.Sink) *natsbus.Bus {
	b.Helper()
	bus, err := natsbus.Open(natsbus.Options{URLs: []string{f.address}}, sink, clock.System(), new(sourcetest.Log).Logger())
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = bus.Run(b.Context()) }()
	for bus.Link().Phase != watchdog.LinkUp {
		time.Sleep(time.Millisecond)
	}
	return bus
}

func awaitBeats(b *testing.B, bus *natsbus.Bus) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); bus.Beats() < feedBeats; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d beats of %d arrived", bus.Beats(), feedBeats)
		}
	}
}

// BenchmarkIngest compares the CPU that beats cost with the library's floor: an
// empty callback. One iteration is half a million beats of 10,000 sessions in
// each way, one after the other.
func BenchmarkIngest(b *testing.B) {
	f := startFeeder(b)
	f.floor(b) // warms caches and the heap
	var floor, decoded, whole, decodedRatio, wholeRatio []float64
	var lost, coalesced uint64
	for b.Loop() {
		base := float64(f.floor(b)) / feedBeats
		d := float64(f.decoded(b)) / feedBeats
		cost, l, c := f.whole(b)
		w := float64(cost) / feedBeats
		lost, coalesced = lost+l, coalesced+c
		floor, decoded, whole = append(floor, base), append(decoded, d), append(whole, w)
		decodedRatio, wholeRatio = append(decodedRatio, d/base), append(wholeRatio, w/base)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(floor), "floor-ns/beat")
	b.ReportMetric(median(decoded), "decoded-ns/beat")
	b.ReportMetric(median(whole), "engine-ns/beat")
	b.ReportMetric(median(decodedRatio), "decoded-ratio")
	b.ReportMetric(median(wholeRatio), "engine-ratio")
	b.ReportMetric(float64(lost), "lost")
	b.ReportMetric(float64(coalesced), "coalesced")
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}
