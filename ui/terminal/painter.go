package terminal

import (
	"bytes"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

const (
	// framePause is how long a frame stands before the next one: what comes in
	// by itself is drawn 30 times a second at most.
	framePause = time.Second / 30
	// hastyPause is the same for hastyTime after a key: who pressed it waits
	// for what it does.
	hastyPause = time.Second / 120
	hastyTime  = 150 * time.Millisecond
)

// painter draws what the model shows, as the difference to what the terminal
// shows, at the moment when there is something to draw. Bubble Tea would look
// for that at each tick of a clock, which costs an idle screen most of its
// processor time, and a key and the first frame the wait for the tick.
//
// Of a view it draws the content and obeys mouse mode, focus reports and title;
// the cursor is always hidden.
type painter struct {
	out     *Output
	env     []string
	profile colorprofile.Profile
	spawn   func(func()) // runs the timer's call under Guard

	mu       sync.Mutex
	screen   *uv.TerminalRenderer // nil: not begun
	cells    uv.ScreenBuffer
	drawn    bytes.Buffer // what screen wants to write
	frame    bytes.Buffer
	wanted   tea.View
	shown    tea.View
	fresh    bool // nothing is on the terminal yet
	erased   bool // what is on it cannot be relied upon
	synced   bool // it can hold back the display until a frame is whole
	clusters bool // it measures whole grapheme clusters
	told     bool // it has said of both whether it can

	last  time.Time // when a frame had been drawn
	hasty time.Time // until then a key waits for what it does
	timer *time.Timer
	due   time.Time // when the timer fires; zero: it does not
}

func newPainter(t *Terminal, profile colorprofile.Profile) *painter {
	return &painter{out: t.out, env: t.env, profile: profile, spawn: t.Guard}
}

// begin makes the next frame the first one on a terminal that shows nothing of
// ours. open lets frames through to it; no frame can come in between.
func (p *painter) begin(width, height int, open func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open()
	p.drawn.Reset()
	p.screen = uv.NewTerminalRenderer(&p.drawn, p.env)
	p.screen.SetColorProfile(p.profile)
	p.screen.SetFullscreen(true)
	p.screen.SetScrollOptim(true)
	p.screen.SetGraphemeWidth(p.clusters)
	p.screen.SetBackspace(true)
	p.screen.Erase()
	p.cells = uv.NewScreenBuffer(width, height)
	if p.clusters {
		p.cells.Method = ansi.GraphemeWidth
	}
	p.fresh = true
	p.last = time.Time{}
}

// end draws nothing any more.
func (p *painter) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}

// show takes the newest view, and draws it now or as soon as the frame before
// has stood long enough.
func (p *painter) show(v tea.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = v
	p.paint(time.Now())
}

// hasten makes what follows a key come at once.
func (p *painter) hasten() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hasty = time.Now().Add(hastyTime)
}

// erase makes the next frame paint everything, at a size that may be new.
func (p *painter) erase(width, height int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen == nil {
		return
	}
	p.erased = true
	p.screen.Erase()
	p.screen.Resize(width, height) // forgets where the cursor is, too
	if width != p.cells.Width() || height != p.cells.Height() {
		p.cells.Touched = nil
		p.cells.Resize(width, height)
	}
}

func (p *painter) size() (width, height int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cells.Width(), p.cells.Height()
}

// learn takes what the terminal says of itself.
func (p *painter) learn(report tea.ModeReportMsg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	can := report.Value == ansi.ModeReset || report.Value == ansi.ModeSet || report.Value == ansi.ModePermanentlySet
	switch report.Mode {
	case ansi.ModeSynchronizedOutput:
		p.synced = report.Value == ansi.ModeReset
	case ansi.ModeUnicodeCore:
		p.told = true // the last of the two questions
		if can && !p.clusters && p.screen != nil {
			p.clusters, p.erased = true, true
			p.cells.Method = ansi.GraphemeWidth
			p.screen.SetGraphemeWidth(true)
			p.screen.Erase()
			_, _ = p.screen.WriteString(ansi.SetModeUnicodeCore)
		}
	}
}

// paint draws if there is something to draw and it is time for it. The caller
// holds mu.
func (p *painter) paint(now time.Time) {
	if p.screen == nil || !p.fresh && !p.erased && sameView(&p.wanted, &p.shown) {
		return
	}
	pause := framePause
	if now.Before(p.hasty) {
		pause = hastyPause
	}
	if due := p.last.Add(pause); now.Before(due) {
		p.wake(now, due)
		return
	}
	p.draw()
	p.last = time.Now() // a frame that took long leaves the model as long to itself
}

// wake paints again at due. The caller holds mu.
func (p *painter) wake(now, due time.Time) {
	switch {
	case p.timer == nil:
		p.timer = time.AfterFunc(due.Sub(now), func() { p.spawn(p.woken) })
	case p.due.IsZero() || due.Before(p.due):
		p.timer.Reset(due.Sub(now))
	default:
		return
	}
	p.due = due
}

func (p *painter) woken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	p.paint(time.Now())
}

func sameView(a, b *tea.View) bool {
	return a.Content == b.Content && a.MouseMode == b.MouseMode && a.ReportFocus == b.ReportFocus && a.WindowTitle == b.WindowTitle
}

// draw hands one frame to the output. The caller holds mu.
func (p *painter) draw() {
	p.frame.Reset()
	if p.fresh {
		p.frame.WriteString(enterScreen + ansi.ResetModeTextCursorEnable)
	}
	if p.synced {
		p.frame.WriteString(ansi.SetModeSynchronizedOutput)
	}
	empty := p.frame.Len()
	p.setModes(&p.wanted)
	p.cells.Clear()
	uv.NewStyledString(p.wanted.Content).Draw(p.cells, p.cells.Bounds())
	p.screen.Render(p.cells.RenderBuffer)
	_ = p.screen.Flush() // into memory
	p.frame.Write(p.drawn.Bytes())
	p.drawn.Reset()
	drawn := p.frame.Len() > empty
	if p.synced {
		p.frame.WriteString(ansi.ResetModeSynchronizedOutput)
	}
	if p.fresh && !p.told && asksModes(p.env) {
		p.frame.WriteString(ansi.RequestModeSynchronizedOutput + ansi.RequestModeUnicodeCore)
	}
	if drawn {
		_, _ = p.out.Write(p.frame.Bytes())
	}
	p.shown, p.fresh, p.erased = p.wanted, false, false
}

// setModes turns on what the view wants, and off what the one before wanted.
// At the end all of it is undone by the output, which knows what went out.
func (p *painter) setModes(v *tea.View) {
	before := p.shown
	if p.fresh {
		before = tea.View{}
		p.frame.WriteString(ansi.SetModeBracketedPaste + ansi.SetModifyOtherKeys2 + ansi.PushKittyKeyboard(1))
		if p.clusters {
			p.frame.WriteString(ansi.SetModeUnicodeCore)
		}
	}
	if v.ReportFocus != before.ReportFocus {
		if v.ReportFocus {
			p.frame.WriteString(ansi.SetModeFocusEvent)
		} else {
			p.frame.WriteString(ansi.ResetModeFocusEvent)
		}
	}
	if v.MouseMode != before.MouseMode {
		if before.MouseMode != tea.MouseModeNone {
			p.frame.WriteString(ansi.ResetModeMouseButtonEvent + ansi.ResetModeMouseAnyEvent + ansi.ResetModeMouseExtSgr)
		}
		switch v.MouseMode {
		case tea.MouseModeCellMotion:
			p.frame.WriteString(ansi.SetModeMouseButtonEvent + ansi.SetModeMouseExtSgr)
		case tea.MouseModeAllMotion:
			p.frame.WriteString(ansi.SetModeMouseAnyEvent + ansi.SetModeMouseExtSgr)
		}
	}
	if v.WindowTitle != before.WindowTitle {
		p.frame.WriteString(ansi.SetWindowTitle(v.WindowTitle))
	}
}

// asksModes reports whether a terminal may be asked which modes it knows. Some
// draw the question; those behind a connection that may be slow are asked only
// if they are known to answer.
func asksModes(environ []string) bool {
	name, program := lookup(environ, "TERM"), lookup(environ, "TERM_PROGRAM")
	switch {
	case name == "" || name == "dumb" || name == "linux" || strings.Contains(program, "Apple"):
		return false
	case lookup(environ, "SSH_TTY") == "" || lookup(environ, "WT_SESSION") != "":
		return true
	}
	for _, known := range []string{"ghostty", "wezterm", "alacritty", "kitty", "rio"} {
		if strings.Contains(name, known) {
			return true
		}
	}
	return false
}
