package recording

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Writer writes a recording entry by entry, in the caller's goroutine and as
// slowly as the file is. A Recorder stands between it and an engine.
type Writer struct {
	dialect *dialect
	out     *bufio.Writer
	gz      *gzip.Writer // nil: not compressed
	file    io.Closer    // nil: not ours
	counted *countingWriter
	line    []byte
	err     error
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter writes the header to w and is ready for entries.
func NewWriter(w io.Writer, compress bool, h Header) (*Writer, error) {
	level := gzip.NoCompression
	if compress {
		level = gzip.DefaultCompression
	}
	return newWriter(w, level, h)
}

// newWriter is NewWriter at a level of gzip; NoCompression: no gzip at all.
func newWriter(w io.Writer, level int, h Header) (*Writer, error) {
	counted := &countingWriter{w: w}
	out := &Writer{dialect: newDialect(), counted: counted}
	if level != gzip.NoCompression {
		gz, err := gzip.NewWriterLevel(counted, level)
		if err != nil {
			return nil, err
		}
		out.gz = gz
		out.out = bufio.NewWriterSize(out.gz, 64<<10)
	} else {
		out.out = bufio.NewWriterSize(counted, 64<<10)
	}
	line, err := out.dialect.appendHeader(nil, h)
	if err != nil {
		return nil, fmt.Errorf("cannot write the header of the recording: %w", err)
	}
	if _, err := out.out.Write(line); err != nil {
		return nil, fmt.Errorf("cannot write the recording: %w", err)
	}
	return out, out.Flush()
}

// Create makes the file of a recording, readable by its owner alone, and
// writes the header. It never follows a symbolic link, and replaces a file
// only if overwrite is set and it is a regular one.
func Create(path string, overwrite bool, h Header) (*Writer, error) {
	file, err := createFile(path, overwrite)
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(file, strings.HasSuffix(path, ".gz"), h)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	w.file = file
	return w, nil
}

func createFile(path string, overwrite bool) (*os.File, error) {
	// O_NONBLOCK: a pipe without a reader must give an error, not a hang.
	const flags = os.O_WRONLY | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(path, flags|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		return file, nil
	case !errors.Is(err, os.ErrExist):
		return nil, fmt.Errorf("cannot create the recording: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot create the recording: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file (%s); give the recording another name", path, info.Mode().Type())
	case !overwrite:
		return nil, fmt.Errorf("%s exists already; give the recording another name, or say that it may be overwritten", path)
	}
	if file, err = os.OpenFile(path, flags, 0o600); err != nil {
		return nil, fmt.Errorf("cannot overwrite the recording: %w", err)
	}
	if err := takeOver(file); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot overwrite %s: %w", path, err), file.Close())
	}
	return file, nil
}

// takeOver empties an existing file and makes it its owner's alone. It looks
// again, because the name may have changed hands since the first look.
func takeOver(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if err := file.Chmod(0o600); err != nil {
		return err
	}
	return file.Truncate(0)
}

// Beat writes one beat. Clock is the Mono of the last tick that was applied
// before it, or negative if the last entry told it already.
func (w *Writer) Beat(clock time.Duration, b *watchdog.Beat) error {
	line, err := w.dialect.appendBeat(w.line[:0], clock, b)
	return w.write(line, err)
}

// Event writes one event; clock as for Beat. A Ticked is written as it is:
// thinning is the Recorder's.
func (w *Writer) Event(clock time.Duration, ev watchdog.Event) error {
	line, err := w.dialect.appendEvent(w.line[:0], clock, ev)
	return w.write(line, err)
}

// Gap writes that entries are missing here.
func (w *Writer) Gap(g Gap) error { return w.write(appendGap(w.line[:0], g), nil) }

func (w *Writer) write(line []byte, err error) error {
	w.line = line[:0]
	switch {
	case w.err != nil:
		return w.err
	case err != nil:
		return fmt.Errorf("cannot record: %w", err)
	case len(line) > maxLine:
		return fmt.Errorf("cannot record an entry of %d bytes: the limit is %d", len(line), maxLine)
	}
	if _, err := w.out.Write(line); err != nil {
		w.err = fmt.Errorf("cannot write the recording: %w", err)
	}
	return w.err
}

// Flush hands everything to the operating system: what a crash of this process
// cannot lose any more.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	err := w.out.Flush()
	if err == nil && w.gz != nil {
		err = w.gz.Flush()
	}
	if err != nil {
		w.err = fmt.Errorf("cannot write the recording: %w", err)
	}
	return w.err
}

// endMember ends what was compressed so far, so that it can be read up to here,
// and begins anew behind it: members that follow each other are one file.
func (w *Writer) endMember() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.gz.Close(); err != nil {
		w.err = fmt.Errorf("cannot write the recording: %w", err)
		return w.err
	}
	w.gz.Reset(w.counted)
	return nil
}

func (w *Writer) broken() error { return w.err }

// Size is how many bytes the file has so far, as of the last Flush.
func (w *Writer) Size() int64 { return w.counted.n }

// Close completes the file. It gives the first error that any write met.
func (w *Writer) Close() error {
	err := w.Flush()
	if w.gz != nil && err == nil {
		err = w.gz.Close()
	}
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}
