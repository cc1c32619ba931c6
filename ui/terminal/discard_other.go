//go:build !linux

package terminal

import "golang.org/x/sys/unix"

// The values of FREAD and FWRITE.
const (
	discardInput  = 1
	discardOutput = 2
)

// discard throws away what waits in the terminal's queue: what was typed and
// not read, or written and not shown.
func discard(fd, which int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, which) }
