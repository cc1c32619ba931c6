package terminal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// ErrNoTerminal says that there is no terminal to draw on.
var ErrNoTerminal = errors.New("no terminal: the screen needs one for input and output; use ls, check or --json in pipes and scripts")

// Exit codes of a process that ends from inside this package.
const (
	ExitFault  = 75  // an unrecovered panic
	exitSignal = 128 // plus the number of the signal
)

const (
	// restoreLimit is how long Restore may try to tell a terminal that does
	// not drain what to undo.
	restoreLimit = 100 * time.Millisecond
	// endGrace is how long the program has to end by itself after SIGTERM,
	// SIGHUP or SIGINT before the process exits without it.
	endGrace = 700 * time.Millisecond
	// flushLimit is how long leaving waits for the last frames.
	flushLimit = 300 * time.Millisecond
)

// Config says which terminal to use and how to leave it.
type Config struct {
	In, Out *os.File // nil: standard input and output, or /dev/tty for the input
	Env     []string // nil: os.Environ()

	// CrashFile is where a panic and its stack are written besides standard
	// error; empty nowhere. It is created with mode 0600 and never follows a
	// symbolic link.
	CrashFile string
	Stderr    io.Writer // nil: os.Stderr

	// Guardian lets the program start itself once more, after the first frame,
	// as the process that gives the terminal back when this one cannot. The
	// program must then begin with BeGuardian. Standard error
	// is held back while the screen is up, if it is the same terminal, and shown
	// after that.
	Guardian bool
	Log      *slog.Logger // of what goes wrong with that; nil: nowhere

	// Exit ends the process and must not return; nil: os.Exit.
	Exit func(code int)
}

// Terminal is a terminal that was opened for a screen: its state as it was,
// its input and its output. All methods may be called from any goroutine.
type Terminal struct {
	in      *Input
	out     *Output
	answer  time.Duration // how long giving back waits for answers
	env     []string
	crash   string
	stderr  io.Writer
	exit    func(int)
	opened  *os.File // /dev/tty, if we opened it
	hungUp  chan struct{}
	hangUp  sync.Once
	restart chan struct{} // ctrl+z was pressed
	drained chan struct{} // frames were lost and the terminal drains again
	answers chan Glyphs
	resized chan struct{} // it may have another size
	painter *painter      // of the model that runs
	program atomic.Pointer[tea.Program]
	ward    *ward

	lent    atomic.Bool // to a child process that uses the terminal
	faulted atomic.Bool
	running atomic.Bool

	mu    sync.Mutex
	saved *term.State // as it was before us, or at the last resume
	away  bool        // given back
}

// Open takes a terminal and remembers its state. It writes nothing and asks
// nothing: raw mode and the screen begin with Run.
func Open(c Config) (*Terminal, error) {
	t := &Terminal{
		env: c.Env, crash: c.CrashFile, stderr: c.Stderr, exit: c.Exit,
		hungUp: make(chan struct{}), restart: make(chan struct{}, 1), drained: make(chan struct{}, 1),
		answers: make(chan Glyphs, 1), resized: make(chan struct{}, 1), away: true, answer: answerLimit,
	}
	if t.env == nil {
		t.env = os.Environ()
	}
	if t.stderr == nil {
		t.stderr = os.Stderr
	}
	if t.exit == nil {
		t.exit = os.Exit
	}
	in, out, err := t.files(c)
	if err != nil {
		return nil, err
	}
	if t.saved, err = term.GetState(in.Fd()); err != nil {
		t.closeOpened()
		return nil, fmt.Errorf("reading the state of the terminal %s: %w", in.Name(), err)
	}
	t.in = newInput(in, func() { t.hangUp.Do(func() { close(t.hungUp) }) })
	t.in.answer = t.answers
	t.out = newOutput(out, func() {
		select {
		case t.drained <- struct{}{}:
		default:
		}
	})
	t.in.asked = t.out.asked
	if c.Guardian {
		t.guardian(c.Log)
	}
	return t, nil
}

// guardian prepares for one; it is started with the first frame.
func (t *Terminal) guardian(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	stderr, ok := t.stderr.(*os.File)
	if !ok {
		stderr = os.Stderr
	}
	t.ward = newWard(t.in.file, t.out.file, stderr, t.crash, log)
	t.out.ward = t.ward
}

// files finds the terminal to read from and the one to draw on.
func (t *Terminal) files(c Config) (in, out *os.File, err error) {
	in, out = c.In, c.Out
	if in == nil {
		in = os.Stdin
	}
	if out == nil {
		out = os.Stdout
	}
	if !term.IsTerminal(out.Fd()) {
		return nil, nil, ErrNoTerminal
	}
	if term.IsTerminal(in.Fd()) {
		return in, out, nil
	}
	if c.In != nil {
		return nil, nil, ErrNoTerminal
	}
	if in, err = os.OpenFile("/dev/tty", os.O_RDWR, 0); err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", ErrNoTerminal, err)
	}
	t.opened = in
	return in, out, nil
}

// Output is the screen side: how much of it was dropped, and whether the
// terminal takes what is written.
func (t *Terminal) Output() *Output { return t.out }

// Input is the keyboard side.
func (t *Terminal) Input() *Input { return t.in }

// Restore gives the terminal back as it was: modes, alternate screen, cursor,
// title, line discipline; what was typed and not read is thrown away, so that
// the shell never gets a key that was meant for the screen, nor an answer that
// was meant for us. Nothing is drawn any more until a suspended program resumes.
//
// It waits for nobody but the terminal: at most a tenth of a second for one that
// takes nothing, and half a second for one that owes answers. Calling it again,
// from anywhere, does nothing. It is the hook for a watchdog that is about to end
// the process. In the background it leaves the terminal alone: it belongs to
// someone else then.
func (t *Terminal) Restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away {
		t.out.sealed.Store(true)
		return
	}
	t.away = true
	t.in.sealed.Store(true)
	defer t.told()
	if !t.foreground() {
		t.out.sealed.Store(true)
		return
	}
	owed := t.out.seal(restoreLimit)
	fd := t.in.Fd()
	if !owed || !t.in.settle(t.answer) {
		_ = discard(int(fd), discardInput)
	}
	_ = term.Restore(fd, t.saved)
}

// told tells the guardian that there is nothing to do any more, and shows what
// was printed to standard error while that was held back.
func (t *Terminal) told() {
	if text := t.ward.give(); len(text) > 0 && t.out.fd >= 0 {
		writeWithin(t.out.fd, text, restoreLimit)
	}
}

// take begins to use the terminal, again or for the first time: raw mode, and
// the next frame is the first one.
func (t *Terminal) take() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, err := term.GetState(t.in.Fd()); err == nil {
		t.saved = now
	}
	t.away = false
	t.ward.take(t.saved)
	if _, err := term.MakeRaw(t.in.Fd()); err != nil {
		return fmt.Errorf("setting the terminal %s to raw mode: %w", t.in.Name(), err)
	}
	// What was typed before was meant for a screen that nobody had seen yet.
	_ = discard(int(t.in.Fd()), discardInput)
	width, height := t.size()
	t.painter.begin(width, height, func() {
		t.out.unseal()
		t.in.reset()
		_, _ = t.out.Write([]byte(pushTitle))
	})
	return nil
}

// The size of a terminal that does not tell, and the largest that is believed:
// every cell of it is kept in memory.
const (
	usualWidth, usualHeight = 80, 24
	maxSide, maxCells       = 4096, 1 << 20
)

// size is the size of the screen in cells.
func (t *Terminal) size() (width, height int) {
	width, height, err := term.GetSize(t.out.Fd())
	if err != nil || width > maxSide || height > maxSide || width*height > maxCells {
		width, height = 0, 0
	}
	return side(width, lookup(t.env, "COLUMNS"), usualWidth), side(height, lookup(t.env, "LINES"), usualHeight)
}

// side is one side as the terminal tells it, else the environment.
func side(told int, named string, usual int) int {
	if told > 0 {
		return told
	}
	if n, err := strconv.Atoi(named); err == nil && n > 0 && n <= maxSide/4 {
		return n
	}
	return usual
}

// askSize lets the screen learn the size again.
func (t *Terminal) askSize() {
	select {
	case t.resized <- struct{}{}:
	default:
	}
}

// foreground reports whether the terminal is ours to change. One that is not
// our controlling terminal always is.
func (t *Terminal) foreground() bool {
	group, err := unix.IoctlGetInt(int(t.in.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// Close gives the terminal back and ends the writer. The files given to Open
// stay open.
func (t *Terminal) Close() {
	t.Restore()
	t.ward.end()
	t.out.shut()
	t.in.shut()
	t.closeOpened()
}

func (t *Terminal) closeOpened() {
	if t.opened != nil {
		_ = t.opened.Close()
		t.opened = nil
	}
}
