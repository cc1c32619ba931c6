//go:build linux

package cli_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// firstFrame is the time from the start of a process to a text on its terminal.
func firstFrame(b *testing.B, cmd *exec.Cmd, text string) time.Duration {
	b.Helper()
	began := time.Now()
	p := terminaltest.StartPTY(b, terminaltest.Normal, cmd)
	for deadline := began.Add(terminaltest.Patience); !bytes.Contains(p.Raw(), []byte(text)); {
		if time.Now().After(deadline) {
			b.Fatalf("no frame with %q:\n%s", text, p.Screen())
		}
		time.Sleep(200 * time.Microsecond)
	}
	took := time.Since(began)
	p.Signal(syscall.SIGKILL)
	p.Ended()
	return took
}

// hangingResolver gives the words that start a command in a place of its own in
// which no name is ever resolved. It skips where that is not permitted.
func hangingResolver(b *testing.B) []string {
	b.Helper()
	mute, err := net.ListenPacket("udp", "127.0.0.53:53") // answers nobody
	if err != nil {
		b.Skipf("a name server that hangs cannot be had here: %v", err)
	}
	b.Cleanup(func() { mute.Close() })
	file := filepath.Join(b.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.53\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	words := []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, file}
	if out, err := exec.Command(words[0], append(words[1:], "true")...).CombinedOutput(); err != nil {
		b.Skipf("a name server that hangs cannot be had here: %v: %s", err, out)
	}
	return words
}

// BenchmarkFirstFrameOfTheBinary compares the first frame of the built program
// with that of a bare Bubble Tea program, started in turns.
func BenchmarkFirstFrameOfTheBinary(b *testing.B) {
	sessionwatch, bare := asBuilt(b), filepath.Join(b.TempDir(), "bare")
	if err := build(bare, "./testdata/bare"); err != nil {
		b.Fatal(err)
	}
	mute := muteServer(b)
	for _, c := range []struct {
		name        string
		nats, redis string
		resolver    bool
		args        []string
		text        string
	}{
		{name: "refused", nats: "127.0.0.1:1", redis: "127.0.0.1:1", text: "choose"},
		{name: "none configured", nats: "-", redis: "127.0.0.1:1", text: "choose"},
		{name: "hanging servers", nats: mute, redis: mute, text: "choose"},
		{name: "hanging look-up", nats: "nats.example.com:4222", redis: "redis.example.com:6379", resolver: true, text: "choose"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var wrap []string
			if c.resolver {
				wrap = hangingResolver(b)
			}
			nats, redis := "nats://"+c.nats, "redis://"+c.redis
			if c.nats == "-" {
				nats = "-"
			}
			start := func(words ...string) *exec.Cmd {
				words = append(slices.Clone(wrap), words...)
				path, err := exec.LookPath(words[0])
				if err != nil {
					b.Fatal(err)
				}
				return &exec.Cmd{Path: path, Args: words, Env: alone(b)}
			}
			const rounds = 15
			var floor, ours, ratio []float64
			for b.Loop() {
				for range rounds {
					f := firstFrame(b, start(bare), "choose")
					o := firstFrame(b, start(sessionwatch, "attach", "--nats", nats, "--redis", redis), c.text)
					floor, ours = append(floor, f.Seconds()*1e3), append(ours, o.Seconds()*1e3)
					ratio = append(ratio, o.Seconds()/f.Seconds())
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middle(floor), "bare-ms")
			b.ReportMetric(middle(ours), "ms")
			b.ReportMetric(middle(ratio), "ratio")
		})
	}
}

// middle is the median.
func middle(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}
