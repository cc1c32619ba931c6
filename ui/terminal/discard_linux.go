package terminal

import "golang.org/x/sys/unix"

const (
	discardInput  = unix.TCIFLUSH
	discardOutput = unix.TCOFLUSH
)

// discard throws away what waits in the terminal's queue: what was typed and
// not read, or written and not shown.
func discard(fd, which int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, which) }
