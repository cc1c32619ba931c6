package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// runFlags are what `run` may be told of its session.
type runFlags struct {
	flags
	id, restart, stallAction string
	stall                    time.Duration
	grace                    time.Duration
	pty, plain               bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG]...",
		Short: "Run a command as a supervised session",
		Long: `Run any command, unchanged, as a session: its output is activity, a stall is seen
and dumped, and it is started again as --restart says. Its beats go to NATS and
Redis, where any screen sees it. Exit code 75 asks for a restart, 78 forbids it.

With a terminal it opens the screen; without one, or with --plain, the output
passes through and the exit code is the command's last one (128 + n for a signal,
127 for a command that is not there, 126 for one that cannot be run).
The command gets nothing on its standard input. A session that the configuration
names (sessions) keeps what stands there.`,
		Example: `  sessionwatch run -- python3 agent.py
  sessionwatch run --id indexer --restart always --stall 5m -- ./index --all`,
		Args:    cobra.ArbitraryArgs,
		GroupID: groupWatch,
		RunE:    func(c *cobra.Command, args []string) error { return a.run(c, &f, args) },
	}
	c.Flags().SetInterspersed(false) // what follows the command is its own
	a.addSources(c, &f.flags)
	a.addGuard(c)
	f.addTheme(c)
	set := c.Flags()
	set.StringVar(&f.id, "id", "", "call the session `ID` (default: after the command)")
	set.StringVar(&f.restart, "restart", "", "`WHEN` to start it again: never, on-failure, always (default on-failure)")
	set.DurationVar(&f.stall, "stall", 0, "it is stalled after so long without activity (default policy.stall_timeout)")
	set.StringVar(&f.stallAction, "on-stall", "", "`ACTION` after the dump of a stall: alert, restart, stop (default alert)")
	set.DurationVar(&f.grace, "grace", 0, "from SIGTERM to SIGKILL (default 10s)")
	set.BoolVar(&f.pty, "pty", false, "give it a terminal of its own")
	set.BoolVar(&f.plain, "plain", false, "no screen: let its output pass through")
	completeWith(c, "restart", func() []string { return []string{"never", "on-failure", "always"} })
	completeWith(c, "on-stall", func() []string { return []string{"alert", "restart", "stop"} })
	return c
}

func (a *app) run(c *cobra.Command, f *runFlags, args []string) error {
	settings, err := a.settings(c, &f.flags, false)
	if err != nil {
		return err
	}
	session, err := f.session(c, settings, args)
	if err != nil {
		return err
	}
	if err := process.CheckCommand(session.Command, session.Dir); err != nil {
		return &exitError{process.NotStarted(err), err}
	}
	o := stationOptions{role: roleRun, db: stateFile("run-", session.ID, ".db"), state: stateFile("run-", session.ID, ".json"),
		sessions: []config.Session{session}}
	if a.env.StdoutTTY && !f.plain {
		return a.superviseOnScreen(c, &f.flags, o)
	}
	a.warn(settings.Warnings)
	return a.runPlainly(settings, o)
}

// runPlainly supervises one session without a screen until nothing starts it
// again.
func (a *app) runPlainly(settings *config.Config, o stationOptions) error {
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	// Nobody reads any more: what a pipe that breaks does to any program, done
	// with the children stopped and settled.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	out, errs := newOutlet(a.env.Stdout, leave), newOutlet(a.env.Stderr, nil)
	defer errs.close()
	defer out.close()
	log, closeLog, err := runLog(settings.LogFile, errs)
	if err != nil {
		return misconfigured(err)
	}
	defer closeLog.Close()
	o.log, o.spawn, o.guard = log, plainly, newSelfGuard(settings, nil, log)
	o.onLine = func(_ watchdog.ID, l process.Line) { passThrough(out, errs, l) }
	s, err := openStation(settings, o)
	if err != nil {
		return err
	}
	id := watchdog.ID(o.sessions[0].ID)
	s.supervise(plainly)
	_, waited := s.children.Wait(ctx, id)
	s.close()
	if waited != nil && ctx.Err() == nil {
		return fault(waited)
	}
	last, err := s.children.Session(id)
	if err != nil {
		return fault(err)
	}
	if last.Phase == watchdog.SupervisorCrashLoop {
		return &exitError{last.ExitCode(), fmt.Errorf("%s is held as a crash loop: %s", id, last.Detail)}
	}
	return exitWith(last.ExitCode())
}

// runLog logs to the file that is set, else what is wrong to where the output of
// the child goes too, each trouble once: several clients meet the same one.
func runLog(path string, stderr io.Writer) (*slog.Logger, io.Closer, error) {
	if path != "" {
		return openLog(path)
	}
	return slog.New(&onceHandler{Handler: slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}), said: new(sync.Map)}),
		io.NopCloser(nil), nil
}

// onceHandler drops a record that says what one before it said within a minute.
type onceHandler struct {
	slog.Handler
	said *sync.Map // text: time.Time
}

// Handle passes a record on unless it was said already.
func (h *onceHandler) Handle(ctx context.Context, r slog.Record) error {
	text := []byte(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		text = fmt.Appendf(text, " %s", a)
		return true
	})
	if before, ok := h.said.Swap(string(text), r.Time); ok && r.Time.Sub(before.(time.Time)) < time.Minute {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps what was said.
func (h *onceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &onceHandler{h.Handler.WithAttrs(attrs), h.said}
}

// WithGroup keeps what was said.
func (h *onceHandler) WithGroup(name string) slog.Handler {
	return &onceHandler{h.Handler.WithGroup(name), h.said}
}

// session is what the command line means, over what the configuration says of
// the same id.
func (f *runFlags) session(c *cobra.Command, settings *config.Config, args []string) (config.Session, error) {
	session := settings.DefaultSession()
	for _, known := range settings.Sessions {
		if f.id != "" && known.ID == f.id {
			session = known
		}
	}
	if len(args) > 0 {
		session.Command = args
	}
	if len(session.Command) == 0 {
		return session, &usageError{errors.New("name the command to run: sessionwatch run -- python3 agent.py")}
	}
	session.ID = f.id
	if session.ID == "" {
		session.ID = nameOfCommand(session.Command)
	}
	set := c.Flags()
	if set.Changed("restart") {
		session.Restart = config.Restart(f.restart)
	}
	if set.Changed("on-stall") {
		session.StallAction = config.StallAction(f.stallAction)
	}
	if set.Changed("stall") {
		session.StallTimeout = f.stall
	}
	if set.Changed("grace") {
		session.StopGrace = f.grace
	}
	session.PTY = session.PTY || f.pty
	return session, checkSession(session)
}

// checkSession refuses what the flags could not say.
func checkSession(s config.Session) error {
	var errs []error
	say := func(format string, args ...any) { errs = append(errs, &usageError{fmt.Errorf(format, args...)}) }
	switch s.Restart {
	case config.RestartNever, config.RestartOnFailure, config.RestartAlways:
	default:
		say("--restart %s is not known; give never, on-failure or always", s.Restart)
	}
	switch s.StallAction {
	case config.StallAlert, config.StallRestart, config.StallStop:
	default:
		say("--on-stall %s is not known; give alert, restart or stop", s.StallAction)
	}
	if s.StallTimeout <= 0 || s.StopGrace <= 0 {
		say("--stall and --grace must be above 0; give durations such as 300s")
	}
	if text := config.CheckID(s.ID); text != "" {
		say("--id: %s", text)
	}
	return errors.Join(errs...)
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9_.:-]+`)

// nameOfCommand is the id of a command that was given none: the script that an
// interpreter runs, else the program.
func nameOfCommand(argv []string) string {
	name := filepath.Base(argv[0])
	for _, arg := range argv[1:] {
		if ext := filepath.Ext(arg); !strings.HasPrefix(arg, "-") && len(ext) > 1 && len(ext) <= 4 {
			name = strings.TrimSuffix(filepath.Base(arg), ext)
			break
		}
	}
	name = strings.Trim(notInIDs.ReplaceAllString(name, "-"), "-.:_")
	if name == "" {
		return "session"
	}
	return name[:min(len(name), 100)]
}

// passThrough prints what a child writes where its own output would go.
func passThrough(out, errs io.Writer, l process.Line) {
	if l.Partial {
		return
	}
	if l.Stream == process.Stderr {
		out = errs
	}
	text := l.Text
	if !l.Cut { // else it goes on
		text += "\n"
	}
	_, _ = io.WriteString(out, text) // an outlet does not fail
}

// superviseOnScreen runs sessions behind a screen.
func (a *app) superviseOnScreen(c *cobra.Command, f *flags, o stationOptions) error {
	return a.screenWith(c, f, &ui.Target{Kind: ui.TargetConfigured, Context: f.context}, func(h *host) {
		h.station = func(settings *config.Config) (*station, error) {
			o.log, o.spawn, o.guard, o.ringer = h.log, h.spawn, h.guard, h.rings
			return openStation(settings, o)
		}
	})
}
