package cli

import (
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How many refused commands wait to be told of, and how many of them have a line
// of their own in the audit file: as many at once, then that many a second. The
// rest is counted in the next line.
const (
	refusalsWait  = 1024
	refusalsBurst = 512
	refusalsRate  = 1
)

// refusals brings commands that were not obeyed to the audit file and to people.
// Whoever may publish to a bus can send as many as he likes: taking one never
// blocks.
type refusals struct {
	waiting chan watchdog.RefusedCommand

	mu     sync.Mutex
	counts watchdog.RefusedCommands // not told of yet

	unwritten uint64 // since the last line; of the goroutine that tells
}

func newRefusals() *refusals {
	return &refusals{waiting: make(chan watchdog.RefusedCommand, refusalsWait)}
}

// take notes one.
func (r *refusals) take(c watchdog.RefusedCommand) {
	r.mu.Lock()
	r.counts.Add(c.Fault)
	r.mu.Unlock()
	select {
	case r.waiting <- c:
	default: // it is counted
	}
}

// run tells of what was refused until quit is closed and nothing waits. told has
// the newest one and how many there were since the last call; line says whether it
// is to have a line in the audit file.
func (r *refusals) run(quit <-chan struct{}, told func(c watchdog.RefusedCommand, counts watchdog.RefusedCommands, line bool)) {
	allowance := float64(refusalsBurst)
	last := time.Now()
	tell := func(c watchdog.RefusedCommand) {
		now := time.Now()
		allowance = min(refusalsBurst, allowance+refusalsRate*now.Sub(last).Seconds())
		last = now
		line := allowance >= 1
		if line {
			allowance--
		}
		r.mu.Lock()
		counts := r.counts
		r.counts = watchdog.RefusedCommands{}
		r.mu.Unlock()
		told(c, counts, line)
	}
	for {
		select {
		case c := <-r.waiting:
			tell(c)
		case <-quit:
			for {
				select {
				case c := <-r.waiting:
					tell(c)
				default:
					return
				}
			}
		}
	}
}

// refusedEntry is a line of the audit file about a command that was not obeyed.
// What it says of itself is not proved.
type refusedEntry struct {
	Event      string  `json:"event"` // action.refused
	Timestamp  float64 `json:"timestamp"`
	Fault      string  `json:"fault"`
	Command    string  `json:"command_id,omitempty"`
	Op         string  `json:"op,omitempty"`
	SessionID  string  `json:"session_id"`
	Generation int64   `json:"generation"` // 0 not known
	Fate       string  `json:"fate"`
	Detail     string  `json:"detail"`
	Reason     string  `json:"reason"`
	IssuedBy   string  `json:"issued_by"`
	By         string  `json:"by"`
	Way        string  `json:"way"`
	Unwritten  uint64  `json:"unwritten,omitempty"` // others since the last line, which have none
}

// refused writes a command that was not obeyed to the audit file, and shows it.
func (a *acting) refused(r watchdog.RefusedCommand, counts watchdog.RefusedCommands, line bool) {
	if a.engine != nil {
		a.engine.Post(watchdog.Disobeyed{Command: r, Counts: counts, At: a.o.clock.Now().Mono})
	}
	if !line {
		a.refusals.unwritten++
		return
	}
	c := &r.Command
	err := a.write(refusedEntry{Event: "action.refused", Timestamp: unixSeconds(time.Now()), Fault: r.Fault.String(), Command: c.ID, Op: string(c.Op),
		SessionID: string(r.Session), Generation: int64(c.Generation), Fate: watchdog.FateRefused.String(), Detail: r.Why, Reason: c.Reason,
		IssuedBy: c.IssuedBy, By: a.by, Way: r.Way, Unwritten: a.refusals.unwritten})
	if err != nil {
		a.o.log.Error("a refused command is missing in the audit file", "session", r.Session, "command", c.ID, "fault", r.Fault.String(), "error", err)
		return
	}
	a.refusals.unwritten = 0
}
