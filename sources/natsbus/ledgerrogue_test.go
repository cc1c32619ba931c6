//go:build unix

package natsbus_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func lost(id watchdog.ID, g watchdog.Generation, nonce string) watchdog.Record {
	return watchdog.Record{ID: id, Generation: g, Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper, Writer: "test", Nonce: nonce, Reason: "3 beats missed",
		At: time.UnixMilli(1_790_000_000_123).UTC()}
}

func settled(t *testing.T, l watchdog.Ledger, r watchdog.Record) {
	t.Helper()
	if got, err := l.WriteOnce(within(t, 60*time.Second), r); err != nil || got.Nonce != r.Nonce {
		t.Fatalf("%s#%d was written as %q, and %q stands: %v", r.ID, r.Generation, r.Nonce, got.Nonce, err)
	}
}

func checked(t *testing.T, l watchdog.Ledger) {
	t.Helper()
	if err := l.Check(within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// refused waits until a check fails with a sentence that holds all words.
func refused(t *testing.T, l watchdog.Ledger, words ...string) {
	t.Helper()
	err := l.Check(within(t, 60*time.Second))
	if !errors.Is(err, watchdog.ErrAuthorityAway) {
		t.Fatalf("the check says %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in %q", w, err)
		}
	}
	if _, err := l.WriteOnce(within(t, 60*time.Second), lost("refused", 1, "n")); !errors.Is(err, watchdog.ErrAuthorityAway) || errors.Is(err, watchdog.ErrUnknown) {
		t.Errorf("after a check that failed a write says %v", err)
	}
}

// fault 48
func TestRogueClientOverwritesNothing(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	l, _ := k.Open(t)
	checked(t, l)
	settled(t, l, lost("kept", 1, "ours"))
	rec := follow(t, l)
	rec.Wait(t, 60*time.Second, "that the ledger has been told", caughtUp(rec, 0))
	nc, js := k.admin(t)
	forged, err := wire.EncodeRecord(lost("kept", 1, "forged"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := nc.Publish("agent.terminal.kept.1", forged); err != nil { // as any client can
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "agent.terminal.kept.1", []byte("gone")); err == nil {
			t.Error("a second message on a terminal subject was stored")
		}
	}
	s, err := js.Stream(t.Context(), wire.TerminalStream)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"purge": s.Purge(t.Context()), "delete a message": s.DeleteMsg(t.Context(), 2), "securely delete a message": s.SecureDeleteMsg(t.Context(), 2),
	} {
		if err == nil {
			t.Errorf("somebody could %s", name)
		}
	}
	checked(t, l)
	if r, found, err := l.Record(t.Context(), "kept", 1); !found || r.Nonce != "ours" {
		t.Errorf("the end became %+v, %v", r, err)
	}
	settled(t, l, lost("after", 1, "n"))
	rec.Wait(t, 60*time.Second, "an end after all this", func() bool {
		ends := sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0)
		return len(ends) > 0 && ends[len(ends)-1].ID == "after"
	})
	for _, ev := range sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0) {
		if ev.Foreign || ev.ID == "kept" && ev.Writer != "test" {
			t.Errorf("a message that was refused is told: %+v", ev)
		}
	}
}

// What stands on a terminal subject that names no generation ends nothing, and
// is counted and named.
func TestTerminalSubjectWithoutAGenerationIsCounted(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	l, _ := k.Open(t)
	checked(t, l)
	_, js := k.admin(t)
	subjects := []string{"agent.terminal.a.x", "agent.terminal.b.0", "agent.terminal.c.01", "agent.terminal.alone"}
	for _, s := range subjects[:2] {
		if _, err := js.Publish(t.Context(), s, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	rec := follow(t, l)
	rec.Wait(t, 60*time.Second, "that the ledger has been told", caughtUp(rec, 0))
	for _, s := range subjects[2:] {
		if _, err := js.Publish(t.Context(), s, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	rec.Wait(t, 60*time.Second, "each of them", func() bool {
		seen := map[string]uint64{}
		for _, ev := range sourcetest.EventsOf[watchdog.Refused](rec, 0) {
			seen[ev.LastID] += ev.Counts[watchdog.RefusedID]
		}
		for _, s := range subjects {
			if seen[s] != 1 {
				return false
			}
		}
		return len(seen) == len(subjects)
	})
	if ends := sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0); len(ends) > 0 {
		t.Errorf("they are told as ends: %+v", ends)
	}
}

func follow(t *testing.T, l watchdog.Ledger) *sourcetest.Recorder {
	t.Helper()
	rec := &sourcetest.Recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx, rec.Post) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Follow: %v", err)
		}
	})
	return rec
}

func caughtUp(rec *sourcetest.Recorder, since int) func() bool {
	return func() bool { return len(sourcetest.EventsOf[watchdog.FollowedUp](rec, since)) > 0 }
}

// fault 13
func TestChangedStreamsAreReported(t *testing.T) {
	t.Parallel()
	change := func(stream string, edit func(*jetstream.StreamConfig)) func(*testing.T, jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) {
			s, err := js.Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			c := s.CachedInfo().Config
			edit(&c)
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop := func(stream string) func(*testing.T, jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) {
			if err := js.DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name  string
		harm  func(*testing.T, jetstream.JetStream)
		words []string
	}{
		{"discards the old", change("SW_TERMINAL", func(c *jetstream.StreamConfig) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false }),
			[]string{"SW_TERMINAL was changed", "discard is old and must be new", "discard_new_per_subject is false", "nats stream edit SW_TERMINAL"}},
		{"lets go of the old", change("SW_TERMINAL", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), []string{"max_age is 1h0m0s and must be 0s"}},
		{"takes few", change("SW_TERMINAL", func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }), []string{"max_msgs is 10 and must be -1"}},
		{"takes several a subject", change("SW_TERMINAL", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }), []string{"max_msgs_per_subject is 2"}},
		{"takes other subjects", change("SW_TERMINAL", func(c *jetstream.StreamConfig) { c.Subjects = []string{"agent.terminal.a.*"} }), []string{"subjects is [agent.terminal.a.*]"}},
		{"answers nothing", change("SW_TERMINAL", func(c *jetstream.StreamConfig) { c.NoAck = true }), []string{"no_ack is true"}},
		{"heads that expire", change("KV_SW_HEADS", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), []string{"KV_SW_HEADS was changed", "max_age"}},
		{"is gone", drop("SW_TERMINAL"), []string{"SW_TERMINAL has vanished", "backup"}},
		{"has no heads", drop("KV_SW_HEADS"), []string{"KV_SW_HEADS has vanished"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := serveEmbeddedJetStream(t)
			l, _ := k.Open(t)
			checked(t, l)
			settled(t, l, lost("kept", 1, "n"))
			checked(t, l)
			if _, err := l.(watchdog.Marker).CreateAuthority(t.Context(), l.Authority()); err != nil {
				t.Fatal(err)
			}
			_, js := k.admin(t)
			c.harm(t, js)
			refused(t, l, c.words...)
			another, _ := k.Open(t) // one that never saw it better
			refused(t, another, c.words...)
			if _, err := js.Stream(t.Context(), "SW_TERMINAL"); c.name == "is gone" && err == nil {
				t.Error("it was made anew")
			}
		})
	}
}

// A stream whose records were let go, and whose configuration was then set back.
func TestEmptiedStreamIsReported(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	l, _ := k.Open(t)
	checked(t, l)
	settled(t, l, lost("kept", 1, "n"))
	_, js := k.admin(t)
	s, err := js.Stream(t.Context(), "SW_TERMINAL")
	if err != nil {
		t.Fatal(err)
	}
	before := s.CachedInfo().Config
	harmed := before
	harmed.MaxAge, harmed.Duplicates = 100*time.Millisecond, 100*time.Millisecond
	if _, err := js.UpdateStream(t.Context(), harmed); err != nil {
		t.Fatal(err)
	}
	if !sourcetest.Eventually(60*time.Second, func() bool { i, err := s.Info(t.Context()); return err == nil && i.State.Msgs == 0 }) {
		t.Fatal("nothing expires")
	}
	if _, err := js.UpdateStream(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	refused(t, l, "SW_TERMINAL was emptied", "of 2 records that were written 0 are left")
}

func TestStreamThatLetsGoIsNotOverwrittenByUs(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	l, _ := k.Open(t)
	checked(t, l)
	settled(t, l, lost("kept", 1, "first"))
	_, js := k.admin(t)
	s, err := js.Stream(t.Context(), "SW_TERMINAL")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got, err := l.WriteOnce(t.Context(), lost("kept", 1, "second")) // before the next check
	if err != nil || got.Nonce != "first" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAuthorityNamedElsewhereIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	for name, expect := range map[string]watchdog.Authority{
		"SW_TERMINAL has vanished": {Name: "jetstream", Identity: "2026-11-30T03:12:44Z"},
		"authority is redis":       {Name: "redis", Identity: "x"},
	} {
		k := serveEmbeddedJetStream(t)
		l, _ := openLedger(t, natsbus.Options{URLs: []string{k.address}}, natsbus.LedgerOptions{})
		l.Expect(expect)
		refused(t, l, name)
		_, js := k.admin(t)
		if _, err := js.Stream(t.Context(), "SW_TERMINAL"); err == nil {
			t.Error("it was made anew")
		}
	}
}

func TestLedgerOfAnotherIdentityIsRefused(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	l, _ := openLedger(t, natsbus.Options{URLs: []string{k.address}}, natsbus.LedgerOptions{})
	checked(t, l)
	l.Expect(l.Authority())
	checked(t, l)
	l.Expect(watchdog.Authority{Name: "jetstream", Identity: "2026-11-30T03:12:44Z"})
	refused(t, l, "the one that was used at 2026-11-30T03:12:44Z", "made anew")
}

func TestDurabilityIsWarnedOf(t *testing.T) {
	t.Parallel()
	ours, _ := openLedger(t, natsbus.Options{URLs: []string{serveEmbeddedJetStream(t).address}}, natsbus.LedgerOptions{})
	checked(t, ours)
	if w := ours.Warning(); w != "" {
		t.Errorf("our own server syncs always, and the warning is %q", w)
	}
	real, _ := openLedger(t, natsbus.Options{URLs: []string{serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server")).address}}, natsbus.LedgerOptions{})
	checked(t, real)
	if w := real.Warning(); !strings.Contains(w, "sync_interval: always") {
		t.Errorf("the warning of a server of which nothing is known is %q", w)
	}
}

func TestServerWithoutJetStream(t *testing.T) {
	t.Parallel()
	server := serveEmbedded(t)
	l, _ := openLedger(t, natsbus.Options{URLs: []string{server.Address()}, User: "producer", Password: "p"}, natsbus.LedgerOptions{})
	refused(t, l, "has no JetStream", "ledger: redis")
	if _, _, err := l.ReadAuthority(within(t, 60*time.Second)); !errors.Is(err, natsbus.ErrNoJetStream) {
		t.Errorf("the marker of a server without JetStream: %v", err)
	}
}

func TestStoreThatWasDeletedIsReported(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	l, _ := k.Open(t)
	checked(t, l)
	settled(t, l, lost("kept", 1, "n"))
	k.Kill(t)
	k.options.StoreDir = t.TempDir()
	k.Restart(t)
	sourcetest.Eventually(60*time.Second, func() bool {
		return strings.Contains(fmt.Sprint(l.Check(within(t, time.Second))), "vanished")
	})
	refused(t, l, "SW_TERMINAL has vanished")
}

func TestReadOnlyLedgerWritesNothing(t *testing.T) {
	t.Parallel()
	k := serveEmbeddedJetStream(t)
	reader, _ := openLedger(t, natsbus.Options{URLs: []string{k.address}, ReadOnly: true}, natsbus.LedgerOptions{})
	rec := follow(t, reader)
	rec.Wait(t, 60*time.Second, "that nothing stands", caughtUp(rec, 0))
	if err := reader.Check(within(t, 60*time.Second)); err == nil {
		t.Error("a ledger that is not there passes")
	}
	_, js := k.admin(t)
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("a read-only ledger created %s", name)
	}
	writer, _ := k.Open(t)
	checked(t, writer)
	settled(t, writer, lost("kept", 1, "n"))
	rec.Wait(t, 60*time.Second, "the end", func() bool { return len(sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0)) == 1 })
	checked(t, reader)
	for what, err := range map[string]error{
		"WriteOnce":       errorOf(reader.WriteOnce(t.Context(), lost("kept", 2, "n"))),
		"SwapHead":        errorOf(reader.SwapHead(t.Context(), watchdog.Head{ID: "kept", Generation: 2}, "")),
		"Told":            reader.Told(t.Context(), lost("kept", 1, "n")),
		"CreateAuthority": errorOf(reader.CreateAuthority(t.Context(), reader.Authority())),
	} {
		if !errors.Is(err, natsbus.ErrReadOnly) {
			t.Errorf("%s on a read-only bus: %v", what, err)
		}
	}
}

func TestSignedLedger(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	k := serveEmbeddedJetStream(t)
	seal := wire.Seal{Key: wire.SigningKey{ID: "ops1", Private: private}, Trusted: wire.PublicKeys{"ops1": public}}
	l, _ := openLedger(t, natsbus.Options{URLs: []string{k.address}}, natsbus.LedgerOptions{Seal: seal})
	checked(t, l)
	settled(t, l, lost("signed", 1, "n"))
	rec := follow(t, l)
	unsigned, err := wire.EncodeRecord(lost("unsigned", 1, "n"))
	if err != nil || !k.PutTerminal(t, "unsigned", 1, unsigned) {
		t.Fatalf("an unsigned record cannot be put there: %v", err)
	}
	if _, err := l.WriteOnce(t.Context(), lost("unsigned", 1, "m")); !errors.Is(err, watchdog.ErrForeignRecord) {
		t.Errorf("an unsigned record counts: %v", err)
	}
	rec.Wait(t, 60*time.Second, "one end that counts and one that is foreign", func() bool {
		ends := map[watchdog.ID]watchdog.TerminalSeen{}
		for _, ev := range sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0) {
			ends[ev.ID] = ev
		}
		return ends["signed"].Outcome == watchdog.OutcomeLost && !ends["signed"].Foreign && ends["unsigned"].Foreign
	})
}

// permissions are those that the README gives.
var permissions = sourcetest.ReadmeBlock("authorization {")

// TestPermissions proves the configuration that the README gives.
func TestPermissions(t *testing.T) {
	t.Parallel()
	conf := permissions
	for _, user := range []string{"agent", "viewer", "sweeper", "admin"} {
		conf = strings.Replace(conf, "$"+strings.ToUpper(user)+"_PASSWORD", "a", 1)
	}
	k := serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), conf)
	as := func(user string) natsbus.Options {
		return natsbus.Options{URLs: []string{k.address}, User: user, Password: "a", ReadOnly: user == "viewer"}
	}
	sweeper, _ := openLedger(t, as("sweeper"), natsbus.LedgerOptions{})
	checked(t, sweeper)
	settled(t, sweeper, lost("kept", 1, "ours"))
	if err := watchdog.NameAuthority(t.Context(), sweeper.Authority(), []watchdog.Marker{sweeper}); err != nil {
		t.Error(err)
	}
	if g, err := watchdog.Allocate(t.Context(), sweeper, watchdog.Claim{ID: "kept", New: true}); g != 1 || err != nil {
		t.Errorf("a number: %d, %v", g, err)
	}
	if left, err := sweeper.Outbox(t.Context(), 10); len(left) != 1 || err != nil {
		t.Errorf("the outbox: %+v, %v", left, err)
	}
	if err := sweeper.Told(t.Context(), lost("kept", 1, "ours")); err != nil {
		t.Error(err)
	}
	for _, user := range []string{"viewer", "sweeper"} {
		l, _ := openLedger(t, as(user), natsbus.LedgerOptions{})
		rec := follow(t, l)
		rec.Wait(t, 60*time.Second, "what stands, for "+user, caughtUp(rec, 0))
		if n := len(sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0)); n != 1 {
			t.Errorf("%s is told %d ends", user, n)
		}
		checked(t, l)
		if a, found, err := l.ReadAuthority(t.Context()); !found || a != sweeper.Authority() || err != nil {
			t.Errorf("%s reads the authority %+v, %v, %v", user, a, found, err)
		}
	}
	agent, _ := openLedger(t, as("agent"), natsbus.LedgerOptions{})
	if err := agent.Check(within(t, 60*time.Second)); !errors.Is(err, watchdog.ErrAuthorityAway) || !strings.Contains(err.Error(), "may not publish to $JS.API.STREAM") {
		t.Errorf("an agent that would settle is told %v", err)
	}
	for _, user := range []string{"agent", "viewer"} {
		nc, js := k.as(t, user)
		for _, subject := range []string{"agent.terminal.forged.1", "agent.command.kept", "$KV.SW_META.authority", wire.BucketSubject(wire.HeadsBucket, wire.BucketKey("kept"))} {
			if err := nc.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		forbidden(t, user, js)
	}
	_, js := k.as(t, "sweeper")
	forbidden(t, "sweeper", js)
	operator, _ := openCommands(t, as("sweeper"), orders.Rules{})
	kept := sourcetest.CarryOn(t, operator, sourcetest.CommandTo("kept", "c1"))
	if !sourcetest.Eventually(60*time.Second, func() bool { return kept.Heard(watchdog.FateRequested) }) {
		t.Error("a command is not kept")
	}
	supervisor, _ := openCommands(t, as("agent"), orders.Rules{})
	var d sourcetest.Desk
	d.Receive(t, supervisor, "kept", sourcetest.OnlyStop(), sourcetest.Obey)
	if a, err := kept.Result(t, 20*time.Second); err != nil || a.Fate != watchdog.FateEffective {
		t.Errorf("an agent's result is %+v, %v", a, err)
	}
	if a, err := supervisor.Carry(within(t, 60*time.Second), sourcetest.CommandTo("kept", "c2"), nil); err == nil {
		t.Errorf("an agent sent a command: %+v", a)
	}
	checked(t, sweeper)
	if _, found, err := sweeper.Record(t.Context(), "forged", 1); found || err != nil {
		t.Errorf("an agent ended a generation: %v", err)
	}
	if h, _, err := sweeper.Head(t.Context(), "kept"); h.Generation != 1 || err != nil {
		t.Errorf("an agent changed a head: %+v, %v", h, err)
	}
}

// forbidden tries what nobody but the operator may.
func forbidden(t *testing.T, user string, js jetstream.JetStream) {
	t.Helper()
	for _, stream := range []string{"SW_TERMINAL", "SW_COMMANDS", "SW_RESULTS", "KV_SW_HEADS", "KV_SW_META"} {
		for _, question := range []string{"DELETE", "PURGE", "UPDATE", "MSG.DELETE", "RESTORE"} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			if m, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM."+question+"."+stream, []byte(`{"seq":1}`)); err == nil {
				t.Errorf("%s may ask for %s of %s: %s", user, question, stream, m.Data)
			}
			cancel()
		}
	}
}

func TestFollowerWithoutAnyPermissionToAsk(t *testing.T) {
	t.Parallel()
	k := serveJetStreamWith(t, sourcetest.RealBinary(t, "nats-server"), `authorization { users = [
		{ user: admin, password: a }
		{ user: reader, password: a, permissions: { publish: { deny: ">" }, subscribe: ["agent.>", "$KV.SW_HEADS.>"] } } ] }`)
	writer, _ := openLedger(t, natsbus.Options{URLs: []string{k.address}, User: "admin", Password: "a"}, natsbus.LedgerOptions{})
	checked(t, writer)
	reader, _ := openLedger(t, natsbus.Options{URLs: []string{k.address}, User: "reader", Password: "a", ReadOnly: true}, natsbus.LedgerOptions{})
	rec := follow(t, reader)
	rec.Wait(t, 60*time.Second, "what is missing", func() bool {
		said := sourcetest.EventsOf[watchdog.LedgerChanged](rec, 0)
		return len(said) > 0 && !said[0].Ready && strings.Contains(said[0].Reason, "this NATS user may not")
	})
	settled(t, writer, lost("seen", 1, "n"))
	if _, err := writer.SwapHead(t.Context(), watchdog.Head{ID: "seen", Generation: 1, Ended: true}, ""); err != nil {
		t.Fatal(err)
	}
	rec.Wait(t, 60*time.Second, "an end and a head, as they are published", func() bool {
		return len(sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0)) == 1 && len(sourcetest.EventsOf[watchdog.HeadSeen](rec, 0)) == 1
	})
	if caughtUp(rec, 0)() {
		t.Error("a follower that may not read says that it has told all")
	}
}

// It asks for one message at a time and for many at once; how quickly that goes is
// for a machine of its own to say.
func TestFollowerReadsManyRecords(t *testing.T) {
	t.Parallel()
	records, limit := 2_000, 3*time.Minute
	if sourcetest.Soaking() {
		records, limit = 10_000, 30*time.Second
	}
	k := serveRealJetStream(t, sourcetest.RealBinary(t, "nats-server"))
	l, _ := k.Open(t)
	checked(t, l)
	_, js := k.admin(t)
	for i := range records {
		id := watchdog.ID(fmt.Sprintf("many-%d", i))
		r, err := wire.EncodeRecord(lost(id, 1, "n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishAsync(wire.TerminalSubject(id, 1), r); err != nil {
			t.Fatal(err)
		}
		h, err := wire.EncodeHead(watchdog.Head{ID: id, Generation: 1})
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 { // gaps: each is written twice
			for range 2 {
				if _, err := js.PublishAsync(wire.BucketSubject(wire.HeadsBucket, wire.BucketKey(id)), h); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(3 * time.Minute):
		t.Fatal("the server does not take the records")
	}
	began := time.Now()
	rec := follow(t, l)
	rec.Wait(t, limit, "all records", caughtUp(rec, 0))
	t.Logf("%d records and %d heads in %v", records, records/10, time.Since(began))
	seen := map[watchdog.ID]bool{}
	for _, ev := range sourcetest.EventsOf[watchdog.TerminalSeen](rec, 0) {
		seen[ev.ID] = true
	}
	heads := map[watchdog.ID]bool{}
	for _, ev := range sourcetest.EventsOf[watchdog.HeadSeen](rec, 0) {
		heads[ev.Head.ID] = true
	}
	if len(seen) != records || len(heads) != records/10 {
		t.Errorf("%d ends and %d heads were told", len(seen), len(heads))
	}
}
