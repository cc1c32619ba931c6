package process

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ownSession makes a child the leader of a session of its own, which dies with
// the thread that starts it.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// childInfo is the kernel's siginfo_t as it describes the end of a child.
type childInfo struct {
	signo, errno, code int32
	_                  [(unsafe.Sizeof(uintptr(0)) - 4) / 4]int32
	pid                int32
	uid                uint32
	status             int32
}

const killedCode, dumpedCode = 2, 3 // CLD_KILLED, CLD_DUMPED

// exitUnknown stands for an exit status that somebody else took.
const exitUnknown = 255

// awaitExit returns when the leader has ended, and leaves it to be reaped: as
// long as it is not, nothing else can have its number, or that of its group.
func (c *child) awaitExit() watchdog.Exit {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return watchdog.Exit{Code: exitUnknown}
		}
		how := (*childInfo)(unsafe.Pointer(&info))
		if how.code == killedCode || how.code == dumpedCode {
			return watchdog.Exit{Code: 128 + int(how.status), Signal: int(how.status)}
		}
		return watchdog.Exit{Code: int(how.status)}
	}
}
