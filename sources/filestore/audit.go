package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxAuditLine bounds one line. Evidence beyond it is not kept.
const maxAuditLine = 1 << 20

// How long a line without an end is looked at before it counts as cut off.
const (
	tornPause = 20 * time.Millisecond
	tornTries = 50
	// turnWithin is how long a writer waits for another that is in the midst of
	// its line: one that was stopped there must not stop all.
	turnWithin = tornTries * tornPause
)

// Audit is the append-only trail of who did what: JSON lines in a file that any
// number of processes write to, one after the other. A line is one write at the end
// of the file, for which room was made, so that lines of two processes never mix, a
// full disk cuts none off, and one that a crash did does not spoil the next.
type Audit struct {
	path string
	turn time.Duration // turnWithin

	mu   sync.Mutex
	file *os.File
}

// OpenAudit opens the trail at path, and makes it if there is none: 0600, in a
// directory of mode 0700, never through a symbolic link.
func OpenAudit(path string) (*Audit, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	a := &Audit{path: path, turn: turnWithin}
	if err := a.open(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Audit) open() error {
	file, err := openPrivate(a.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("the audit file cannot be opened: %w", err)
	}
	a.file = file
	return nil
}

// Path is where the trail is.
func (a *Audit) Path() string { return a.path }

// Write appends entry as one line of JSON. It is with the system when Write
// returns, though perhaps not yet on the disk. An error says that it may be
// missing.
func (a *Audit) Write(entry any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line) // ends with a line feed, and writes none within
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(entry); err != nil {
		return fmt.Errorf("%s cannot take the entry: %w", a.path, err)
	}
	if line.Len() > maxAuditLine {
		return fmt.Errorf("%s cannot take an entry of %d bytes; %d is the most", a.path, line.Len(), maxAuditLine)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return fmt.Errorf("%s is closed: %w", a.path, os.ErrClosed)
	}
	if err := a.follow(); err != nil {
		return err
	}
	// Else a line that another process has half written, and has no time for the
	// rest of, would look as if a crash had cut it off.
	if lockWithin(a.file, a.turn) {
		defer unlock(a.file)
	}
	text := line.Bytes()
	if a.torn() { // by whomever: another process may have been cut off since we wrote
		text = append([]byte{'\n'}, text...)
	}
	if err := reserve(a.file, len(text)); err != nil {
		return fmt.Errorf("%s cannot take the entry: %w", a.path, sayFull(err))
	}
	if _, err := a.file.Write(text); err != nil {
		return fmt.Errorf("%s: the entry may be missing: %w", a.path, sayFull(err))
	}
	return nil
}

// follow opens the trail anew if somebody moved it away, as log rotation does.
func (a *Audit) follow() error {
	ours, err := a.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(a.path); err == nil && os.SameFile(ours, there) {
		return nil
	}
	old := a.file
	if err := a.open(); err != nil {
		a.file = old
		return err
	}
	return old.Close()
}

// torn reports whether the last line has no end, because its writer was cut
// off. One that is being written right now may look so for a moment.
func (a *Audit) torn() bool {
	for tries, size := 0, int64(-1); ; tries++ {
		info, err := a.file.Stat()
		if err != nil || info.Size() == 0 {
			return false
		}
		var last [1]byte
		if _, err := a.file.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
			return false
		}
		if info.Size() == size || tries == tornTries {
			return true
		}
		size = info.Size()
		time.Sleep(tornPause)
	}
}

// Close syncs the trail to the disk and closes it.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	err := errors.Join(a.file.Sync(), a.file.Close())
	a.file = nil
	return err
}
