package process

import (
	"context"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

// kernelRung is the one that every process allows and none notices.
func (c *capturing) kernelRung() rung {
	return rung{method: "proc", grade: gradeKernel, take: c.takeSnapshot}
}

// runtimeRungs are the ways to a dump of the target's own runtime that leave it
// alive, the best first: what the settings name, or what its runtime offers.
func (c *capturing) runtimeRungs() []rung {
	switch mode := c.want.Dump.Mode; mode.Kind {
	case config.DumpSignal:
		rungs := []rung{c.signalRung(mode.Signal)}
		if c.target.runtime == runtimeNode && mode.Signal == syscall.SIGUSR1 {
			// Naming this signal is the consent to the port that it opens.
			rungs = []rung{c.inspectorRung(true)}
		}
		return rungs
	case config.DumpCommand:
		return []rung{c.commandRung(mode.Command)}
	case config.DumpHTTP:
		return []rung{c.httpRung(mode.URL)}
	case config.DumpFile:
		return append(c.offeredRungs(), c.fileRung())
	}
	return c.offeredRungs()
}

// offeredRungs are what the target's runtime offers by itself.
func (c *capturing) offeredRungs() []rung {
	switch c.target.runtime {
	case runtimePython:
		return []rung{c.signalRung(syscall.SIGUSR1), c.pySpyRung()}
	case runtimeJava:
		return []rung{c.jcmdRung(), c.signalRung(syscall.SIGQUIT)}
	case runtimeGo:
		return []rung{c.pprofRung()}
	case runtimeNode:
		return []rung{c.inspectorRung(false)}
	}
	return nil
}

// nativeRungs are the ways to native stacks.
func (c *capturing) nativeRungs() []rung { return []rung{c.euStackRung(), c.gdbRung()} }

// lastRungs end the process. They are for one that is ended anyway, when its
// runtime gave nothing.
func (c *capturing) lastRungs() []rung {
	var signals []syscall.Signal
	switch c.target.runtime {
	case runtimePython:
		signals = []syscall.Signal{syscall.SIGABRT}
	case runtimeGo:
		signals = []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT}
	case runtimeRuby:
		signals = []syscall.Signal{syscall.SIGSEGV} // its report of a crash has the stack in Ruby's own terms
	}
	rungs := make([]rung, 0, len(signals))
	for _, s := range signals {
		r := c.signalRung(s)
		r.ends = true
		r.skip = func() string { return c.mayNotEnd(s) }
		rungs = append(rungs, r)
	}
	return rungs
}

// signalRung asks with a signal that the runtime answers in its output, or in
// the file that the settings name.
func (c *capturing) signalRung(s syscall.Signal) rung {
	return rung{
		method: unix.SignalName(s), grade: gradeRuntime,
		skip: func() string { return c.mayNotSignal(s) },
		take: func(ctx context.Context, limit int64) (taking, error) { return c.takeSignal(ctx, s, limit) },
	}
}

// mayNotSignal says why a signal may not be sent to a process that is to live.
func (c *capturing) mayNotSignal(s syscall.Signal) string {
	name := unix.SignalName(s)
	switch sets, err := readSignals(c.target.pid); {
	case s == syscall.SIGKILL || s == syscall.SIGSTOP || s == syscall.SIGCONT:
		return name + " yields no dump"
	case err != nil:
		return err.Error()
	case !c.want.Active:
		return "it has shown no activity yet: it may not be ready for " + name
	case c.target.stopped():
		return "it is stopped: it would not answer " + name
	case has(sets.ignored, int(s)):
		return "it ignores " + name
	case !has(sets.caught, int(s)):
		return "it does not catch " + name + ", which would end it"
	case has(sets.blocked, int(s)) && c.target.threads <= 1:
		return "it blocks " + name
	case c.want.Output == nil && c.dumpFile() == "":
		return "its output is not kept: a dump could not be seen"
	}
	return ""
}

// mayNotEnd says why a signal that ends the process may not be sent.
func (c *capturing) mayNotEnd(s syscall.Signal) string {
	name := unix.SignalName(s)
	switch sets, err := readSignals(c.target.pid); {
	case !c.want.Ending:
		return name + " ends it, and it is to live on"
	case c.want.Dump.AllowFatal == config.FatalNever:
		return name + " ends it, and dump.allow_fatal is never"
	case err != nil:
		return err.Error()
	case c.target.stopped():
		return "it is stopped: it would not answer " + name
	case !has(sets.caught, int(s)):
		return fmt.Sprintf("it does not catch %s, which would end it without a dump", name)
	case c.want.Output == nil && c.dumpFile() == "":
		return "its output is not kept: a dump could not be seen"
	}
	return ""
}

// dumpFile is the file to which the program itself writes its dumps; empty:
// none is named.
func (c *capturing) dumpFile() string {
	if c.want.Dump.Mode.Kind == config.DumpFile {
		return c.want.Dump.Mode.File
	}
	return ""
}
