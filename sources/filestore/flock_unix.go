//go:build unix

package filestore

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// unlock lets go of the lock on a file that may still be mapped into memory:
// the map alone would hold it.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

// lockWithin waits so long for the lock on a file that nothing maps, and reports
// whether it is ours now. A file system without locks has none to wait for.
func lockWithin(file *os.File, limit time.Duration) bool {
	for until := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return true
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(until) {
			return false
		}
	}
}
