//go:build unix

package sourcetest

import (
	"context"
	"crypto/ed25519"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// keyring makes a key and those who believe it.
func keyring(t testing.TB, id string) (wire.SigningKey, wire.PublicKeys) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return wire.SigningKey{ID: id, Private: private}, wire.PublicKeys{id: public}
}

// noted remembers what was refused.
type noted struct {
	mu  sync.Mutex
	got []watchdog.RefusedCommand
}

func (n *noted) note(r watchdog.RefusedCommand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, r)
}

func (n *noted) all() []watchdog.RefusedCommand {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]watchdog.RefusedCommand(nil), n.got...)
}

func refusesUntrusted(t *testing.T, h CommandHarness) {
	if h.Local {
		t.Skip("strangers cannot reach this way")
	}
	key, trusted := keyring(t, "ops1")
	forged, _ := keyring(t, "ops1")
	unknown, _ := keyring(t, "me")
	ours := func() string { return "ours" }
	b := h.Serve(t)
	for _, c := range []struct {
		name     string
		operator orders.Rules
		receiver orders.Rules
		fleet    string
		refused  string // a part of the sentence; empty: it is obeyed
		fault    watchdog.CommandFault
	}{
		{"anybody", orders.Rules{}, orders.Rules{}, "", "not signed by a configured key", watchdog.CommandUnsigned},
		{"unsigned", orders.Rules{}, orders.Rules{Trusted: trusted, TrustLoopback: true}, "", "it is not signed", watchdog.CommandUnsigned},
		{"forged", orders.Rules{Key: forged}, orders.Rules{Trusted: trusted}, "", "not that of the key", watchdog.CommandSignature},
		{"unknown", orders.Rules{Key: unknown}, orders.Rules{Trusted: trusted}, "", `key "me"`, watchdog.CommandSignature},
		{"fleet", orders.Rules{Key: key}, orders.Rules{Trusted: trusted, Fleet: ours}, "theirs", "another fleet", watchdog.CommandFleet},
		{"signed", orders.Rules{Key: key}, orders.Rules{Trusted: trusted, Fleet: ours}, "ours", "", 0},
		{"unfleeted", orders.Rules{Key: key}, orders.Rules{Trusted: trusted, Fleet: ours}, "", "", 0},
		{"loopback", orders.Rules{}, orders.Rules{TrustLoopback: true}, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "anybody" && h.Authenticated {
				c.refused = ""
			}
			operator, _ := b.Open(t, c.operator)
			var n noted
			c.receiver.Refused = n.note
			receiver, _ := b.Open(t, c.receiver)
			var d Desk
			d.Receive(t, receiver, watchdog.ID(c.name), OnlyStop(), Obey)
			cmd := CommandTo(watchdog.ID(c.name), "c1")
			cmd.Fleet = c.fleet
			a := h.carry(t, operator, cmd)
			if c.refused == "" {
				wantFate(t, a, watchdog.FateEffective)
				if got := n.all(); len(got) > 0 {
					t.Errorf("refused: %+v", got)
				}
				return
			}
			wantFate(t, a, watchdog.FateRefused)
			counts := receiver.Refused()
			if !strings.Contains(a.Detail, c.refused) || d.Handed("") > 0 || counts.Of(c.fault) == 0 || counts.Of(c.fault) != counts.Total() {
				t.Errorf("answered with %q, handed over %d times, counted as %v", a.Detail, d.Handed(""), counts)
			}
			if got := n.all(); len(got) == 0 || got[0].Fault != c.fault || got[0].Command != cmd || got[0].Session != cmd.Session || got[0].Way != receiver.WayName() || got[0].Why == "" {
				t.Errorf("told was %+v", got)
			}
		})
	}
}

func (h CommandHarness) rogue(t testing.TB) (CommandBus, CommandRogue) {
	t.Helper()
	b := h.Serve(t)
	r, ok := b.(CommandRogue)
	if !ok {
		t.Skip("strangers cannot reach this way")
	}
	return b, r
}

func sealed(t testing.TB, r orders.Rules, c watchdog.Command) []byte {
	t.Helper()
	envelope, err := r.Seal(c)
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

func refusesReplay(t *testing.T, h CommandHarness) {
	b, rogue := h.rogue(t)
	key, trusted := keyring(t, "ops1")
	operator, _ := b.Open(t, orders.Rules{Key: key})
	receiver, stop := b.Open(t, orders.Rules{Trusted: trusted})
	var d, e Desk
	stopReceiving := d.Receive(t, receiver, "a", OnlyStop(), Obey)
	cmd := CommandTo("a", "c1")
	wantFate(t, h.carry(t, operator, cmd), watchdog.FateEffective)
	replay := sealed(t, orders.Rules{Key: key}, cmd) // the very bytes: Ed25519 signs without chance
	// A bus may tell times in milliseconds, and what came in that of the result is none.
	time.Sleep(5 * time.Millisecond)
	rogue.PutCommand(t, "a", replay)
	if !Eventually(h.Patience, func() bool { n := receiver.Refused(); return n.Of(watchdog.CommandReplayed) == 1 }) {
		t.Errorf("counted were %v", receiver.Refused())
	}
	go stop()
	stopReceiving()
	stop()
	if !h.Keeps {
		return // a new process knows of it by its target alone
	}
	again, _ := b.Open(t, orders.Rules{Trusted: trusted})
	e.Receive(t, again, "a", OnlyStop(), Obey)
	rogue.PutCommand(t, "a", replay)
	if !Eventually(h.Patience, func() bool { n := again.Refused(); return n.Of(watchdog.CommandReplayed) == 1 }) {
		t.Errorf("after a restart, counted were %v", again.Refused())
	}
	wantFate(t, h.carry(t, operator, CommandTo("a", "c2")), watchdog.FateEffective)
	if d.Handed("c1") != 1 || e.Handed("c1") > 0 {
		t.Errorf("it was handed over %d times, and %d after a restart", d.Handed("c1"), e.Handed("c1"))
	}
}

func outlivesForgery(t *testing.T, h CommandHarness) {
	b, rogue := h.rogue(t)
	key, trusted := keyring(t, "ops1")
	operator, _ := b.Open(t, orders.Rules{Key: key})
	receiver, _ := b.Open(t, orders.Rules{Trusted: trusted})
	var d Desk
	d.Receive(t, receiver, "a", OnlyStop(), Obey)
	wantFate(t, h.carry(t, operator, CommandTo("a", "c0")), watchdog.FateEffective)
	forged := CommandTo("a", "c1")
	forged.Generation = 9
	rogue.PutCommand(t, "a", sealed(t, orders.Rules{}, forged))
	if !Eventually(h.Patience, func() bool { n := receiver.Refused(); return n.Of(watchdog.CommandUnsigned) == 1 }) {
		t.Errorf("counted were %v", receiver.Refused())
	}
	a := h.carry(t, operator, CommandTo("a", "c1"))
	wantFate(t, a, watchdog.FateEffective)
	if a.Generation != 2 || d.Handed("c1") != 1 {
		t.Errorf("the result is %+v, after %d deliveries", a, d.Handed("c1"))
	}
}

func passesUnreadable(t *testing.T, h CommandHarness) {
	b, rogue := h.rogue(t)
	c := h.open(t, b, "run")
	var d Desk
	d.Receive(t, c, "a", OnlyStop(), Obey)
	wantFate(t, h.carry(t, c, CommandTo("a", "c0")), watchdog.FateEffective)
	junk := [][]byte{nil, []byte("stop"), []byte(`{"payload":"{}"}`), []byte(`{"payload":7}`), []byte("\xff\xfe\x00"),
		[]byte(`{"payload":"` + strings.Repeat("x", 1<<15) + `"}`), sealed(t, orders.Rules{}, CommandTo("b", "c9"))}
	for _, j := range junk {
		rogue.PutCommand(t, "a", j)
	}
	wantFate(t, h.carry(t, c, CommandTo("a", "c1")), watchdog.FateEffective)
	n := c.Refused()
	if !Eventually(h.Patience, func() bool { n = c.Refused(); return n.Of(watchdog.CommandUnreadable) == uint64(len(junk)) }) || d.Handed("") != 2 {
		t.Errorf("counted were %v of %d; handed over %d", n, len(junk), d.Handed(""))
	}
}

func distrustsForgedResult(t *testing.T, h CommandHarness) {
	b, rogue := h.rogue(t)
	r := trusting("run")
	r.Lease = shortLease
	c, _ := b.Open(t, r)
	var d Desk
	d.Receive(t, c, "a", OnlyStop(), Obey)
	wantFate(t, h.carry(t, c, CommandTo("a", "c0")), watchdog.FateEffective)
	unfinished, err := wire.EncodeResult(watchdog.Answer{Command: "c2", Session: "a", Generation: 1, Fate: watchdog.FateAcknowledged, By: "mallory", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for id, stored := range map[string][]byte{"c1": []byte("done"), "c2": unfinished} {
		if !rogue.PutResult(t, "a", id, stored) {
			t.Skip("this way keeps no results")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if a, err := c.Carry(ctx, CommandTo("a", id), nil); err == nil {
			t.Errorf("the result of %s is %+v", id, a)
		}
		cancel()
		if d.Handed(id) > 0 {
			t.Errorf("%s was obeyed, and nobody could have told", id)
		}
	}
	wantFate(t, h.carry(t, c, CommandTo("a", "c3")), watchdog.FateEffective)
}
