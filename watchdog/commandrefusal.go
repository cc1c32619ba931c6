package watchdog

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// CommandFault is why a receiver did not obey a command, whatever it asked for.
type CommandFault uint8

// The faults of commands.
const (
	CommandUnreadable CommandFault = iota // it is no command, or not to this session
	CommandUnsigned                       // it is not signed, and had to be
	CommandSignature                      // its signature is not that of a configured key
	CommandFleet                          // it is for another fleet
	CommandExpired                        // it came after it had expired
	CommandReplayed                       // it came again after it was finished

	commandFaults = int(CommandReplayed) + 1
)

var commandFaultNames = [...]string{"unreadable", "unsigned", "signature", "fleet", "expired", "replayed"}

// String is one word.
func (f CommandFault) String() string {
	if int(f) < len(commandFaultNames) {
		return commandFaultNames[f]
	}
	return "unknown"
}

// RefusedCommand tells of a command that a receiver did not obey. What it says
// of itself is not proved.
type RefusedCommand struct {
	Fault   CommandFault
	Session ID
	Command Command // its zero value if it could not be read
	Why     string  // a sentence
	Way     string  // by which it came: "nats", "redis", "here"
	At      time.Time
}

// RefusedCommands counts them by their fault. The zero value is ready.
type RefusedCommands [commandFaults]uint64

// Of is how many were refused for f.
func (n *RefusedCommands) Of(f CommandFault) uint64 {
	if int(f) >= len(n) {
		return 0
	}
	return n[f]
}

// Add counts one more.
func (n *RefusedCommands) Add(f CommandFault) {
	if int(f) < len(n) {
		n[f]++
	}
}

// Total is how many were refused.
func (n *RefusedCommands) Total() (total uint64) {
	for _, c := range n {
		total += c
	}
	return total
}

// String lists what was counted: "2 unsigned, 1 replayed".
func (n RefusedCommands) String() string {
	var parts []string
	for f, c := range n {
		if c > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c, CommandFault(f)))
		}
	}
	return strings.Join(parts, ", ")
}

// EventRefused is the Kind of a Transition that tells of a command that a
// receiver did not obey.
const EventRefused = "refused"

// Disobeyed says that a receiver in this process did not obey commands.
type Disobeyed struct {
	Command RefusedCommand  // the newest one
	Counts  RefusedCommands // how many since the last such event, that one included
	At      time.Duration   // Mono
}

func (Disobeyed) event() {}

// Whoever may send could fill the timeline with what is refused: after
// refusalsTold of them one is told each refusalPause. All are counted.
const (
	refusalsTold = 32
	refusalPause = 10 * time.Second
)

// refusals are the commands that were refused here.
type refusals struct {
	counts RefusedCommands
	untold uint64        // since the last that was told
	spent  time.Duration // Mono up to which the allowance is used
}

// disobeyed counts what was refused, and tells of it for people.
func (t *Tracker) disobeyed(e Disobeyed) {
	r := &t.refusals
	for f, n := range e.Counts {
		r.counts[f] += n
		r.untold += n
	}
	t.changes++
	r.spent = max(r.spent, e.At-refusalsTold*refusalPause)
	if r.spent+refusalPause > e.At || r.untold == 0 {
		return
	}
	r.spent += refusalPause
	text := "a command was not obeyed (" + e.Command.Fault.String() + ")"
	if c := &e.Command.Command; c.Op != "" {
		text = string(c.Op) + " by " + cmp.Or(c.IssuedBy, "somebody") + " was not obeyed (" + e.Command.Fault.String() + ")"
	}
	text += ": " + e.Command.Why
	if r.untold > 1 {
		text += fmt.Sprintf("; %d more", r.untold-1)
	}
	r.untold = 0
	t.note(Transition{Kind: EventRefused, ID: e.Command.Session, Generation: e.Command.Command.Generation, At: t.instantAt(e.At), Text: text})
}
