package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// A guardian is this program once more, as a small process that does nothing
// but outlive the one with the screen (its ward) for a moment: it gives the
// terminal back when the ward could not do so itself, which is after a panic in
// a goroutine that nobody guarded, a fatal error of the Go runtime, and SIGKILL.
//
// It learns from a pipe what to do then (a charge a line, the last one counts),
// and of the ward's end from the end of that pipe. What Go prints when it
// crashes comes by a socket whose buffer holds a few words: the ward stands
// still in the midst of its last words until the guardian has read them, so
// that the terminal is right before the shell knows that anything ended.
//
// The argument is there for a program that does not know of guardians, such as
// an older one that has been put into the place of this one: it refuses it.
const (
	guardianVariable = "SESSIONWATCH_TERMINAL_GUARDIAN"
	guardianArgument = "--terminal-guardian"
)

// The descriptors of a guardian. It has no others.
const (
	fdCharges  = iota // a pipe
	fdScreen          // the terminal, to write to
	fdReport          // the ward's standard error
	fdKeyboard        // the terminal, for its line discipline
	fdCrash           // a socket
	fdPrinted         // a pipe: what the ward printed to standard error while its screen was up
	fdOthers
)

const (
	// crashKept is how much of a crash is kept, in bytes.
	crashKept = 4 << 20
	// headlineWithin is how far into a crash its headline is looked for.
	headlineWithin = 4 << 10
	// openLimit is how long a slow disk may keep a crashed program from its end.
	openLimit = 300 * time.Millisecond
	// shellLimit is how long the shell has to see to its line discipline itself,
	// and shellPoll how often that is looked at.
	shellLimit = 300 * time.Millisecond
	shellPoll  = 2 * time.Millisecond
)

// charge is what a guardian is to do if its ward ends now.
type charge struct {
	Up     bool        // the screen is on the terminal; else there is nothing to do
	Undo   []byte      // takes back the modes that are on
	Saved  *term.State // the line discipline to give back
	Ours   *term.State // as the screen has set it; nil: not known
	Groups []int       // the ward's process group, then that of its shell, if there is one
	Crash  string      // where the text of a crash is kept; empty nowhere
}

// BeGuardian lets a guardian do its work, and returns when that is done. It is false
// at once in a process that is not one. A program whose terminals have Guardian
// set calls it first of all, with its arguments (without its name).
func BeGuardian(args, environ []string) bool {
	if lookup(environ, guardianVariable) == "" || !slices.Equal(args, []string{guardianArgument}) {
		return false
	}
	if !isKind(fdCharges, unix.S_IFIFO) || !isKind(fdCrash, unix.S_IFSOCK) {
		return false // somebody tries out what this is
	}
	defer func() { _ = recover() }() // whatever it is, it must not be seen
	// What is meant for the ward, or for all processes of this name, is not
	// meant for the guardian: it ends when the ward has.
	signal.Ignore(unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE)
	closeOthers()
	debug.FreeOSMemory() // of what the packages of the program made at their start
	var g guardian
	g.watch()
	return true
}

func isKind(fd int, kind uint32) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && uint32(s.Mode)&unix.S_IFMT == kind
}

// closeOthers closes what the ward inherited from others and passed on without
// knowing. What Go opens for itself has the flag that this looks for.
func closeOthers() {
	for fd := uintptr(fdOthers); fd < 1024; fd++ {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(int(fd))
		}
	}
}

type guardian struct {
	charge charge
	rest   []byte // of a charge that has not come whole yet
}

// watch waits for the ward's end, and sees to it.
func (g *guardian) watch() {
	crash := int32(fdCrash)
	for {
		fds := []unix.PollFd{{Fd: fdCharges, Events: unix.POLLIN}, {Fd: crash, Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		ended := fds[0].Revents != 0 && !g.learn()
		if fds[1].Revents != 0 || ended && crash >= 0 {
			for !ended && pollFor(fdCharges, unix.POLLIN, 0) {
				ended = !g.learn()
			}
			if text := readSome(fdCrash); len(text) > 0 {
				g.crashed(text)
				return
			}
			crash = -1 // closed without a word
		}
		if ended {
			g.killed()
			return
		}
	}
}

// learn reads charges. It is false when the ward has ended.
func (g *guardian) learn() bool {
	text := readSome(fdCharges)
	if len(text) == 0 {
		return false
	}
	g.rest = append(g.rest, text...)
	for {
		line, rest, whole := bytes.Cut(g.rest, []byte{'\n'})
		if !whole {
			return true
		}
		var c charge
		if json.Unmarshal(line, &c) == nil {
			g.charge = c
		}
		g.rest = rest
	}
}

// readSome reads what there is, or waits for something. Nothing is the end.
func readSome(fd int) []byte {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return buf[:max(n, 0)]
	}
}

// killed sees to a terminal whose program ended without a word.
func (g *guardian) killed() {
	if g.charge.Up && g.restore(shellLimit) {
		say("sessionwatch was killed; the terminal has been restored.\n")
	}
}

// crashed sees to a terminal whose program is dying: it does so no faster than
// its text is read.
func (g *guardian) crashed(text []byte) {
	for headline(text) == "" && !bytes.Contains(text, []byte("goroutine ")) && len(text) < headlineWithin {
		more := readSome(fdCrash)
		if text = append(text, more...); len(more) == 0 {
			break
		}
	}
	what := headline(text)
	if what == "" {
		// Go says which fatal error it is before it begins to crash.
		before, _, _ := bytes.Cut(readReady(fdPrinted), []byte("\ngoroutine "))
		if what = headline(before); what == "" {
			what = "fatal error of the Go runtime"
		}
		text = slices.Concat(before, []byte{'\n'}, text)
	}
	if g.charge.Up {
		g.restore(0) // the ward stands still in its last words, and the shell waits for it
	}
	file, err := openWithin(g.charge.Crash, openLimit)
	if g.charge.Up { // else Go says it all where it can be seen
		where := "There is no place to keep the stack in.\n"
		switch {
		case err != nil:
			where = fmt.Sprintf("The stack could not be kept: %s\n", termtext.CleanLong(err.Error()))
		case file != nil:
			where = fmt.Sprintf("The stack is kept in %s\n", termtext.CleanLong(g.charge.Crash))
		}
		say(faultNotice + what + "\n" + where)
	}
	for more := readSome(fdCrash); len(more) > 0; more = readSome(fdCrash) {
		text = append(text, more[:min(len(more), crashKept-len(text))]...)
	}
	if file == nil {
		return
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err != nil && g.charge.Up {
		say(fmt.Sprintf("The stack could not be kept: %s\n", termtext.CleanLong(err.Error())))
	}
}

// restore gives the terminal back. It is false if the terminal has become
// somebody else's, and is left alone.
//
// A shell that learns of the end sets the line discipline for the line that it
// reads next, and looks at it no more before that has been read: whoever sets
// another one after it spoils the line. So the shell has limit to do it, and is
// relied upon if it has.
func (g *guardian) restore(limit time.Duration) bool {
	c := g.charge
	group, err := unix.IoctlGetInt(fdKeyboard, unix.TIOCGPGRP)
	ours := err != nil || len(c.Groups) > 0 && group == c.Groups[0] || errors.Is(unix.Kill(-group, 0), unix.ESRCH)
	if !ours && !slices.Contains(c.Groups, group) {
		return false
	}
	screen := reopen(os.NewFile(fdScreen, "/dev/tty"), unix.O_WRONLY)
	if screen < 0 {
		screen = fdScreen
	}
	writeWithin(screen, c.Undo, restoreLimit)
	if ours {
		_ = discard(fdKeyboard, discardInput)
	}
	if len(c.Groups) < 2 {
		limit = 0 // there is no shell
	}
	if c.asSet(ours, limit) {
		_ = term.Restore(fdKeyboard, c.Saved)
	}
	return true
}

// asSet reports whether the line discipline is still as the screen had set it when
// the limit has passed; unknown is the answer where it is not known how that was.
func (c *charge) asSet(unknown bool, limit time.Duration) bool {
	for until := time.Now().Add(limit); ; time.Sleep(shellPoll) {
		switch now, err := term.GetState(fdKeyboard); {
		case err != nil || c.Ours == nil:
			return unknown
		case *now != *c.Ours:
			return false
		case !time.Now().Before(until):
			return true
		}
	}
}

// headline is the last line that says what happened; empty: it has not come.
func headline(text []byte) (what string) {
	for line := range strings.Lines(string(text)) {
		for _, start := range []string{"panic: ", "fatal error: ", "SIG"} {
			if strings.HasPrefix(line, start) && strings.HasSuffix(line, "\n") {
				what = termtext.Truncate(termtext.CleanLong(strings.TrimSuffix(line, "\n")), headlineCells)
			}
		}
	}
	return what
}

// headlineCells is how wide the headline may be: a few rows.
const headlineCells = 300

// openWithin opens the file for a crash; nil without an error: there is none.
func openWithin(path string, limit time.Duration) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := openCrash(path)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-time.After(limit):
		return nil, fmt.Errorf("opening %s takes too long", path)
	}
}

// say writes to standard error, which may be a terminal that takes nothing.
func say(text string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = os.Stderr.WriteString(text)
	}()
	select {
	case <-said:
	case <-time.After(reportLimit):
	}
}
