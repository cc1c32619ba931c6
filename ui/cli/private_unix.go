//go:build unix

package cli

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
