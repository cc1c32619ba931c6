//go:build unix

package sourcetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Role is who a source under test connects as.
type Role uint8

// The roles of the suite.
const (
	Reader        Role = iota // may read beats and write nothing
	WrongPassword             // the reader's name with the password WrongSecret
	Forbidden                 // may connect, and not read beats
)

// WrongSecret is the password of a Role that is let in nowhere. It must never
// be seen in an event or a log line.
const WrongSecret = "hunter2-is-wrong"

// BeatServer is a server with beats on it. Its methods fail the test.
type BeatServer interface {
	// Address is where clients connect, without a user.
	Address() string
	// Send publishes a payload for an id as a producer would, unchecked.
	Send(t testing.TB, id string, payload []byte)
	// Kill ends it without a farewell; Restart starts it at the same address.
	Kill(t testing.TB)
	Restart(t testing.TB)
}

// Pauser is a BeatServer that can be stopped like a hanging machine: its
// sockets stay open and nobody answers.
type Pauser interface {
	Pause(t testing.TB)
	Resume(t testing.TB)
}

// Harness is what the suite needs to know of a beat source.
type Harness struct {
	Source watchdog.Source
	// Serve starts a server that demands the roles' passwords.
	Serve func(t testing.TB) BeatServer
	// Open opens the source in a role and runs it. It returns at once, whatever
	// the address does. stop closes it and returns when nothing of it runs.
	Open func(t testing.TB, address string, as Role, sink Sink) (stop func())
	// Patience is how long a beat may take from Send to the sink; 30 s if it is 0.
	Patience time.Duration
	// Streamed says that every payload arrives. Otherwise one that was not read
	// yet is overwritten by the next one of the same id.
	Streamed bool
}

// RunBeatSource proves that a source keeps the promises that all of them make.
func RunBeatSource(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, Harness)
		// alone is what looks at the whole process: its standard error, its goroutines.
		alone bool
	}{
		{"reads every case of the wire format", readsEveryCase, false},
		{"says that it is configured before anything else", saysConfigured, false},
		{"cleans hostile text", cleansHostileText, false},
		{"never touches the bytes of a beat again", keepsBytes, false},
		{"sees a killed server and its return", survivesKill, true},
		{"takes no hanging server for an answer", noticesPause, false},
		{"tells a wrong password", tellsWrongPassword, true},
		{"tells a missing permission", tellsForbidden, false},
		{"opens at once where nobody answers", opensIntoBlackHole, false},
		{"leaves no goroutine behind", leavesNothing, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.alone {
				t.Parallel() // each has a server of its own, and waits for it
			}
			c.run(t, h)
		})
	}
}

//go:embed testdata/beats.jsonl
var beatCases []byte

type beatCase struct {
	Name    string
	Subject string
	Payload string
	Expect  struct {
		Accept bool
		Why    string
		fields map[string]any
	}
}

func loadCases(t *testing.T) []beatCase {
	t.Helper()
	var out []beatCase
	d := json.NewDecoder(bytes.NewReader(beatCases))
	for {
		var c beatCase
		var raw struct{ Expect map[string]any }
		var line json.RawMessage
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(json.Unmarshal(line, &c), json.Unmarshal(line, &raw)); err != nil {
			t.Fatal(err)
		}
		c.Expect.fields = raw.Expect
		delete(c.Expect.fields, "accept")
		delete(c.Expect.fields, "why")
		out = append(out, c)
	}
}

// readsEveryCase sends the cases one by one, so that each outcome is known to
// be that case's own. Refusals, which are told once a second, are awaited
// together unless one would overwrite the other.
func readsEveryCase(t *testing.T, h Harness) {
	server, rec := serveAndOpen(t, h)
	var want [watchdog.RefusalCount]uint64
	accepted := 0
	settled := func() bool {
		got, _ := rec.Refused()
		return rec.Heard() == accepted && got == want
	}
	for _, c := range loadCases(t) {
		server.Send(t, strings.TrimPrefix(c.Subject, "agent.liveness."), []byte(c.Payload))
		if !c.Expect.Accept {
			want[refusalOf(t, c.Expect.Why)]++
			if !h.Streamed {
				rec.Wait(t, h.Patience, "the refusal of case "+c.Name, settled)
			}
			continue
		}
		accepted++
		rec.Wait(t, h.Patience, "the beat of case "+c.Name, func() bool { return rec.Heard() == accepted })
		got := rec.AllBeats()[accepted-1]
		compareBeat(t, c, got)
		if string(got.Raw) != c.Payload {
			t.Errorf("case %s: the message itself is %q, want what was sent: quarantine keeps it", c.Name, got.Raw)
		}
	}
	rec.Wait(t, h.Patience, "all refusals by kind", settled)
	refused := EventsOf[watchdog.Refused](rec, 0)
	if last := refused[len(refused)-1]; last.LastID != "batch-job-abc123" || last.Last != watchdog.RefusedSize {
		t.Errorf("the newest refusal is told as %v of %q, want size of batch-job-abc123", last.Last, last.LastID)
	}
	if _, fields := rec.Refused(); fields == 0 {
		t.Error("a wrong optional field was dropped and not counted")
	}
	for i := 1; i < len(refused); i++ {
		if gap := refused[i].At - refused[i-1].At; gap < 900*time.Millisecond {
			t.Errorf("two refusal events within %v; at most one a second", gap)
		}
	}
}

func refusalOf(t *testing.T, word string) watchdog.Refusal {
	t.Helper()
	for r := range watchdog.RefusalCount {
		if r.String() == word {
			return r
		}
	}
	t.Fatalf("no refusal is called %q", word)
	return 0
}

func compareBeat(t *testing.T, c beatCase, b watchdog.Beat) {
	t.Helper()
	for name, want := range c.Expect.fields {
		if got := fieldOf(t, b, name); got != want {
			t.Errorf("case %q: %s is %v (%T), want %v (%T)", c.Name, name, got, got, want, want)
		}
	}
}

// fieldOf gives a field in the types of encoding/json.
func fieldOf(t *testing.T, b watchdog.Beat, name string) any {
	t.Helper()
	text := func(s []byte) any {
		if s == nil {
			return nil
		}
		return string(s)
	}
	number := func(known bool, n float64) any {
		if !known {
			return nil
		}
		return n
	}
	switch name {
	case "session_id":
		return text(b.ID)
	case "state":
		return text(b.StateText)
	case "current_task":
		return text(b.Task)
	case "uptime_secs":
		return number(b.Uptime >= 0, float64(b.Uptime))
	case "credits_remaining":
		return number(!math.IsNaN(b.Credits), b.Credits)
	case "generation":
		return number(b.Generation > 0, float64(b.Generation))
	case "seq":
		return number(b.Seq >= 0, float64(b.Seq))
	case "idle_secs":
		return number(b.Idle >= 0, b.Idle.Seconds())
	case "waiting_for":
		return b.WaitingFor.String()
	}
	t.Fatalf("the suite does not know the field %s", name)
	return nil
}

func saysConfigured(t *testing.T, h Harness) {
	_, rec := serveAndOpen(t, h)
	events := rec.AllEvents()
	if first, ok := events[0].(watchdog.SourceAdded); !ok || first.Source != h.Source {
		t.Errorf("the first event is %T %+v, want SourceAdded of %v", events[0], events[0], h.Source)
	}
	for _, ev := range EventsOf[watchdog.LinkChanged](rec, 0) {
		if ev.Source != h.Source || ev.Address == "" {
			t.Errorf("%+v names no source or no address", ev)
		}
	}
}

func beatFor(id, task string, uptime int) []byte {
	taskJSON, _ := json.Marshal(task)
	return fmt.Appendf(nil, `{"session_id":%q,"state":"running","uptime_secs":%d,"credits_remaining":null,"current_task":%s}`, id, uptime, taskJSON)
}

func cleansHostileText(t *testing.T, h Harness) {
	server, rec := serveAndOpen(t, h)
	server.Send(t, "hostile", beatFor("hostile", "a\x1b]52;c;ZXZpbA==\x07b\u202ec\u200bd\x9b31me\r\nf", 1))
	rec.Wait(t, h.Patience, "a beat with a hostile task", func() bool { return rec.Heard() == 1 })
	task := string(rec.AllBeats()[0].Task)
	if i := strings.IndexFunc(task, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' || r == '\u200b' }); i >= 0 {
		t.Errorf("task %q still holds a control or a format character", task)
	}
	server.Send(t, "evil\x1b[31m", beatFor(`evil`, "t", 1))
	rec.Wait(t, h.Patience, "the refusal of a hostile id", func() bool {
		counts, _ := rec.Refused()
		return counts[watchdog.RefusedID] == 1
	})
	for _, ev := range EventsOf[watchdog.Refused](rec, 0) {
		if strings.ContainsFunc(ev.LastID, unicode.IsControl) {
			t.Errorf("LastID %q is not cleaned", ev.LastID)
		}
	}
}

func keepsBytes(t *testing.T, h Harness) {
	server, rec := serveAndOpen(t, h)
	const n = 300 // more than a batch
	for i := range n {
		id := fmt.Sprintf("keep-%d", i)
		server.Send(t, id, beatFor(id, fmt.Sprintf("task %d of the \\ many", i), i))
	}
	rec.Wait(t, h.Patience, "all beats", func() bool { return rec.Heard() == n })
	for i := range n { // other bytes through the same buffers
		id := fmt.Sprintf("keep-%d", i)
		server.Send(t, id, beatFor(id, strings.Repeat("z", 30), n+i))
	}
	rec.Wait(t, h.Patience, "the second round", func() bool { return rec.Heard() == 2*n })
	seen := map[string]bool{}
	for _, b := range rec.AllBeats()[:n] {
		if want := fmt.Sprintf("keep-%d", b.Uptime); string(b.ID) != want {
			t.Fatalf("the id of beat %d has become %q", b.Uptime, b.ID)
		}
		if want := fmt.Sprintf("task %d of the \\ many", b.Uptime); string(b.Task) != want {
			t.Fatalf("the task of %s has become %q", b.ID, b.Task)
		}
		seen[string(b.ID)] = true
	}
	if len(seen) != n {
		t.Errorf("%d different sessions, want %d", len(seen), n)
	}
}

// backWithin is how long after its server a link may be back: a soak, on a machine
// of its own, holds the product to its word.
func backWithin() time.Duration {
	if Soaking() {
		return 5 * time.Second
	}
	return 30 * time.Second
}

func survivesKill(t *testing.T, h Harness) {
	quiet := CaptureStderr(t)
	server, rec := serveAndOpen(t, h)
	for round := range 2 {
		mark := rec.Mark()
		server.Kill(t)
		rec.Wait(t, 60*time.Second, "the link is told to be down", func() bool {
			for _, ev := range EventsOf[watchdog.LinkChanged](rec, mark) {
				if ev.Phase == watchdog.LinkDown && ev.Detail != "" && ev.Attempt > 0 && ev.NextTry > 0 {
					return true
				}
			}
			return false
		})
		mark = rec.Mark()
		server.Restart(t)
		rec.Wait(t, backWithin(), "the link is up again, and answers, after the server is back", func() bool {
			return rec.Phase() == watchdog.LinkUp && len(EventsOf[watchdog.RoundTrip](rec, mark)) > 0
		})
		id := fmt.Sprintf("after-%d", round)
		server.Send(t, id, beatFor(id, "t", 1))
		rec.Wait(t, h.Patience, "beats after the return", func() bool {
			beats := rec.AllBeats()
			return len(beats) > 0 && string(beats[len(beats)-1].ID) == id
		})
	}
	if text := quiet(); text != "" {
		t.Errorf("something was written to stderr, which is the screen: %q", text)
	}
}

func noticesPause(t *testing.T, h Harness) {
	server, rec := serveAndOpen(t, h)
	pauser, ok := server.(Pauser)
	if !ok {
		t.Skip("this server runs inside the test and cannot be paused")
	}
	pauser.Pause(t)
	mark := rec.Mark()
	answers := func() bool { return len(EventsOf[watchdog.RoundTrip](rec, mark)) > 0 }
	// Answers that were under way may still be told: they come to an end.
	if !Eventually(time.Minute, func() bool { mark = rec.Mark(); return !Eventually(3*time.Second, answers) }) || Eventually(7*time.Second, answers) {
		t.Errorf("a server that is stopped was said to answer: %+v", EventsOf[watchdog.RoundTrip](rec, mark))
	}
	mark = rec.Mark()
	pauser.Resume(t)
	rec.Wait(t, 60*time.Second, "an answer after SIGCONT", func() bool {
		return rec.Phase() == watchdog.LinkUp && len(EventsOf[watchdog.RoundTrip](rec, mark)) > 0
	})
	for _, trip := range EventsOf[watchdog.RoundTrip](rec, 0) {
		if trip.At < trip.Sent || trip.Source != h.Source {
			t.Errorf("impossible round trip %+v", trip)
		}
	}
	server.Send(t, "after-pause", beatFor("after-pause", "t", 1))
	rec.Wait(t, h.Patience, "a beat after SIGCONT", func() bool { return rec.Heard() > 0 })
}

func tellsWrongPassword(t *testing.T, h Harness) {
	quiet := CaptureStderr(t)
	rec := &Recorder{}
	stop := h.Open(t, h.Serve(t).Address(), WrongPassword, rec)
	rec.Wait(t, 60*time.Second, "two tries that were refused", func() bool {
		n := 0
		for _, ev := range EventsOf[watchdog.LinkChanged](rec, 0) {
			if strings.HasPrefix(ev.Detail, "authentication refused") && ev.Phase == watchdog.LinkDown {
				n++
			}
		}
		return n >= 2
	})
	stop()
	if trips := EventsOf[watchdog.RoundTrip](rec, 0); len(trips) > 0 {
		t.Errorf("a server that refused us gives sight: %+v", trips)
	}
	if all := fmt.Sprintf("%+v", rec.AllEvents()); strings.Contains(all, WrongSecret) {
		t.Error("the password stands in an event")
	}
	if text := quiet(); text != "" {
		t.Errorf("something was written to stderr, which is the screen: %q", text)
	}
}

func tellsForbidden(t *testing.T, h Harness) {
	rec := &Recorder{}
	stop := h.Open(t, h.Serve(t).Address(), Forbidden, rec)
	defer stop()
	rec.Wait(t, 60*time.Second, "a standing denial", func() bool {
		denials := EventsOf[watchdog.Denied](rec, 0)
		return len(denials) > 0 && denials[len(denials)-1].Reason != ""
	})
}

func opensIntoBlackHole(t *testing.T, h Harness) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepted by the kernel, answered by nobody
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, address := range map[string]string{
		"no route":          "192.0.2.1:4999",
		"silent":            silent.Addr().String(),
		"no such host":      "no-such-host.invalid:4999",
		"nobody is there":   fmt.Sprintf("127.0.0.1:%d", closedPort(t)),
		"nothing but zeros": "[::1]:9",
	} {
		t.Run(name, func(t *testing.T) {
			rec, stop := &Recorder{}, func() {}
			Promptly(t, "opening", func() {
				stop()
				rec = &Recorder{}
				stop = h.Open(t, address, Reader, rec)
			})
			rec.Wait(t, 60*time.Second, "a reason why there is no link", func() bool {
				for _, ev := range EventsOf[watchdog.LinkChanged](rec, 0) {
					if ev.Detail != "" && ev.NextTry > 0 {
						t.Logf("%s: %q, next try in %v", address, ev.Detail, ev.NextTry-ev.At)
						return true
					}
				}
				return false
			})
			Promptly(t, "closing", func() {
				stop()
				stop = h.Open(t, address, Reader, rec)
			})
			stop()
			if trips := EventsOf[watchdog.RoundTrip](rec, 0); len(trips) > 0 {
				t.Errorf("nobody answered, and yet: %+v", trips)
			}
		})
	}
}

func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func leavesNothing(t *testing.T, h Harness) {
	server := h.Serve(t)
	server.Send(t, "early", beatFor("early", "t", 1)) // its connections are there before we count
	before := goleak.IgnoreCurrent()
	rec := &Recorder{}
	stop := h.Open(t, server.Address(), Reader, rec)
	rec.Wait(t, 60*time.Second, "the link is up", func() bool { return rec.Phase() == watchdog.LinkUp })
	stop()
	mark, beats := rec.Mark(), rec.Heard()
	server.Send(t, "late", beatFor("late", "t", 1))
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
	if rec.Mark() != mark || rec.Heard() != beats {
		t.Error("a closed source still tells")
	}

	rec = &Recorder{}
	stop = h.Open(t, server.Address(), WrongPassword, rec)
	rec.Wait(t, 60*time.Second, "a refused try", func() bool { return rec.Phase() == watchdog.LinkDown })
	stop()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
}

// serveAndOpen gives a server and a source that is up and reads from it.
func serveAndOpen(t *testing.T, h Harness) (BeatServer, *Recorder) {
	t.Helper()
	server := h.Serve(t)
	rec := &Recorder{}
	stop := h.Open(t, server.Address(), Reader, rec)
	t.Cleanup(stop)
	rec.Wait(t, 60*time.Second, "the link is up and answers", func() bool {
		return rec.Phase() == watchdog.LinkUp && len(EventsOf[watchdog.RoundTrip](rec, 0)) > 0
	})
	return server, rec
}
