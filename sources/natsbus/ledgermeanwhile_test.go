//go:build unix

package natsbus_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// detour is a way to a server on which something happens after the server has
// answered a question, and before that answer arrives.
type detour struct {
	address string

	mu    sync.Mutex
	word  string // in the question
	skip  int    // as many such questions
	then  func(answer []byte) []byte
	taken bool
}

func newDetour(t *testing.T, to string) *detour {
	t.Helper()
	d := &detour{}
	d.address = sourcetest.StartWay(t, to, d.carry)
	return d
}

// after arranges what happens after the answer to a question, which may change
// the answer without changing its length.
func (d *detour) after(word string, skip int, then func([]byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.word, d.skip, d.then, d.taken = word, skip, then, false
}

// wasTaken reports whether it happened.
func (d *detour) wasTaken() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken
}

// asks notes a question, and gives what is to happen after its answer.
func (d *detour) asks(sent []byte) func([]byte) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.then == nil || !bytes.Contains(sent, []byte(d.word)) {
		return nil
	}
	if d.skip--; d.skip >= 0 {
		return nil
	}
	then := d.then
	d.then, d.taken = nil, true
	return then
}

func (d *detour) carry(near, far net.Conn) {
	due := make(chan func([]byte) []byte, 1)
	go func() {
		defer func() { _ = near.Close() }()
		transform(far, near, func(answer []byte) []byte {
			if !bytes.Contains(answer, []byte("MSG _INBOX.")) {
				return answer
			}
			select {
			case then := <-due:
				return then(answer)
			default:
				return answer
			}
		})
	}()
	transform(near, far, func(sent []byte) []byte {
		if then := d.asks(sent); then != nil {
			due <- then
		}
		return sent
	})
}

// transform copies what came together together.
func transform(from, to net.Conn, through func([]byte) []byte) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(through(buf[:n])); err != nil {
			return
		}
	}
}

// rivals are a ledger on a detour and another one on the same server.
func rivals(t *testing.T) (way *detour, l *natsbus.Ledger, rival watchdog.Ledger) {
	t.Helper()
	k := serveEmbeddedJetStream(t)
	way = newDetour(t, k.address)
	l, _ = openLedger(t, natsbus.Options{URLs: []string{way.address}}, natsbus.LedgerOptions{})
	rival, _ = k.Open(t)
	return way, l, rival
}

// isAlarm reports whether an error says that something is lost. Any other may be
// one of a machine that was too busy for the other program.
func isAlarm(err error) bool { return err != nil && strings.Contains(err.Error(), "from a backup") }

const anyQuestion = "PUB $JS.API."

// However far a check is when another program makes the ledger, it does not say
// that what was just made has vanished.
func TestLedgerThatAnotherMakesMeanwhileHasNotVanished(t *testing.T) {
	t.Parallel()
	steps := 7 // each has a server of its own
	if sourcetest.Soaking() {
		steps = 20
	}
	for step := range steps {
		way, l, rival := rivals(t)
		way.after(anyQuestion, step, func(answer []byte) []byte {
			err := rival.Check(t.Context())
			if err == nil {
				_, err = rival.(watchdog.Marker).CreateAuthority(t.Context(), rival.Authority())
			}
			if err != nil {
				t.Error(err)
			}
			return answer
		})
		if err := l.Check(t.Context()); isAlarm(err) {
			t.Errorf("made after question %d: %v", step, err)
		}
		if !way.wasTaken() {
			if step < 5 {
				t.Errorf("a first check asks only %d questions", step)
			}
			return
		}
		if err := l.Check(t.Context()); err != nil || l.Authority() != rival.Authority() {
			t.Errorf("made after question %d, and then: %v; %v and %v", step, err, l.Authority(), rival.Authority())
		}
	}
}

// However far a check is when another program writes and checks, the ledger has
// lost nothing.
func TestLedgerThatAnotherWritesMeanwhileHasLostNothing(t *testing.T) {
	t.Parallel()
	way, l, rival := rivals(t)
	checked(t, l)
	checked(t, rival)
	for step := range 14 {
		way.after(anyQuestion, step, func(answer []byte) []byte {
			id := watchdog.ID(fmt.Sprintf("meanwhile-%d", step))
			_, err := rival.WriteOnce(t.Context(), lost(id, 1, "n"))
			_, headErr := rival.SwapHead(t.Context(), watchdog.Head{ID: id, Generation: 1}, "")
			if err := errors.Join(err, headErr, rival.Check(t.Context())); err != nil {
				t.Error(err)
			}
			return answer
		})
		if err := l.Check(t.Context()); isAlarm(err) {
			t.Errorf("written after question %d: %v", step, err)
		}
		if !way.wasTaken() {
			if step < 3 {
				t.Errorf("a check asks only %d questions", step)
			}
			return
		}
	}
}

// A server may tell of a stream that somebody is making just then that it was
// created at no time: that is nobody's identity.
func TestLedgerThatIsBeingMadeHasNoIdentityYet(t *testing.T) {
	t.Parallel()
	way, l, rival := rivals(t)
	checked(t, rival)
	created := regexp.MustCompile(`"created":"[^"]*"`)
	for _, stream := range []string{"SW_TERMINAL", "KV_SW_HEADS"} {
		way.after("STREAM.INFO."+stream+" ", 0, func(answer []byte) []byte {
			return created.ReplaceAllFunc(answer, func(at []byte) []byte {
				return fmt.Appendf(nil, "%-*s", len(at), `"created":"0001-01-01T00:00:00Z"`)
			})
		})
		checked(t, l)
		if !way.wasTaken() || l.Authority() != rival.Authority() {
			t.Errorf("%v and %v, asked of %s: %v", l.Authority(), rival.Authority(), stream, way.wasTaken())
		}
		checked(t, l)
		checked(t, rival)
	}
}

// stale makes an answer about a stream that holds two messages one from before the
// second.
func stale(answer []byte) []byte {
	answer = bytes.Replace(answer, []byte(`"messages":2,`), []byte(`"messages":1,`), 1)
	return bytes.Replace(answer, []byte(`"last_seq":2,`), []byte(`"last_seq":1,`), 1)
}

// What is published is heard before the stream has stored it: who looks at once
// finds nothing, and must look again.
func TestWatcherThatIsFasterThanTheStreamLooksAgain(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	way := newDetour(t, k.address)
	writer, _ := openBoard(t, natsbus.Options{URLs: []string{k.address}})
	watcher, _ := openBoard(t, natsbus.Options{URLs: []string{way.address}})
	watcher.ReconcileEvery(time.Hour)
	if err := writer.Put(within(t, time.Minute), ackOf("a#1/stalled", "ops1")); err != nil {
		t.Fatal(err)
	}
	sets := make(chan int, 100)
	go func() { _ = watcher.Watch(t.Context(), func(notes []watchdog.AlertNote) { sets <- len(notes) }) }()
	await := func(want int) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			select {
			case n := <-sets:
				if n == want {
					return
				}
			case <-limit:
				t.Fatalf("%d notes are never told", want)
			}
		}
	}
	await(1)
	way.after("STREAM.INFO.KV_SW_ALERTS ", 0, stale)
	if err := writer.Put(within(t, time.Minute), ackOf("b#1/stalled", "ops1")); err != nil {
		t.Fatal(err)
	}
	await(2)
	if !way.wasTaken() {
		t.Error("nothing stale was told")
	}
}

func TestFollowerThatIsFasterThanTheStreamLooksAgain(t *testing.T) {
	t.Parallel()
	way, l, rival := rivals(t)
	l.ReconcileEvery(time.Hour)
	checked(t, rival)
	rec := follow(t, l)
	rec.Wait(t, time.Minute, "that the ledger has been told", caughtUp(rec, 0))
	way.after("STREAM.INFO.SW_TERMINAL ", 0, stale) // the self-test is the first message
	settled(t, rival, lost("a", 1, "n"))
	rec.Wait(t, time.Minute, "the end", func() bool { return len(sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0)) == 1 })
	if !way.wasTaken() {
		t.Error("nothing stale was told")
	}
}
