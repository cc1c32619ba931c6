//go:build unix

package alarm

import (
	"os/exec"
	"syscall"
)

// ownGroup lets the command and all that it starts be ended together.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
