package demo

import (
	_ "embed"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The dumps were taken of real programs that hang, load, compute or wait.
var (
	//go:embed dumps/gateway.txt
	gatewayDump []byte
	//go:embed dumps/indexer.txt
	indexerDump []byte
	//go:embed dumps/tool.txt
	toolDump []byte
	//go:embed dumps/loader.txt
	loaderDump []byte
	//go:embed dumps/idle.txt
	idleDump []byte
)

// stacks is a dump in the words of the runtime that an agent is written for.
type stacks struct {
	method, runtime string
	text            []byte
}

// stacks are what an agent gives when it is asked for a dump: what it is stuck in
// if it does not work, else a loop that waits.
func (a *Agent) stacks(m *Moment) stacks {
	switch job := a.work.job.name; {
	case m.Lag >= time.Second:
		return stacks{"faulthandler", "python", gatewayDump}
	case job == "embed":
		return stacks{"runtime.Stack", "go", indexerDump}
	case job == "etl" || job == "batch" || job == "work":
		return stacks{"jstack", "java", loaderDump}
	case m.Idle >= 2*time.Second && m.Wait == "":
		return stacks{"faulthandler", "python", toolDump}
	}
	return stacks{"faulthandler", "python", idleDump}
}

// dump is the answer to a command that asks for one.
func (a *Agent) dump(m *Moment, c watchdog.Command, at time.Time) wire.Dump {
	s := a.stacks(m)
	return wire.Dump{Session: c.Session, Generation: c.Generation, BootID: a.boot(m.Run), Command: c.ID, At: at, Reason: "asked",
		Method: s.method, Runtime: s.runtime, PID: int64(a.pid(m.Run)), By: a.Worker, Text: s.text}
}
