package filestore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve makes sure that n bytes more fit behind the end of a file: a write that
// fills a disk half way leaves half a line. A file system that cannot tell is
// trusted.
func reserve(file *os.File, n int) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	for {
		err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size(), int64(n))
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
		if errors.Is(err, full) {
			return err
		}
	}
	return nil
}
