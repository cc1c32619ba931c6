package natsbus

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestSightIsAskedForEveryTwoSeconds(t *testing.T) {
	simulate(t, nil, func(_ *fakeServer, e *ear, b *Bus) {
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(eventsOf[watchdog.RoundTrip](e)); n < 29 || n > 32 {
			t.Errorf("%d round trips in a minute, want about 30", n)
		}
		if l := b.Link(); l.Phase != watchdog.LinkUp || l.Detail != "agent.liveness.>" || l.Warning != "" || l.Attempt != 0 || l.Origin != "test" {
			t.Errorf("the link is told as %+v", l)
		}
	})
}

// fault 7
func TestHangingServerGivesNoSightAndIsGivenUp(t *testing.T) {
	simulate(t, nil, func(f *fakeServer, e *ear, b *Bus) {
		time.Sleep(5 * time.Second)
		f.mute.Store(true)
		synctest.Wait()
		before := len(eventsOf[watchdog.RoundTrip](e))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(eventsOf[watchdog.RoundTrip](e)); n != before {
			t.Errorf("%d round trips with a mute server", n-before)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if l := b.Link(); l.Phase != watchdog.LinkDown || l.Detail != "no answer to ping" && l.Detail != "timed out" {
			t.Errorf("after 13 s the link is %v, %q", l.Phase, l.Detail)
		}
		f.mute.Store(false)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if n := len(eventsOf[watchdog.RoundTrip](e)); n == before {
			t.Error("no sight again after the server speaks")
		}
	})
}

func TestRefusedTriesAreSpacedAndAnnounced(t *testing.T) {
	refused := func(f *fakeServer, _ *Options, _ *Bus) { f.refuse = syscall.ECONNREFUSED }
	simulate(t, refused, func(f *fakeServer, e *ear, b *Bus) {
		time.Sleep(time.Minute)
		synctest.Wait()
		f.mu.Lock()
		dials := f.dials
		f.mu.Unlock()
		links := eventsOf[watchdog.LinkChanged](e)
		if len(links) != len(dials)+1 || links[0].Phase != watchdog.LinkConnecting {
			t.Fatalf("%d changes for %d tries, the first %v", len(links), len(dials), links[0].Phase)
		}
		for i := range dials[1:] {
			gap := dials[i+1] - dials[i]
			if gap < 500*time.Millisecond || gap > 5*time.Second {
				t.Errorf("try %d came %v after the one before", i+2, gap)
			}
			ev := links[i+1]
			if ev.Phase != watchdog.LinkDown || ev.Detail != "refused" || ev.Attempt != i+1 || ev.NextTry != dials[i+1] {
				t.Errorf("try %d is told as %+v; the next one was at %v", i+1, ev, dials[i+1])
			}
		}
		f.set(func(f *fakeServer) { f.refuse = nil })
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		if l := b.Link(); l.Phase != watchdog.LinkUp || l.Attempt != 0 {
			t.Errorf("4.1 s after the server is back: %+v", l)
		}
	})
}

func TestHangingDialEndsByItselfAndOnClose(t *testing.T) {
	hang := func(f *fakeServer, _ *Options, _ *Bus) { f.hang = true }
	simulate(t, hang, func(f *fakeServer, _ *ear, b *Bus) {
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if l := b.Link(); l.Phase != watchdog.LinkDown || l.Detail != "timed out" {
			t.Errorf("after 2.1 s: %+v", l)
		}
		f.mu.Lock()
		before := len(f.dials)
		f.mu.Unlock()
		b.Retry()
		synctest.Wait()
		f.mu.Lock()
		after := len(f.dials)
		f.mu.Unlock()
		if after != before+1 {
			t.Errorf("Retry led to %d tries", after-before)
		}
		began := time.Now() // a dial hangs now
		b.Close()
		if d := time.Since(began); d > 0 {
			t.Errorf("Close waited %v for a hanging dial", d)
		}
	})
}

func TestSilentGreetingTimesOut(t *testing.T) {
	silent := func(f *fakeServer, _ *Options, _ *Bus) { f.silent = true }
	simulate(t, silent, func(_ *fakeServer, e *ear, b *Bus) {
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if l := b.Link(); l.Phase != watchdog.LinkDown || l.Detail != "timed out" {
			t.Errorf("after 2.1 s: %+v", l)
		}
		if n := len(eventsOf[watchdog.RoundTrip](e)); n > 0 {
			t.Errorf("%d round trips without a greeting", n)
		}
	})
}

func TestServerThatHangsUpIsNotHammered(t *testing.T) {
	rude := func(f *fakeServer, _ *Options, _ *Bus) { f.farewell = true }
	simulate(t, rude, func(f *fakeServer, _ *ear, _ *Bus) {
		time.Sleep(time.Minute)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.dials); n < 10 || n > 30 {
			t.Errorf("%d connections in a minute to a server that closes each at once", n)
		}
	})
}

func TestErrorsThatTheLibraryGivesUpOn(t *testing.T) {
	// Just on, and just beside, the moments at which the link looks by itself.
	for said, want := range map[string]string{
		"Some Error Of Tomorrow":       "Some Error Of Tomorrow",
		"User Authentication Expired":  "authentication refused: the credentials have expired",
		"maximum connections exceeded": "the server has too many connections",
	} {
		simulate(t, nil, func(f *fakeServer, e *ear, b *Bus) {
			time.Sleep(20 * time.Second)
			f.last().say("-ERR '%s'\r\n", said)
			f.last().hangUp()
			synctest.Wait()
			if l := b.Link(); l.Phase != watchdog.LinkDown || l.Detail != want {
				t.Errorf("%s: the link is %v, %q", said, l.Phase, l.Detail)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if l := b.Link(); l.Phase != watchdog.LinkUp {
				t.Errorf("%s: after a second the link is %v, %q", said, l.Phase, l.Detail)
			}
			f.send("again", 0, 1)
			time.Sleep(time.Second)
			if e.heard() != 1 {
				t.Errorf("%s: the new connection hears nothing", said)
			}
		})
	}
}

const violation = `Permissions Violation for Subscription to "agent.liveness.>"`

func TestDeniedSubscriptionIsToldAndTriedAgain(t *testing.T) {
	denied := func(f *fakeServer, _ *Options, _ *Bus) { f.deny = violation }
	simulate(t, denied, func(f *fakeServer, e *ear, _ *Bus) {
		time.Sleep(time.Minute)
		synctest.Wait()
		denials := eventsOf[watchdog.Denied](e)
		if len(denials) != 1 || !strings.Contains(denials[0].Reason, "Permissions Violation") {
			t.Fatalf("told as %+v", denials)
		}
		if n := f.sent("SUB"); n < 5 || n > 8 {
			t.Errorf("subscribed %d times in a minute, want about 6", n)
		}
		f.set(func(f *fakeServer) { f.deny = "" })
		time.Sleep(11 * time.Second)
		synctest.Wait()
		denials = eventsOf[watchdog.Denied](e)
		if len(denials) != 2 || denials[1].Reason != "" {
			t.Fatalf("after the permission came: %+v", denials)
		}
		f.send("seen", 0, 1)
		time.Sleep(time.Second)
		if e.heard() != 1 {
			t.Error("nothing is heard on the new subscription")
		}
		f.last().say("-ERR '%s'\r\n", violation) // taken away while it lives
		time.Sleep(time.Second)
		if denials = eventsOf[watchdog.Denied](e); len(denials) != 3 || denials[2].Reason == "" {
			t.Errorf("after the permission went: %+v", denials)
		}
	})
}

func TestPublishComplaintDeniesNothing(t *testing.T) {
	simulate(t, nil, func(f *fakeServer, e *ear, _ *Bus) {
		f.last().say("-ERR 'Permissions Violation for Publish to \"agent.ping\"'\r\n")
		time.Sleep(3 * time.Second)
		if n := len(eventsOf[watchdog.Denied](e)); n > 0 {
			t.Error("a complaint about publishing was taken for a denied subscription")
		}
	})
}

func TestBatchesAreFullOrEarly(t *testing.T) {
	simulate(t, nil, func(f *fakeServer, e *ear, b *Bus) {
		f.send("one", 0, 1)
		synctest.Wait()
		if e.heard() != 0 {
			t.Error("the beat did not wait for others")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if e.heard() != 1 {
			t.Error("a lone beat waits longer than a millisecond")
		}
		f.send("many", 0, 600)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := fmt.Sprint(e.batches); got != "[1 256 256 88]" {
			t.Errorf("batches of %s", got)
		}
		for i, beat := range e.beats[1:] {
			if string(beat.ID) != "many" || beat.Uptime != int64(i) || beat.Source != watchdog.SourceNATS || beat.Received == 0 {
				t.Fatalf("beat %d is %+v", i, beat)
			}
		}
		if b.Beats() != 601 {
			t.Errorf("%d beats counted", b.Beats())
		}
	})
}

// fault 15
func TestWhatWeAreTooSlowForIsCounted(t *testing.T) {
	const sent = 5000
	var gate chan struct{}
	slow := func(_ *fakeServer, _ *Options, b *Bus) {
		if b != nil {
			b.pending, gate = 100, holdUp(b)
		}
	}
	simulate(t, slow, func(f *fakeServer, e *ear, _ *Bus) {
		f.send("fast", 0, sent)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if e.dropped() == 0 {
			t.Error("nothing is told as long as the trouble lasts")
		}
		close(gate)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := uint64(e.heard()) + e.dropped(); got != sent {
			t.Errorf("%d heard and %d dropped of %d", e.heard(), e.dropped(), sent)
		}
		if n := len(eventsOf[watchdog.Dropped](e)); n > 5 {
			t.Errorf("%d events for one spell", n)
		}
	})
}

// fault 15
func TestWhatALostConnectionTakesAlongIsCounted(t *testing.T) {
	var gate chan struct{}
	slow := func(_ *fakeServer, _ *Options, b *Bus) {
		if b != nil {
			gate = holdUp(b)
		}
	}
	simulate(t, slow, func(f *fakeServer, e *ear, b *Bus) {
		f.send("backlog", 0, 2000)
		synctest.Wait()
		f.last().hangUp()
		time.Sleep(100 * time.Millisecond)
		close(gate)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := uint64(e.heard()) + e.dropped(); got != 2000 || e.dropped() == 0 {
			t.Errorf("%d heard and %d dropped of 2000", e.heard(), e.dropped())
		}
		if b.Link().Phase != watchdog.LinkUp {
			t.Error("the link did not come back")
		}
	})
}

func TestReadOnlyBusSendsNothing(t *testing.T) {
	readOnly := func(_ *fakeServer, o *Options, _ *Bus) { o.ReadOnly = true }
	simulate(t, readOnly, func(f *fakeServer, _ *ear, b *Bus) {
		if err := b.Ping(); err != ErrReadOnly {
			t.Errorf("Ping says %v", err)
		}
		time.Sleep(2 * time.Minute)
		if n := f.sent("PUB") + f.sent("HPUB"); n > 0 {
			t.Errorf("%d messages were published", n)
		}
	})
	simulate(t, nil, func(f *fakeServer, _ *ear, b *Bus) {
		if err := b.Ping(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if n := f.sent("PUB agent.ping"); n != 1 {
			t.Errorf("%d pings were published, want 1", n)
		}
	})
}

func TestMembersOfAClusterAreTried(t *testing.T) {
	cluster := func(f *fakeServer, o *Options, _ *Bus) {
		f.info = `,"connect_urls":["10.0.0.2:4222","10.0.0.3:4222"]`
		o.URLs = []string{"seed.example"}
	}
	simulate(t, cluster, func(f *fakeServer, _ *ear, _ *Bus) {
		f.set(func(f *fakeServer) { f.refuse = syscall.ECONNREFUSED })
		f.last().hangUp()
		time.Sleep(20 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		tried := strings.Join(f.hosts, " ")
		for _, host := range []string{"seed.example:4222", "10.0.0.2:4222", "10.0.0.3:4222"} {
			if strings.Count(tried, host) < 2 {
				t.Errorf("%s was tried too rarely: %s", host, tried)
			}
		}
	})
}

func TestWarningWithoutTLS(t *testing.T) {
	far := func(f *fakeServer, _ *Options, _ *Bus) {
		f.remote = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4222}
	}
	simulate(t, far, func(_ *fakeServer, _ *ear, b *Bus) {
		if l := b.Link(); l.Phase != watchdog.LinkUp || l.Warning != "no TLS" {
			t.Errorf("the link is told as %+v", l)
		}
	})
}

func TestCloseWithoutRunAndTwice(t *testing.T) {
	b, err := Open(Options{}, &ear{}, fixedClock{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	b.Close()
	if err := b.Run(t.Context()); err != nil {
		t.Errorf("Run after Close: %v", err)
	}
	if err := b.Run(t.Context()); err == nil {
		t.Error("a second Run is allowed")
	}
}
