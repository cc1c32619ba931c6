//go:build unix && !linux

package process

import (
	"syscall"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ownSession makes a child the leader of a session of its own. There is no
// death signal here: what a killed supervisor leaves is ended at the next start.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit returns when the leader has ended. It is reaped by that: from here
// on the group is signalled no more, only the members that were found.
func (c *child) awaitExit() watchdog.Exit {
	state, err := c.cmd.Process.Wait()
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	c.table.disown(c.pid)
	if err != nil {
		return watchdog.Exit{Code: 255}
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return watchdog.Exit{Code: state.ExitCode()}
	case ws.Signaled():
		return watchdog.Exit{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return watchdog.Exit{Code: ws.ExitStatus()}
}
