package watchdog

import "time"

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
