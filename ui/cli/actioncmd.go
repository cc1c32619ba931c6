package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// actionWords say what each action is, for help and for its question.
type actionWords struct {
	op          watchdog.Op
	short, long string
	means       string // what yes does, in the question
}

func allActionWords() []actionWords {
	return []actionWords{
		{watchdog.OpStop, "Stop a session gracefully, and see that it ended",
			"Its supervisor sends SIGTERM to the whole process group, after the grace SIGKILL; an\nagent that embeds the guard is told to end. A newer generation is never touched.",
			"it is told to end; work since its last change is lost"},
		{watchdog.OpKill, "Kill a session without a grace",
			"Its supervisor sends SIGKILL to everything that it started.",
			"it is killed with everything that it started, without a grace"},
		{watchdog.OpExpire, "Write the end of a session, whatever its process does",
			"The terminal record, the registry's hash and the liveness key say expired; release hooks\nrun. The process is NOT signalled: if it lives, its beats are quarantined and its next\nheartbeat over HTTP gets 410.",
			"its end is written; its process is NOT signalled"},
		{watchdog.OpRestart, "Stop a session, verify that, and start it again",
			"Whoever supervises it stops it, verifies that nothing of it is left, and starts the\nnext generation. What nobody supervises is refused.",
			"it is stopped, and its next generation started"},
		{watchdog.OpDump, "Take a stack dump of a session",
			"Its supervisor or guard takes a dump by the best way that its runtime allows; it goes on.\nRead it with `sessionwatch dumps ID`, or in the dumps view.",
			"a dump is taken; it may pause for a moment"},
	}
}

// actingFlags are those of every action.
type actingFlags struct {
	asking
	reason     string
	generation int64
	yes        bool
}

func (a *app) actionCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, words := range allActionWords() {
		out = append(out, a.actionCommand(words))
	}
	return out
}

func (a *app) actionCommand(words actionWords) *cobra.Command {
	var f actingFlags
	name := string(words.op)
	c := &cobra.Command{
		Use:   name + " ID",
		Short: words.short,
		Long: words.long + `

It asks first; --yes does it at once, which a script needs. Then it waits until what
became of it is known. Exit code 0: effective, which was verified; 1: it was refused,
or had no effect; 2: not known.`,
		Example: fmt.Sprintf("  sessionwatch %s indexer --reason \"ticket 4711\"\n  sessionwatch %s indexer --generation 2 --yes --json", name, name),
		Args:    cobra.ExactArgs(1),
		GroupID: groupAct,
		RunE:    func(c *cobra.Command, args []string) error { return a.act(c, &f, words, watchdog.ID(args[0])) },
	}
	a.addSources(c, &f.flags)
	f.addJSON(c)
	a.addServe(c, &f.flags)
	f.addWait(c)
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the audit file and the record")
	c.Flags().Int64Var(&f.generation, "generation", 0, "only if the execution `N` is current")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

// actor is where an action is asked for: an engine of our own, or a serve.
type actor interface {
	look(ctx context.Context, a watchdog.Ask) (watchdog.Window, error)
	do(ctx context.Context, c watchdog.Command) (watchdog.Action, error)
	close()
}

func (a *app) act(c *cobra.Command, f *actingFlags, words actionWords, id watchdog.ID) error {
	if f.generation < 0 || f.wait < 0 {
		return &usageError{errors.New("--generation and --wait are not below 0")}
	}
	settings, err := a.settings(c, &f.flags, false)
	if err != nil {
		return err
	}
	if settings.ReadOnly {
		return badNews(watchdog.ErrReadOnly)
	}
	a.warn(settings.Warnings)
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	actor, err := a.actor(ctx, c, settings, f)
	if err != nil {
		return err
	}
	defer func() {
		actor.close()
		if own, ok := actor.(*ownActor); ok { // all was written by now
			if err := own.acting.unaudited(); err != nil {
				a.note("%v", err)
			}
		}
	}()
	w, err := seek(ctx, actor, id, f.wait)
	if err != nil {
		return err
	}
	if w.Focus == nil {
		a.caution(w)
		return missing(w, string(id))
	}
	command := watchdog.Command{Op: words.op, Session: id, Generation: w.Focus.Generation, BootID: w.Focus.BootID, Reason: f.reason, IssuedBy: operatorName()}
	if f.generation != 0 {
		command.Generation = watchdog.Generation(f.generation)
		if command.Generation != w.Focus.Generation {
			command.BootID = ""
		}
	}
	if ok, err := a.confirmed(f, command, words.means, w.Focus); err != nil || !ok {
		return err
	}
	return a.follow(ctx, actor, f, command)
}

// actor reaches the serve that is to act, or begins to watch with an engine that
// can.
func (a *app) actor(ctx context.Context, c *cobra.Command, settings *config.Config, f *actingFlags) (actor, error) {
	client, err := a.serveOf(ctx, c, settings, &f.flags)
	if err != nil {
		return nil, err
	}
	if client != nil {
		return servedActor{client}, nil
	}
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		return nil, misconfigured(err)
	}
	o := observerOptions{clock: clock.System(), log: log, ping: true}
	acts := actingOptions{role: "cli", clock: o.clock, log: log, spawn: plainly}
	if o.settling, err = newSettling(settings, settlingOptions{Writer: orders.ProcessName(acts.role), OnDemand: true, clock: o.clock, log: log, spawn: plainly}); err != nil {
		return nil, errors.Join(misconfigured(err), closeLog.Close())
	}
	acts.settling = o.settling
	o.acting = newActing(settings, acts)
	watching, err := newObserver(settings, o).start()
	if err != nil {
		return nil, errors.Join(err, closeLog.Close())
	}
	return &ownActor{watching, func() { _ = closeLog.Close() }}, nil
}

type servedActor struct{ client *serveview.Client }

func (s servedActor) look(ctx context.Context, a watchdog.Ask) (watchdog.Window, error) {
	return lookThrough(ctx, s.client, a)
}

func (s servedActor) do(ctx context.Context, c watchdog.Command) (watchdog.Action, error) {
	return s.client.Do(ctx, c)
}

func (s servedActor) close() { s.client.Close() }

type ownActor struct {
	*started
	closeLog func()
}

func (o *ownActor) do(ctx context.Context, c watchdog.Command) (watchdog.Action, error) {
	return o.acting.do(ctx, c)
}

func (o *ownActor) close() {
	_ = o.stop() // what it was for is done
	o.closeLog()
}

// seek looks until a session is seen well enough to pin a command to its
// execution, and it is known whether that has ended: an end that is read later
// would look like the command's work. Or wait is over.
func seek(ctx context.Context, from actor, id watchdog.ID, wait time.Duration) (watchdog.Window, error) {
	ask := everything()
	ask.Focus = id
	deadline := time.Now().Add(wait)
	for {
		w, err := from.look(ctx, ask)
		if err != nil {
			return w, err
		}
		ended := w.Focus != nil && w.Focus.Terminal != nil
		_, served := from.(servedActor)
		own, ours := from.(*ownActor)
		seen := pinned(&w) && (!ours || own.endsKnown(w))
		if seen || ended || served || !time.Now().Before(deadline) {
			return w, nil
		}
		select {
		case <-ctx.Done():
			return w, untold(errors.New("interrupted; nothing was done"))
		case <-time.After(settleStep):
		}
	}
}

// pinned reports whether the session in focus is seen well enough to pin a command
// to its execution, and where the command is to go: Redis is read at once, and
// carries commands only to who is not on NATS.
func pinned(w *watchdog.Window) bool {
	d := w.Focus
	if d == nil || d.BeatAge < 0 || d.Generation == 0 && d.BootID == "" {
		return false
	}
	onNATS := slices.ContainsFunc(w.Links, func(l watchdog.Link) bool { return l.Source == watchdog.SourceNATS && l.Phase != watchdog.LinkDown })
	return !onNATS || d.Sources&watchdog.SourceNATS.Set() != 0
}

// confirmed asks whoever sits at the terminal, unless nothing can come of it: what
// is over is refused as that, and what is not possible is told at once.
func (a *app) confirmed(f *actingFlags, c watchdog.Command, means string, d *watchdog.Detail) (bool, error) {
	if f.yes || c.Generation < d.Generation {
		return true, nil
	}
	asked := fmt.Sprintf("%s %s %s", c.Op, clean(string(c.Session)), generation(c.Generation))
	if why := d.Can.Not(c.Op); why != "" {
		return false, badNews(fmt.Errorf("%s: refused: %s", asked, why))
	}
	if !a.env.StdoutTTY {
		return false, &usageError{fmt.Errorf("nobody can be asked here: give --yes to %s", asked)}
	}
	a.note("%s %s %s ?", strings.ToUpper(string(c.Op)), c.Session, generation(c.Generation))
	now := d.Verdict.String()
	if d.Verdict != watchdog.Running { // since when we see it run tells nothing of it
		now += " for " + age(d.For)
	}
	a.note("  now   %s", now+behind(": ", d.Why))
	if d.Task != "" {
		a.note("  task  %s", d.Task)
	}
	a.note("  then  %s", means)
	fmt.Fprint(a.env.Stderr, "y to do it, anything else to leave it: ")
	line, _ := bufio.NewReader(a.env.Stdin).ReadString('\n') // an end is a no
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return true, nil
	}
	a.note("nothing was done")
	return false, nil
}

// follow asks for an action and waits until what became of it is known.
func (a *app) follow(ctx context.Context, on actor, f *actingFlags, c watchdog.Command) error {
	act, err := on.do(ctx, c)
	if err != nil {
		return badNews(err)
	}
	said := ""
	for {
		if line := fateLine(&act); line != said && !f.json {
			said = line
			a.note("%s", line)
		}
		if act.Fate.Final() {
			break
		}
		select {
		case <-ctx.Done():
			return untold(fmt.Errorf("command %s was given and its fate is not known yet; it may still take effect", act.ID))
		case <-time.After(2 * settleStep):
		}
		w, err := on.look(ctx, watchdog.Ask{Actions: 1000})
		if err != nil {
			if ctx.Err() != nil {
				continue
			}
			return untold(fmt.Errorf("command %s was given; what became of it cannot be seen: %w", act.ID, err))
		}
		for i := range w.Actions {
			if w.Actions[i].ID == act.ID {
				act = w.Actions[i]
			}
		}
	}
	if f.json {
		if err := a.say(wire.EncodeAction(a.env.Stdout, act)); err != nil {
			return err
		}
	}
	if act.Fate != watchdog.FateEffective {
		return exitWith(exitBadNews)
	}
	return nil
}

// fateLine tells a fate in one line.
func fateLine(act *watchdog.Action) string {
	text := fmt.Sprintf("%s %s %s: %s", act.Op, act.Session, generation(act.Generation), act.Fate.Sentence())
	if act.Way != "" && act.Way != hereWay {
		text += " over " + act.Way
	}
	text += behind(": ", act.Detail) + behind(", says ", act.By)
	if act.Next != "" {
		text += fmt.Sprintf("; next: sessionwatch %s %s", act.Next, act.Session)
	}
	return text
}
