//go:build unix

package filestore

import (
	"os"
	"syscall"
)

// unlock lets go of the lock on a file that may still be mapped into memory:
// the map alone would hold it.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
