//go:build unix

package filestore

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	noFollow          = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	permissionsMatter = true
)

// ownedByUs reports whether the file belongs to the user we run as.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// unlock lets go of the lock on a file that may still be mapped into memory:
// the map alone would hold it.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
