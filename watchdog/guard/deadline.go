package guard

import (
	"fmt"
	"time"
)

// Deadline is something that must be confirmed in time: a start-up or a
// shutdown. If it is not, the reaction is that to a wedge: a dump and the exit,
// or the dump alone. It belongs to the arming in which it was made: Arm and
// Disarm void it. Its methods are safe for concurrent use.
type Deadline struct {
	loop   *Loop
	what   string
	within time.Duration

	// Under the lock of the loop, so that a Confirm comes either before an exit
	// or not at all.
	generation uint64
	extensions int
	confirmed  bool
	began, due time.Time
	timer      *time.Timer // nil: off
}

// DeadlineForStartup expects Confirm within the time given; 0 or less is off.
// Progress starts the time anew, up to extensions times. Confirm, then Arm.
func (l *Loop) DeadlineForStartup(within time.Duration, extensions int) *Deadline {
	return l.deadline("the start-up", within, extensions)
}

// DeadlineForShutdown expects Confirm within the time given; 0 or less is off.
// Disarm first.
func (l *Loop) DeadlineForShutdown(within time.Duration) *Deadline {
	return l.deadline("the shutdown", within, 0)
}

func (l *Loop) deadline(what string, within time.Duration, extensions int) *Deadline {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &Deadline{loop: l, generation: l.generation, what: what, within: within, extensions: extensions}
	if within > 0 {
		d.began = time.Now()
		d.due = d.began.Add(within)
		d.timer = time.AfterFunc(within, d.pass)
	}
	return d
}

// Progress starts the time anew. It reports whether it could: not after the
// last extension, and not once the deadline has passed, was confirmed, or is
// void.
func (d *Deadline) Progress() bool {
	d.loop.mu.Lock()
	defer d.loop.mu.Unlock()
	if d.timer == nil {
		return true
	}
	if !d.open() || d.extensions <= 0 || !d.timer.Stop() {
		return false
	}
	d.extensions--
	d.restart()
	return true
}

// Confirm says that it is done. It wins even while the dump is being written.
func (d *Deadline) Confirm() {
	d.loop.mu.Lock()
	defer d.loop.mu.Unlock()
	d.confirmed = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// open reports whether the deadline still counts; the loop is locked.
func (d *Deadline) open() bool { return !d.confirmed && d.generation == d.loop.generation }

func (d *Deadline) restart() {
	d.due = time.Now().Add(d.within)
	d.timer.Reset(d.within)
}

// pass is called when the time is over.
func (d *Deadline) pass() {
	l := d.loop
	l.mu.Lock()
	open := d.open()
	took := time.Since(d.began)
	late := time.Since(d.due) > max(d.within/2, time.Second)
	if open && late { // the process was stopped: that time does not count
		d.restart()
	}
	l.mu.Unlock()
	if !open || late {
		return
	}
	l.o.Logger.Error("a deadline has passed", "loop", l.o.Name, "deadline", d.what, "after", took)
	l.dumpAndExit(fmt.Sprintf("%s of %s did not end within %.3g s", d.what, l.o.Name, took.Seconds()), d.open)
}
