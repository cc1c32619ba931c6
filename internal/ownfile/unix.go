//go:build unix

package ownfile

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	// NoFollow are flags of os.OpenFile: a symbolic link in the last place is an
	// error, and a pipe does not wait for its other end.
	NoFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	// PermissionsMatter says that the mode of a file tells who may read it.
	PermissionsMatter = true
)

// Ours reports whether the file belongs to the user we run as.
func Ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
