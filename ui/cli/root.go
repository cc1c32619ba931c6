package cli

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/ui/terminal"
)

// app is one run of the program: what its commands share.
type app struct {
	env Env
}

// The groups of commands in help, in this order.
const (
	groupWatch = "watch"
	groupAsk   = "ask"
	groupAct   = "act"
	groupTry   = "try"
	groupSetup = "setup"
)

// Main runs the command line with args (without the program's name) and gives
// the exit code of the process. It never calls os.Exit itself.
func Main(args []string, env Env) (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(env.Stderr, "sessionwatch: a fault of our own: %s\n%s", clean(fmt.Sprint(r)), debug.Stack())
			code = exitFault
		}
	}()
	if terminal.BeGuardian(args, env.Environ) { // a screen started us to look after its terminal
		return exitDone
	}
	a := &app{env: env}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	ran, err := root.ExecuteContextC(context.Background())
	code, say := codeOf(err)
	if say != nil {
		a.complain(ran, say)
	}
	return code
}

// complain prints an error, and how to get help if it came from the parser.
func (a *app) complain(c *cobra.Command, err error) {
	for line := range lines(err.Error()) {
		fmt.Fprintf(a.env.Stderr, "sessionwatch: %s\n", clean(line))
	}
	if _, usage := err.(*usageError); usage && c != nil {
		fmt.Fprintf(a.env.Stderr, "Run \"%s --help\" for its usage.\n", c.CommandPath())
	}
}

// withUnit says what to write for a duration that is a bare number.
func withUnit(err error) error {
	_, bare, ok := strings.Cut(err.Error(), "time: missing unit in duration ")
	if !ok {
		return err
	}
	return fmt.Errorf("%w; write %ss for seconds", err, strings.Trim(bare, `"`))
}

// usageError is a complaint about the arguments themselves.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// say turns a failed write to standard output into bad news: nobody saw the answer.
func (a *app) say(err error) error {
	if err == nil {
		return nil
	}
	return badNews(fmt.Errorf("cannot write the answer: %w", err))
}

// note tells a person something beside the answer.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.env.Stderr, clean(fmt.Sprintf(format, args...)))
}

// clean makes one line of text safe to print, whatever its length.
func clean(text string) string { return termtext.CleanLong(text) }

func (a *app) rootCommand() *cobra.Command {
	root := a.screenCommand()
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{withUnit(err)} })
	root.AddGroup(
		&cobra.Group{ID: groupWatch, Title: "Watch:"},
		&cobra.Group{ID: groupAsk, Title: "Ask once, for people, scripts and CI:"},
		&cobra.Group{ID: groupAct, Title: "Act on a session:"},
		&cobra.Group{ID: groupTry, Title: "Try things out:"},
		&cobra.Group{ID: groupSetup, Title: "Set up:"},
	)
	root.SetHelpCommandGroupID(groupSetup)
	root.SetCompletionCommandGroupID(groupSetup)
	root.AddCommand(
		a.attachCommand(), a.runCommand(), a.serveCommand(), a.demoCommand(), a.recordCommand(), a.replayCommand(),
		a.lsCommand(), a.getCommand(), a.whyCommand(), a.eventsCommand(), a.handoverCommand(), a.trialCommand(), a.checkCommand(), a.releaseCommand(),
		a.dumpsCommand(), a.dumpViewCommand(),
		a.busCommand(), a.beatCommand(),
		a.doctorCommand(), a.configCommand(), a.versionCommand(),
	)
	root.AddCommand(a.actionCommands()...)
	wrapArgs(root)
	return root
}

// wrapArgs marks complaints of every command's argument check as usage errors.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
	for _, child := range c.Commands() {
		wrapArgs(child)
	}
}

// printer collects the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
