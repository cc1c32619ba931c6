package process

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// outlook is what ending this run, or starting it again, would mean: what a
// person is told before it is done.
func (u *unit) outlook(now time.Duration) *watchdog.Outlook {
	plan := &u.machine.plan
	o := &watchdog.Outlook{
		Grace: plan.grace, Burst: plan.limits.Burst, Window: plan.limits.Window,
		Left:  max(plan.limits.Burst-u.machine.chain.Links, 0),
		Brake: fleetOf{u.sup, u.id}.held(now),
	}
	if plan.budget > 0 {
		o.Dump, o.DumpPauses = dumpWords(&u.conf.Dump)
		o.DumpFirst = plan.first
	}
	if c := u.child.Load(); c != nil {
		o.Members = []watchdog.Member{{PID: c.pid}}
		if used := u.usage.Load(); used != nil && len(used.members) > 0 {
			o.Members = used.members
		}
	}
	return o
}

// dumpWords say how a dump is taken, and whether that may stop the process for
// a moment: a tool or a debugger that reads it does so, a signal does not.
func dumpWords(d *config.Dump) (how string, pauses bool) {
	switch d.Mode.Kind {
	case config.DumpNone:
		return "", false
	case config.DumpSignal:
		return unix.SignalName(d.Mode.Signal), d.Native == config.NativeAlways
	case config.DumpHTTP:
		return "by HTTP", d.Native == config.NativeAlways
	case config.DumpFile:
		return "from a file", d.Native == config.NativeAlways
	case config.DumpCommand:
		return "by " + termtext.Clean(d.Mode.Command[0]), true
	case config.DumpAuto:
	}
	return "by what its runtime offers", true
}

// endsIt reports whether the way to a dump that is configured may be the end of a
// process: the runtimes that write their stacks at these signals then give up.
func endsIt(m config.DumpMode) bool {
	switch m.Signal {
	case unix.SIGQUIT, unix.SIGABRT, unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE, unix.SIGTRAP, unix.SIGSYS:
		return m.Kind == config.DumpSignal
	}
	return false
}

// held says why the fleet restarts nothing now; empty: it does.
func (f fleetOf) held(now time.Duration) string {
	f.s.fleetMu.Lock()
	defer f.s.fleetMu.Unlock()
	if _, why, held := f.s.fleet.Held(now); held {
		return why
	}
	return ""
}

// name adds a process to those that are told by name; the leader stands first.
func (u *usageOf) name(p processStat, root int) {
	m := watchdog.Member{PID: p.pid, Name: termtext.Clean(p.comm)}
	switch {
	case p.pid == root:
		u.members = slices.Insert(u.members, 0, m)
	case len(u.members) < watchdog.MembersTold:
		u.members = append(u.members, m)
	}
	u.members = u.members[:min(len(u.members), watchdog.MembersTold)]
}

// sameOutlook compares what they say; the one before may not have been told.
func sameOutlook(a, b *watchdog.Outlook) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Members, b.Members) && a.Grace == b.Grace && a.Left == b.Left && a.Burst == b.Burst && a.Window == b.Window &&
		a.Brake == b.Brake && a.Dump == b.Dump && a.DumpPauses == b.DumpPauses && a.DumpFirst == b.DumpFirst
}
