package guard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	dumpWithin = 2 * time.Second
	hookWithin = 500 * time.Millisecond
	lineWithin = 200 * time.Millisecond
	// maxDump bounds the stacks of very many goroutines.
	maxDump = 64 << 20
)

// dumpAndExit writes the stacks of all goroutines and ends the process, whatever
// happens to the dump. current is asked under the lock, right before the end.
func (l *Loop) dumpAndExit(what string, current func() bool) {
	failed := l.dump(what)
	if l.o.DumpOnly {
		if failed != nil {
			l.o.Logger.Error("the dump is not complete", "loop", l.o.Name, "error", failed)
		}
		return
	}
	l.mu.Lock()
	still := current()
	l.mu.Unlock()
	if !still {
		return
	}
	if l.o.BeforeExit != nil {
		within(hookWithin, l.o.BeforeExit)
	}
	line := fmt.Sprintf("watchdog: %s: exit %d\n", what, l.o.ExitCode)
	switch {
	case failed != nil:
		line = fmt.Sprintf("watchdog: %s: exit %d; %s\n", what, l.o.ExitCode, strings.ReplaceAll(failed.Error(), "\n", "; "))
	case l.o.DumpFile != "":
		line = fmt.Sprintf("watchdog: %s: exit %d; dump in %s\n", what, l.o.ExitCode, l.o.DumpFile)
	}
	within(lineWithin, func() { _, _ = io.WriteString(os.Stderr, line) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if current() {
		l.o.Exit(l.o.ExitCode)
	}
}

// dump writes to the writer and to the file, side by side, so that neither
// holds the other up. It returns after dumpWithin in any case.
func (l *Loop) dump(what string) error {
	header := fmt.Sprintf("=== %s: %s (watchdog after %v, pid %d); the stacks of all goroutines follow\n",
		time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), what, l.WedgeAfter(), os.Getpid())
	var mu sync.Mutex
	errs := []error{errors.New("the dump did not end within " + dumpWithin.String())}
	within(dumpWithin, func() {
		text := append([]byte(header), stacks()...)
		text = append(text, "=== end of the stacks\n\n"...)
		var wg sync.WaitGroup
		results := make([]error, 2)
		wg.Go(func() { results[0] = writeAll(l.o.Dump, text) })
		if l.o.DumpFile != "" {
			wg.Go(func() { results[1] = appendFile(l.o.DumpFile, text) })
		}
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		errs = results
	})
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(errs...)
}

func writeAll(to io.Writer, text []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the writer of the dump panicked: %v", v)
		}
	}()
	if _, err := io.Copy(to, bytes.NewReader(text)); err != nil {
		return fmt.Errorf("the dump could not be written: %w", err)
	}
	return nil
}

// appendFile appends to a regular file of our own; a planted link or pipe is
// refused.
func appendFile(path string, text []byte) error {
	f, err := openOwn(path)
	if err != nil {
		return fmt.Errorf("the dump file cannot be opened: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("the dump file could not be written: %w", err)
	}
	return nil
}

// stacks are those of all goroutines.
func stacks() []byte {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return buf[:n]
		}
		if size >= maxDump {
			return append(buf, "\n... cut\n"...)
		}
	}
}

// within calls foreign code that may hang or panic, and waits for it up to a
// limit. It reports whether the code has returned.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		protect(f)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
