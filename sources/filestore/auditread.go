package filestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ReadAudit calls each with every whole line of the trail at path, oldest first,
// of its last most bytes. The line is valid during the call. It reports whether
// older lines were left out; that there is no trail is no error.
func ReadAudit(path string, most int64, each func(line []byte)) (cut bool, err error) {
	file, err := openPrivate(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the audit file cannot be read: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if cut = info.Size() > most; cut {
		if _, err := file.Seek(info.Size()-most, io.SeekStart); err != nil {
			return cut, err
		}
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for first := cut; ; first = false {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return cut, nil // what has no end is being written, or was cut off
		}
		if err != nil {
			return cut, fmt.Errorf("%s: %w", path, err)
		}
		if !first { // the rest of a line
			each(bytes.TrimSpace(line))
		}
	}
}
