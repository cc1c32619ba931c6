package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// askWithin bounds one question of the doctor to a store or a serve.
const askWithin = 3 * time.Second

// storesLook looks at what stands on the buses beside beats: the ledger, its
// marker, the registry. It reads, and writes nothing.
type storesLook struct{ *ledgerStores }

// lookAtStores begins to connect; nil if that cannot be done, which was found.
func lookAtStores(found *findings, settings *config.Config) *storesLook {
	seal, err := sealOf(settings)
	if err != nil {
		found.add("ledger", false, "%v", err)
		return nil
	}
	l, err := openLedgerStores(settings, seal, settlingOptions{clock: clock.System(), log: discard(), spawn: plainly}, true)
	if err != nil {
		found.add("ledger", false, "%v", err)
		return nil
	}
	l.connect()
	return &storesLook{l}
}

// examineLedger looks where ends are decided, and whether that is as it must be.
// A bus that is away was found before.
func (l *storesLook) examineLedger(ctx context.Context, found *findings) {
	names := map[watchdog.Authority]string{}
	for _, st := range l.all() {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		place := "ledger on " + st.MarkerName()
		named, is, err := st.ReadAuthority(ctx)
		switch {
		case errors.Is(err, natsbus.ErrNoJetStream):
			found.add(place, true, "it can hold none: %v", err)
		case err != nil && !st.up(ctx):
		case err != nil:
			found.add(place, false, "the authority cannot be read: %v", err)
		case !is:
			found.add(place, true, "no authority is named: nothing was ever settled")
		default:
			names[named] = st.MarkerName()
			found.add(place, true, "the authority is %s", named)
			l.examineAuthority(ctx, found, st, named)
		}
		cancel()
	}
	if len(names) > 1 {
		found.add("ledger", false, "the buses name different authorities, so nothing is settled: connect the buses of one cluster, or see the README on restoring one")
	}
}

// examineAuthority looks at the streams that decide. Whether a Redis decides can
// only be proved by writing, which is left to whoever settles.
func (l *storesLook) examineAuthority(ctx context.Context, found *findings, st *store, named watchdog.Authority) {
	if st != l.nats || named.Name != watchdog.AuthorityJetStream {
		return
	}
	const what = "ledger streams"
	if err := st.Check(ctx); err != nil {
		found.add(what, false, "%v", err)
		return
	}
	found.add(what, true, "as they must be")
	if w, ok := st.Ledger.(interface{ Warning() string }); ok && w.Warning() != "" {
		found.add(what, false, "%s", w.Warning())
	}
}

// examineReaper looks whether somebody reaps, and at the hash of one session.
func (l *storesLook) examineReaper(ctx context.Context, found *findings, id watchdog.ID) {
	if l.conn == nil {
		if id != "" {
			found.add("session "+string(id), false, "its hash stands in Redis, and none is configured; give --redis")
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if !l.redis.up(ctx) { // which was found before
		if id != "" {
			found.add("session "+string(id), false, "its hash stands in Redis, which is not seen")
		}
		return
	}
	registry, every := l.conn.Registry(), l.settings.Registry.ReapInterval
	at, ran, err := registry.LastRun(ctx)
	switch {
	case err != nil:
		found.add("reaper", false, "reaper:last_run cannot be read: %v", err)
	case !ran:
		found.add("reaper", true, "it never ran on this Redis: no serve keeps a registry here, or its first round (every %s) is still to come", spell(every))
	default:
		judgeReaper(found, "reaper", time.Since(at), every)
	}
	if id != "" {
		examineHash(ctx, found, registry, id)
	}
}

// reaperLate is how old the last round may be.
func reaperLate(every time.Duration) time.Duration { return 2*every + 10*time.Second }

func judgeReaper(found *findings, name string, age, every time.Duration) {
	if age > reaperLate(every) {
		found.add(name, false, "its last run was %s ago and should be every %s: nobody who stops beating is reaped; look whether the serve runs and reaches Redis", spell(age), spell(every))
		return
	}
	found.add(name, true, "last run %s ago, every %s", spell(max(age, 0)), spell(every))
}

// examineHash tells what the registry knows of a session.
func examineHash(ctx context.Context, found *findings, registry *redisstore.Registry, id watchdog.ID) {
	name := "session " + string(id)
	h, is, err := registry.Hash(ctx, id)
	switch {
	case err != nil:
		found.add(name, false, "its hash cannot be read: %v", err)
		return
	case !is:
		found.add(name, false, "there is no hash session:%s: it never posted a heartbeat, or ended by its own word", id)
		return
	}
	age := time.Since(h.LastSeen)
	seen := "last_seen " + spell(age) + " ago"
	if h.LastSeen.UnixMilli() == 0 || h.LastSeen.IsZero() {
		seen = "last_seen 0: an operator expired it"
	}
	due := h.Status == "alive" && age > h.TTL+reaperLate(0)
	text := fmt.Sprintf("status %s, %s, ttl %s%s", h.Status, seen, spell(h.TTL), behind(", agent ", h.AgentID))
	if due {
		text += "; it is due to be reaped"
	}
	found.add(name, !due, "%s", text)
}

// examineServe looks at the serve of this machine, or the one that was named.
func (a *app) examineServe(ctx context.Context, c *cobra.Command, found *findings, settings *config.Config, f *flags) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	client, err := a.serveOf(ctx, c, settings, f)
	if err != nil {
		found.add("serve", false, "%v", err)
		return
	}
	if client == nil {
		found.add("serve", true, "none runs here: nobody on this machine settles, reaps or supervises")
		return
	}
	defer client.Close()
	about, err := client.About(ctx)
	if err != nil {
		found.add("serve", false, "%v", err)
		return
	}
	found.add("serve", true, "%s", about.Sweeper+behind(", version ", about.Version)+behind(", pid ", strconv.Itoa(about.PID)))
	w, err := client.Look(ctx, watchdog.Ask{})
	if err == nil {
		examineLedgerView(found, &w.Ledger)
		if n := w.RefusedCommands.Total(); n > 0 {
			found.add("serve", false, "%s not obeyed: %s; who sent them stands in its audit file", count(int(n), "command"), w.RefusedCommands)
		}
	}
	if registry, err := client.Registry(ctx); err == nil { // else it keeps none
		examineRegistry(found, &registry, settings.Registry.ReapInterval)
	}
}

// examineLedgerView tells whether a serve can settle.
func examineLedgerView(found *findings, v *watchdog.LedgerView) {
	switch {
	case !v.Known:
	case !v.Ready:
		found.add("serve ledger", false, "it settles nothing: %s", orNone(v.Reason))
	case v.Overdue:
		found.add("serve ledger", false, "the last good pass was %s ago%s", spell(v.LastPass), behind(": ", v.PassWhy))
	default:
		found.add("serve ledger", true, "decided by %s", v.Authority)
	}
	if v.Warning != "" {
		found.add("serve ledger", false, "%s", v.Warning)
	}
}

// releasesTold bounds how many releases the doctor tells.
const releasesTold = 5

// examineRegistry tells how the reaper of a serve does, and what became of what
// it released.
func examineRegistry(found *findings, r *serveview.Registry, every time.Duration) {
	switch {
	case r.Problem != "":
		found.add("serve reaper", false, "its last round failed: %s", r.Problem)
	case r.LastRun != nil:
		judgeReaper(found, "serve reaper", time.Since(*r.LastRun), every)
	}
	for _, one := range r.Releases[:min(len(r.Releases), releasesTold)] {
		text := fmt.Sprintf("%s: exit code %d, %s ago", one.SessionID, one.ExitCode, spell(time.Since(one.At)))
		found.add("release", one.OK, "%s%s", text, behind(": ", one.Output))
	}
}
