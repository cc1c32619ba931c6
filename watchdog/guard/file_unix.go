//go:build unix

package guard

import (
	"errors"
	"os"
	"syscall"
)

// openOwn opens a file to append to. It does not wait for the reader of a pipe,
// follows no link at the end of the path, and takes nobody else's file.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(path + " is no regular file")
	}
	if err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
			err = errors.New(path + " belongs to another user")
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
