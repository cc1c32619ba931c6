package terminal

import tea "charm.land/bubbletea/v2"

// posted is a function that is called on the screen's loop and goes no further.
type posted func()

// Post puts f onto the loop of the screen that runs, to be called there in its
// turn; the model is not told, and nothing is drawn for it. It blocks until the
// first frame and while the loop is busy. It is false if there is no loop to
// speak of: no screen runs, or a command has the terminal (Lend), and the loop
// waits for that one. It is how a loop watchdog reaches the screen.
func (t *Terminal) Post(f func()) bool {
	p := t.program.Load()
	if p == nil || t.Lent() {
		return false
	}
	p.Send(posted(f))
	return t.program.Load() == p
}

// hold makes a program the one that Post reaches, until release is called.
func (t *Terminal) hold(p *tea.Program) (release func()) {
	t.program.Store(p)
	return func() { t.program.Store(nil) }
}
