package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/internal/config"
)

const (
	outputPoll   = 20 * time.Millisecond
	outputSettle = 200 * time.Millisecond // a dump that has not grown for so long is whole
)

// takeSignal sends a signal and takes what comes in the output, or in the dump
// file, from that moment on.
func (c *capturing) takeSignal(ctx context.Context, s syscall.Signal, limit int64) (taking, error) {
	a, err := c.listen()
	if err != nil {
		return taking{}, err
	}
	if err := c.signal(s); err != nil {
		return taking{}, err
	}
	return c.await(ctx, unix.SignalName(s), a, limit)
}

// signal sends a signal to the target and to no other process that has its
// number by now: the handle is taken first, and checked by its start time.
func (c *capturing) signal(s syscall.Signal) error {
	p, err := os.FindProcess(c.target.pid)
	if err != nil {
		return fmt.Errorf("process %d is gone: %w", c.target.pid, err)
	}
	defer func() { _ = p.Release() }()
	if why := c.alive(); why != "" {
		return errors.New(why)
	}
	if err := p.Signal(s); err != nil {
		return fmt.Errorf("%s could not be sent to process %d: %w", unix.SignalName(s), c.target.pid, err)
	}
	return nil
}

// answer is what comes after a question.
type answer struct {
	from int64                          // where it begins
	end  func() int64                   // its end, which moves as more comes
	read func() (text []byte, cut bool) // all of it
}

// listen marks where the output, or the dump file, ends now.
func (c *capturing) listen() (answer, error) {
	if path := c.dumpFile(); path != "" {
		end := func() int64 {
			info, err := os.Lstat(path)
			if err != nil {
				return 0
			}
			return info.Size()
		}
		from := end()
		return answer{from, end, func() ([]byte, bool) {
			text, cut, _ := readDumpFile(path, from, c.want.Dump.MaxBytes)
			return text, cut
		}}, nil
	}
	if c.want.Output == nil {
		return answer{}, errors.New("its output is not kept: a dump could not be seen")
	}
	from := c.want.Output.Mark()
	return answer{from, c.want.Output.Mark, func() ([]byte, bool) {
		text := c.want.Output.Since(from)
		return text, int64(len(text)) < c.want.Output.Mark()-from
	}}, nil
}

// signalNamed reports whether the settings name the signal: what comes after it
// is then worth keeping whatever it is.
func (c *capturing) signalNamed() bool { return c.want.Dump.Mode.Kind == config.DumpSignal }

// await waits until a dump has come and is whole. Other output may come with it:
// it is kept, for it may have torn the dump's lines.
func (c *capturing) await(ctx context.Context, asked string, a answer, limit int64) (taking, error) {
	tick := time.NewTicker(outputPoll)
	defer tick.Stop()
	began := time.Now()
	changed := began
	for end, judged := a.from, a.from; ; {
		if now := a.end(); now != end {
			end, changed = now, time.Now()
		}
		late := ctx.Err() != nil
		if late || end != judged && time.Since(changed) >= outputSettle {
			judged = end
			text, cut := a.read()
			got := taking{cut: cut}
			switch {
			case holdsDump(text):
			case late && c.signalNamed() && len(bytes.TrimSpace(text)) > 0:
				got.note = "no dump of a known kind: all that came after the signal"
			case late:
				return taking{}, fmt.Errorf("%s brought no dump within %s", asked, time.Since(began).Round(100*time.Millisecond))
			default:
				text = nil
			}
			if text != nil {
				got.text, cut = clip(text, limit)
				got.cut = got.cut || cut
				return got, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// fileRung takes what the program has dumped by itself since it was started.
func (c *capturing) fileRung() rung {
	return rung{
		method: methodFile, grade: gradeRuntime,
		skip: func() string {
			if c.dumpFile() == "" {
				return "dump.mode names no file"
			}
			return ""
		},
		take: func(_ context.Context, limit int64) (taking, error) {
			text, cut, err := readDumpFile(c.dumpFile(), c.want.FileOffset, limit)
			if err == nil && len(bytes.TrimSpace(text)) == 0 {
				err = errors.New("nothing was appended to the dump file since the start")
			}
			return taking{text: text, cut: cut}, err
		},
	}
}

const methodFile = "file"

// afterExit looks for the dump that a program wrote before it ended by itself.
func (c *capturing) afterExit(ctx context.Context) {
	file := c.fileRung()
	if why := file.skip(); why != "" {
		c.skip(file.method, why)
	} else if c.try(ctx, file, 1) {
		c.skip("output", "the dump file has it")
		return
	}
	if c.want.Output == nil {
		c.skip("output", "its output is not kept")
		return
	}
	c.try(ctx, rung{method: "output", grade: gradeRuntime, take: c.takeLastOutput}, 1)
}

// takeLastOutput finds the last dump in the output of a program that has ended.
// What it wrote at the end may still be on its way through the pipe.
func (c *capturing) takeLastOutput(ctx context.Context, limit int64) (taking, error) {
	tick := time.NewTicker(outputPoll)
	defer tick.Stop()
	for mark, changed := c.want.Output.Mark(), time.Now(); time.Since(changed) < outputSettle && ctx.Err() == nil; {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if now := c.want.Output.Mark(); now != mark {
			mark, changed = now, time.Now()
		}
	}
	text := c.want.Output.Since(0)
	lost := int64(len(text)) < c.want.Output.Mark()
	start := lastDumpStart(text)
	if start < 0 {
		return taking{}, errors.New("its output holds no dump")
	}
	clipped, cut := clip(text[start:], limit)
	// What the ring has lost is older than its first byte: a dump that begins
	// there may have begun before.
	return taking{text: clipped, cut: cut || lost && start == 0}, nil
}

// readDumpFile reads what was appended to a file since offset. The file belongs
// to the child, who may have put anything in its place: no symlink is followed,
// and nothing but a file is read. One that is shorter than it was is a new one.
func readDumpFile(path string, offset, limit int64) (text []byte, cut bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, fmt.Errorf("the dump file cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("the dump file cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("the dump file %s is no file: it is not read", path)
	}
	if offset < 0 || offset > info.Size() {
		offset = 0
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, false, fmt.Errorf("the dump file cannot be read: %w", err)
	}
	kept := &clipWriter{limit: limit}
	if _, err := io.Copy(kept, io.LimitReader(f, info.Size()-offset)); err != nil {
		return nil, false, fmt.Errorf("the dump file cannot be read: %w", err)
	}
	text, cut = kept.text()
	return bytes.TrimLeft(text, "\x00"), cut, nil
}
