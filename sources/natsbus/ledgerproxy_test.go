//go:build unix

package natsbus_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// cutter is a way to a server that breaks right after a write has gone through:
// the server has it, and its answer is lost.
type cutter struct {
	address string
	after   atomic.Pointer[string] // cut when this has gone through; nil: never
	cuts    atomic.Int32
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	c := &cutter{}
	c.address = sourcetest.StartWay(t, to, c.carry)
	return c
}

func (c *cutter) carry(near, far net.Conn) {
	var mute atomic.Bool
	answered := make(chan struct{})
	go func() {
		defer func() { _ = near.Close() }()
		pass(far, near, func(answer []byte) bool {
			if mute.Load() && bytes.Contains(answer, []byte("MSG _INBOX.")) {
				close(answered)
				return false
			}
			return !mute.Load()
		})
	}()
	pass(near, far, func(sent []byte) bool {
		word := c.after.Load()
		if word == nil || !bytes.Contains(sent, []byte(*word)) {
			return true
		}
		c.after.Store(nil)
		c.cuts.Add(1)
		mute.Store(true)
		_, _ = far.Write(sent)
		select {
		case <-answered: // then the server has stored it
		case <-time.After(time.Minute):
		}
		return false
	})
}

// pass copies while on allows it.
func pass(from, to net.Conn, on func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !on(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// fault 17
func TestWriteWhoseAnswerIsLostIsFoundAgain(t *testing.T) {
	t.Parallel()
	k := serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server"))
	way := newCutter(t, k.address)
	l, _ := openLedger(t, natsbus.Options{URLs: []string{way.address}}, natsbus.LedgerOptions{})
	checked(t, l)
	rival, _ := k.Open(t)
	checked(t, rival)

	cut := func(subject string) { word := "PUB " + subject + " "; way.after.Store(&word) }
	cut(wire.TerminalSubject("ours", 1))
	settled(t, l, lost("ours", 1, "ours"))
	if got, err := rival.WriteOnce(t.Context(), lost("ours", 1, "theirs")); err != nil || got.Nonce != "ours" {
		t.Errorf("%+v, %v", got, err)
	}
	settled(t, rival, lost("theirs", 1, "theirs"))
	cut(wire.TerminalSubject("theirs", 1))
	if got, err := l.WriteOnce(within(t, 60*time.Second), lost("theirs", 1, "ours")); err != nil || got.Nonce != "theirs" {
		t.Errorf("%+v, %v", got, err)
	}
	cut(wire.BucketSubject(wire.HeadsBucket, wire.BucketKey("ours")))
	rev, err := l.SwapHead(within(t, 60*time.Second), watchdog.Head{ID: "ours", Generation: 1}, "")
	if err != nil {
		t.Errorf("a head that was written is not known to be: %v", err)
	}
	if _, now, err := rival.Head(t.Context(), "ours"); now != rev || err != nil {
		t.Errorf("the head stands at %q, and %q was said, %v", now, rev, err)
	}
	if n := way.cuts.Load(); n != 3 {
		t.Errorf("%d of 3 writes were cut", n)
	}
}
