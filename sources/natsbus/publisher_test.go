//go:build unix

package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func startPublisher(t *testing.T, o natsbus.Options) *natsbus.Publisher {
	t.Helper()
	var log sourcetest.Log
	p, err := natsbus.OpenPublisher(o, clock.System(), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, p, &log)
	return p
}

func beat(id string, uptime int) []byte {
	return fmt.Appendf(nil, `{"session_id":%q,"state":"running","uptime_secs":%d,"credits_remaining":null,"current_task":null}`, id, uptime)
}

func producerOptions(address string) natsbus.Options {
	return natsbus.Options{URLs: []string{address}, User: "producer", Password: "p"}
}

func connected(t *testing.T, p *natsbus.Publisher) {
	t.Helper()
	if !sourcetest.Eventually(60*time.Second, func() bool { return p.Link().Phase == watchdog.LinkUp }) {
		t.Fatalf("not connected: %+v", p.Link())
	}
}

func TestPublisherDeliversNowAndBySlot(t *testing.T) {
	server := serveEmbedded(t)
	rec := &sourcetest.Recorder{}
	t.Cleanup(openBus(t, server.Address(), sourcetest.Reader, rec))
	rec.Wait(t, 60*time.Second, "the reader is up", func() bool { return rec.Phase() == watchdog.LinkUp })

	p := startPublisher(t, producerOptions(server.Address()))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := p.PublishNow(ctx, "now", beat("now", 1)); err != nil {
		t.Fatal(err)
	}
	rec.Wait(t, 60*time.Second, "the beat that was confirmed", func() bool { return rec.Heard() == 1 })
	payload := beat("slot", 7)
	if err := p.PublishBeat("slot", payload); err != nil {
		t.Fatal(err)
	}
	copy(payload, "overwritten by the caller")
	rec.Wait(t, 60*time.Second, "the beat of the slot", func() bool { return rec.Heard() == 2 })
	if b := rec.AllBeats()[1]; string(b.ID) != "slot" || b.Uptime != 7 {
		t.Errorf("got %+v", b)
	}
	if n := p.Counts(); n.Sent != 2 || n.Discarded != 0 {
		t.Errorf("counted %+v", n)
	}
}

// fault 16
func TestPublisherRevivesNothingOld(t *testing.T) {
	t.Parallel()
	server := serveEmbedded(t)
	p := startPublisher(t, producerOptions(server.Address()))
	connected(t, p)
	server.Kill(t)
	if !sourcetest.Eventually(60*time.Second, func() bool { return p.Link().Phase == watchdog.LinkDown }) {
		t.Fatal("the publisher does not see that the server is gone")
	}
	for i := range 1000 {
		if err := p.PublishBeat("old", beat("old", i)); err != nil {
			t.Fatal(err)
		}
	}
	p.Ping()
	server.Restart(t)
	rec := &sourcetest.Recorder{}
	t.Cleanup(openBus(t, server.Address(), sourcetest.Reader, rec))
	rec.Wait(t, 60*time.Second, "the reader is up", func() bool { return rec.Phase() == watchdog.LinkUp })
	connected(t, p)
	if err := p.PublishNow(t.Context(), "new", beat("new", 1)); err != nil {
		t.Fatal(err)
	}
	rec.Wait(t, 60*time.Second, "the new beat", func() bool { return rec.Heard() > 0 })
	if b := rec.AllBeats()[0]; string(b.ID) != "new" {
		t.Errorf("%s arrived after the server came back", b.ID)
	}
	if n := p.Counts(); n.Discarded != 1000 {
		t.Errorf("counted %+v, want 1000 discarded", n)
	}
}

func TestPublisherNeverBlocksItsCallers(t *testing.T) {
	server := serveReal(t, sourcetest.RealBinary(t, "nats-server"))
	p := startPublisher(t, producerOptions(server.Address()))
	connected(t, p)
	server.Pause(t) // its socket fills, and nobody reads
	payload := beat("s", 1)
	payload = append(payload, strings.Repeat(" ", 4000)...)
	worst := time.Duration(0)
	for i := range 20_000 { // 80 MB
		began := time.Now()
		if err := p.PublishBeat(watchdog.ID(fmt.Sprintf("s%d", i%100)), payload); err != nil {
			t.Fatal(err)
		}
		worst = max(worst, time.Since(began))
	}
	if worst > time.Second {
		t.Errorf("one PublishBeat took %v", worst)
	}
	server.Resume(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if !sourcetest.Eventually(60*time.Second, func() bool { return p.PublishNow(ctx, "after", beat("after", 1)) == nil }) {
		t.Error("nothing is published after SIGCONT")
	}
	t.Logf("worst PublishBeat %v, %+v", worst, p.Counts())
}

func TestPublishNowSaysWhatStoodInTheWay(t *testing.T) {
	t.Parallel()
	server := serveEmbedded(t)
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	reader := natsbus.Options{URLs: []string{server.Address()}, User: "reader", Password: "r"}
	err := startPublisher(t, reader).PublishNow(soon(), "x", beat("x", 1))
	if err == nil || !strings.Contains(err.Error(), "ask its operator for the permission") {
		t.Errorf("without permission: %v", err)
	}
	wrong := natsbus.Options{URLs: []string{server.Address()}, User: "reader", Password: sourcetest.WrongSecret}
	err = startPublisher(t, wrong).PublishNow(soon(), "x", beat("x", 1))
	if err == nil || !strings.Contains(err.Error(), "authentication refused") || !strings.Contains(err.Error(), "nothing was sent") {
		t.Errorf("with a wrong password: %v", err)
	}
	away := natsbus.Options{URLs: []string{fmt.Sprintf("127.0.0.1:%d", sourcetest.FreePort(t))}}
	err = startPublisher(t, away).PingNow(soon())
	if err == nil || !strings.Contains(err.Error(), "refused; nothing was sent") {
		t.Errorf("without a server: %v", err)
	}
	for _, id := range []watchdog.ID{"", "a b", "a.>", "*", "a..b", "a\r\nPUB x 0"} {
		if err := startPublisher(t, away).PublishBeat(id, nil); err == nil {
			t.Errorf("the id %q is taken", id)
		}
	}
	if _, err := natsbus.OpenPublisher(natsbus.Options{ReadOnly: true}, clock.System(), nil); !errors.Is(err, natsbus.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}

func TestPingReachesEveryGuard(t *testing.T) {
	server := serveEmbedded(t)
	guard := &producer{address: server.Address(), user: "producer", password: "p"}
	t.Cleanup(guard.close)
	guard.subscribe(t, "agent.ping")
	p := startPublisher(t, producerOptions(server.Address()))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := p.PingNow(ctx); err != nil {
		t.Fatal(err)
	}
	guard.expect(t, "MSG agent.ping")
	p.Ping()
	guard.expect(t, "MSG agent.ping")
}

func TestPublisherLeavesNothingBehind(t *testing.T) {
	server := serveEmbedded(t)
	server.Send(t, "x", beat("x", 1))
	before := goleak.IgnoreCurrent()
	p, err := natsbus.OpenPublisher(producerOptions(server.Address()), clock.System(), new(sourcetest.Log).Logger())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	connected(t, p)
	p.Close()
	<-ended
	goleak.VerifyNone(t, before)
}

func TestSubscribeYieldsBeatsAndTrouble(t *testing.T) {
	server := serveEmbedded(t)
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o := natsbus.Options{URLs: []string{server.Address()}, User: "reader", Password: "r"}
	stop := make(chan struct{})
	fed := make(chan struct{})
	go func() { // until the loop below has heard enough
		defer close(fed)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			_ = server.try("agent.liveness.other", beat("other", i))
			_ = server.try("agent.liveness.mine", beat("mine", i))
			_ = server.try("agent.liveness.mine", []byte("{}"))
		}
	}()
	beats, refusals := 0, 0
	for b, err := range natsbus.Subscribe(ctx, o, "mine") {
		var trouble *natsbus.Trouble
		switch {
		case errors.As(err, &trouble):
			if ev, ok := trouble.Event.(watchdog.Refused); ok && ev.LastID == "mine" && strings.Contains(err.Error(), "no beats") {
				refusals++
			}
		case err != nil:
			t.Fatal(err)
		case string(b.ID) != "mine":
			t.Fatalf("a beat of %s came", b.ID)
		default:
			beats++
		}
		if beats >= 3 && refusals >= 1 {
			break
		}
	}
	close(stop)
	<-fed
	if ctx.Err() != nil {
		t.Fatalf("%d beats and %d refusals in 30 s", beats, refusals)
	}
	server.producer.close()
	goleak.VerifyNone(t, before)
}

func TestSubscribeSurvivesAServerThatIsAway(t *testing.T) {
	t.Parallel()
	server := serveEmbedded(t)
	server.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o := natsbus.Options{URLs: []string{server.Address()}, User: "reader", Password: "r"}
	var told []string
	for b, err := range natsbus.Subscribe(ctx, o, "") {
		if err == nil {
			if string(b.ID) != "back" {
				t.Errorf("beat of %q", b.ID)
			}
			break
		}
		told = append(told, err.Error())
		switch {
		case len(told) == 1:
			server.Restart(t)
		case strings.Contains(err.Error(), "connected again"):
			server.Send(t, "back", beat("back", 1))
		}
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, "refused; trying again") || !strings.Contains(all, "connected again") {
		t.Errorf("told:\n%s", all)
	}
	for _, err := range natsbus.Subscribe(ctx, o, "a.*") {
		if err == nil || !strings.Contains(err.Error(), "cannot be a session id") {
			t.Errorf("a wildcard: %v", err)
		}
	}
	for _, err := range natsbus.Subscribe(ctx, natsbus.Options{CredsFile: "/nowhere"}, "") {
		if err == nil || !strings.Contains(err.Error(), "nats.creds_file") {
			t.Errorf("bad options: %v", err)
		}
	}
}
