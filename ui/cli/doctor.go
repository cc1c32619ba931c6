package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/ownfile"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/ui/terminal"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// findings is what doctor found, in the order in which it looked.
type findings []wire.Finding

func (f *findings) add(check string, ok bool, format string, args ...any) {
	*f = append(*f, wire.Finding{Check: check, OK: ok, Detail: clean(fmt.Sprintf(format, args...))})
}

// bad counts what is not well.
func (f findings) bad() int {
	n := 0
	for _, one := range f {
		if !one.OK {
			n++
		}
	}
	return n
}

func (a *app) doctorCommand() *cobra.Command {
	var f flags
	var wait time.Duration
	var id string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong: settings, servers, permissions, terminal",
		Long: `Look at the configuration, the servers, the clocks, the terminal and the files of
this program, and say what is wrong and what to do; also at where ends are decided
(authority, streams), whether the reaper is alive, the latest releases of the serve
that runs here, and with --session the registry's hash of one session. It changes
nothing; on the bus it publishes agent.ping, unless --read-only. Exit code 1 if
anything is wrong.`,
		Example: "  sessionwatch doctor --session indexer",
		Args:    cobra.NoArgs,
		GroupID: groupSetup,
		RunE: func(c *cobra.Command, _ []string) error {
			if wait < 0 {
				return &usageError{fmt.Errorf("--wait %v is below 0", wait)}
			}
			if text := config.CheckID(id); id != "" && text != "" {
				return &usageError{fmt.Errorf("--session: %s", text)}
			}
			return a.doctor(c, &f, wait, watchdog.ID(id))
		},
	}
	a.addSources(c, &f)
	a.addServe(c, &f)
	f.addTheme(c)
	f.addJSON(c)
	c.Flags().DurationVar(&wait, "wait", 3*time.Second, "how long to look at the servers")
	c.Flags().StringVar(&id, "session", "", "tell what the registry knows of the session `ID`")
	return c
}

func (a *app) doctor(c *cobra.Command, f *flags, wait time.Duration, id watchdog.ID) error {
	var found findings
	settings, err := a.allSettings(c, f)
	if err != nil {
		for _, one := range faultsOf(err) {
			found.add("config", false, "%s", one)
		}
	} else {
		a.examineSettings(&found, settings, f.json)
		if err := a.examineBuses(c, f, &found, settings, wait, id); err != nil {
			return err
		}
		examineFiles(&found, settings)
	}
	examineClocks(&found, clock.System().Now())
	a.examineTerminal(&found, settings)
	if f.json {
		err = wire.EncodeDoctor(a.env.Stdout, found)
	} else {
		err = found.print(a.env.Stdout)
	}
	switch {
	case err != nil:
		return a.say(err)
	case settings == nil:
		return exitWith(exitMisconfig)
	case found.bad() > 0:
		return exitWith(exitBadNews)
	}
	return nil
}

func (f findings) print(w io.Writer) error {
	t := newTable()
	for _, one := range f {
		mark := "ok"
		if !one.OK {
			mark = "BAD"
		}
		t.add(mark, one.Check, one.Detail)
	}
	if err := t.print(w, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, %d wrong\n", count(len(f), "check"), f.bad())
	return err
}

// examineSettings tells each value with its origin: all of them for machines,
// those that somebody set for people.
func (a *app) examineSettings(found *findings, settings *config.Config, all bool) {
	from := "no file; the defaults"
	if settings.Path != "" {
		from = settings.Path
	}
	found.add("config", true, "%s", from)
	for _, v := range settings.Values() {
		always := v.Key == "nats.url" || v.Key == "redis.url"
		if all || always || v.Origin != originDefault {
			found.add("config "+v.Key, true, "%s (%s)", v.Value, v.Origin)
		}
	}
	for _, text := range settings.Warnings {
		found.add("config", false, "%s", text)
	}
	if d := settings.Watchdog.LivenessInterval; settings.Watchdog.Enabled && d < time.Second {
		found.add("config watchdog.liveness_interval", false, "%v is under 1s: a short stop of the loop counts as a wedge; use 1s x 3, 5s x 3 or 10s x 6", d)
	}
}

// examineBuses looks at the servers, and at what stands there beside beats.
func (a *app) examineBuses(c *cobra.Command, f *flags, found *findings, settings *config.Config, wait time.Duration, id watchdog.ID) error {
	stores := lookAtStores(found, settings) // it connects while the servers are looked at
	if stores != nil {
		defer stores.close()
	}
	if err := a.examineServers(found, settings, wait); err != nil {
		return err
	}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	if stores != nil {
		stores.examineLedger(ctx, found)
		stores.examineReaper(ctx, found, id)
	}
	a.examineServe(ctx, c, found, settings, f)
	return nil
}

func (a *app) examineServers(found *findings, settings *config.Config, wait time.Duration) error {
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		found.add("log file", false, "%v", err)
		log, closeLog = discard(), io.NopCloser(nil)
	}
	defer closeLog.Close()
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	watching, err := newObserver(settings, observerOptions{clock: clock.System(), log: log, ping: true}).start()
	if err != nil {
		found.add("servers", false, "%v", err)
		return nil
	}
	w, err := watching.collect(ctx, wait, watchdog.Ask{})
	if err = errors.Join(err, watching.stop()); err != nil {
		return err
	}
	if len(w.Links) == 0 {
		found.add("servers", false, "none is configured; give --nats or --redis")
	}
	for _, l := range w.Links {
		examineLink(found, l)
	}
	found.add("sessions", true, "%s", summary(w))
	if w.Self.Score > 0 {
		found.add("this machine", false, "our own loop was late; deadlines are stretched %d times", 1+w.Self.Score)
	}
	return nil
}

// examineLink looks at one source: reachable, encrypted, permitted, understood.
func examineLink(found *findings, l watchdog.Link) {
	name := l.Source.Title()
	if !l.Sighted {
		found.add(name, false, "not seen: %s", blindness(l))
	} else {
		found.add(name, true, "%s (%s), answers in %s", l.Address, l.Origin, max(l.RTT, 0).Round(100*time.Microsecond))
	}
	for text := range strings.SplitSeq(l.Warning, "; ") {
		if text != "" {
			found.add(name, false, "%s", text)
		}
	}
	switch {
	case l.Sighted && l.Source == watchdog.SourceNATS:
		found.add(name, true, "may subscribe: %s", orNone(l.Detail))
	case l.Sighted:
		found.add(name, true, "may read: %s", count(l.Keys, "liveness key"))
	}
	for kind, n := range l.Refused {
		if n == 0 {
			continue
		}
		last := "" // only the newest refusal of all kinds is known by its id
		if l.LastRefusal == watchdog.Refusal(kind) {
			last = behind(", last on ", l.LastRefusalID)
		}
		found.add(name, false, "%s refused as no beat: %s%s", count(int(n), "message"), watchdog.Refusal(kind).String(), last)
	}
	if l.Fields > 0 {
		found.add(name, false, "%s of beats dropped because their value was wrong", count(int(l.Fields), "optional field"))
	}
	if l.Dropped > 0 {
		found.add(name, false, "%s lost on our side: this machine is too slow for what arrives", count(int(l.Dropped), "message"))
	}
}

// examineClocks looks whether the clocks can be what they say.
func examineClocks(found *findings, now watchdog.Instant) {
	wall := time.Unix(0, now.Wall).UTC()
	if wall.Year() < 2026 {
		found.add("clocks", false, "the wall clock says %s; set it: times that people read are wrong (no verdict rests on it)", wall.Format(time.RFC3339))
		return
	}
	suspend := "a suspend of this machine is noticed"
	if now.Boot == now.Mono {
		suspend = "a suspend of this machine is seen as lateness only: there is no clock that goes on meanwhile"
	}
	found.add("clocks", true, "wall %s; %s", wall.Format(time.RFC3339), suspend)
}

// examineTerminal tells what the screen would find. Settings are nil if they are wrong.
func (a *app) examineTerminal(found *findings, settings *config.Config) {
	if !a.env.StdoutTTY {
		found.add("terminal", true, "none: commands print plain text")
		return
	}
	caps := terminal.Probe(a.env.Environ)
	name := a.env.getenv("TERM")
	if name == "" {
		found.add("terminal", false, "TERM is not set; set it, for example to xterm-256color")
	}
	found.add("terminal", true, "TERM=%s, %s colours, tmux %s", orNone(name), caps.Profile, yesNo(caps.Tmux))
	switch {
	case caps.ASCII:
		found.add("terminal", true, "symbols are drawn in ASCII: %s", orNone(caps.Why))
	case settings != nil && settings.UI.ASCII:
		found.add("terminal", true, "symbols are drawn in ASCII: ui.ascii is set")
	default:
		found.add("terminal", true, "the symbols are ▲ ✗ ● ○ ✓ ─ │; if they look wrong here, --ascii or ui.ascii: true draws others")
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// examineFiles looks at what this program keeps. What is not there yet is fine.
func examineFiles(found *findings, settings *config.Config) {
	if dir := settings.DataDir; dir == "" {
		found.add("data directory", false, "none: no home directory is known; set data_dir")
	} else if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		found.add("data directory", true, "%s is not there yet", dir)
	} else if err != nil {
		found.add("data directory", false, "%v", err)
	} else if err := judgeDirectory(dir, info); err != nil {
		found.add("data directory", false, "%v", err)
	} else {
		found.add("data directory", true, "%s", dir)
	}
	if path := settings.LogFile; path != "" {
		if err := checkPrivate(path); err != nil {
			found.add("log file", false, "%v", err)
		} else {
			found.add("log file", true, "%s", filepath.Clean(path))
		}
	}
}

func judgeDirectory(dir string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory; set data_dir to one", dir)
	case !ownfile.Ours(info):
		return fmt.Errorf("%q belongs to another user; set data_dir to a directory of your own", dir)
	case info.Mode().Perm()&0o077 != 0 && ownfile.PermissionsMatter:
		return fmt.Errorf("%q is open to others (%v); run chmod 700 on it", dir, info.Mode().Perm())
	}
	return nil
}
