package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Op is what a command asks for, in the word of the wire format. A receiver
// leaves a word that it does not know to those who do.
type Op string

// The ops of the wire format.
const (
	OpStop    Op = "stop"    // end it gracefully
	OpKill    Op = "kill"    // end it without a grace
	OpExpire  Op = "expire"  // write its end; no process is signalled
	OpRestart Op = "restart" // end it, verify that, start it again
	OpDump    Op = "dump"    // take a stack dump; it goes on
)

const opCount = 5

// Ops is every op, in the order in which they are shown.
func Ops() []Op { return []Op{OpStop, OpKill, OpExpire, OpRestart, OpDump} }

// ParseOp reads the word of an op.
func ParseOp(word string) (Op, error) {
	for _, op := range Ops() {
		if string(op) == word {
			return op, nil
		}
	}
	return "", fmt.Errorf("%q is no action; there are stop, kill, expire, restart and dump", word)
}

// Ends reports whether op is meant to end the execution that it is for.
func (op Op) Ends() bool { return op != OpDump }

// OpSet is a set of ops.
type OpSet uint8

// index is the place of op among Ops; -1 none.
func (op Op) index() int { return slices.Index(Ops(), op) }

func (op Op) bit() OpSet {
	if i := op.index(); i >= 0 {
		return 1 << i
	}
	return 0
}

// OpSetOf makes a set; unknown words are left out.
func OpSetOf(ops ...Op) OpSet {
	var s OpSet
	for _, op := range ops {
		s |= op.bit()
	}
	return s
}

// Has reports whether op is in the set.
func (s OpSet) Has(op Op) bool { return s&op.bit() != 0 }

// Ops lists the set in the order in which ops are shown.
func (s OpSet) Ops() []Op {
	var out []Op
	for _, op := range Ops() {
		if s.Has(op) {
			out = append(out, op)
		}
	}
	return out
}

// Fate is what has become of a command. They come in their order; one of the
// last six is its end, and nothing comes after it.
type Fate uint8

// The fates of a command.
const (
	FateNone          Fate = iota
	FateRequested          // it was asked for; nobody has it yet
	FateDelivered          // a receiver has it
	FateAcknowledged       // a receiver has begun with it
	FateEffective          // it did what it was to do, and that was verified
	FateIneffective        // it was carried out, and its target goes on
	FateRefused            // it was not carried out, and why
	FateUndeliverable      // no receiver took it
	FateLostRace           // its target ended otherwise first
	FateTimedOut           // it expired before anybody could tell what became of it
)

var fateNames = [...]string{"", "requested", "delivered", "acknowledged", "effective", "ineffective", "refused", "undeliverable", "lost_race", "timed_out"}

// String is the word of the wire format.
func (f Fate) String() string {
	if int(f) < len(fateNames) {
		return fateNames[f]
	}
	return "unknown"
}

// Sentence is the word for people.
func (f Fate) Sentence() string {
	switch f {
	case FateLostRace:
		return "lost the race"
	case FateTimedOut:
		return "timed out"
	}
	return f.String()
}

// ParseFate reads the word of the wire format.
func ParseFate(word string) (Fate, error) {
	for i, name := range fateNames {
		if i > 0 && name == word {
			return Fate(i), nil
		}
	}
	return FateNone, fmt.Errorf("%q is no fate of a command", word)
}

// Final reports whether nothing comes after it.
func (f Fate) Final() bool { return f >= FateEffective }

// Command is an operator's wish, pinned to one execution.
type Command struct {
	ID         string // minted: the same on every delivery
	Fleet      string // identity of the authority that the sender knows; empty unknown
	Op         Op
	Session    ID
	Generation Generation // 0: its number is not known
	BootID     string     // empty: not known
	Reason     string
	IssuedBy   string
	At         time.Time // wall clock of the sender
	Expires    time.Time // wall clock of the sender; nobody begins with it after that
}

// CommandTTL is how long a command may wait for somebody who begins with it.
const CommandTTL = 10 * time.Minute

// Answer says what became of a command: the one result, or a word on the way to it.
type Answer struct {
	Command    string
	Session    ID
	Generation Generation // 0: not known
	Fate       Fate
	Detail     string // a sentence for people
	By         string // who says so: "run@eu1-02/4700"
	At         time.Time
}

// Delivery is one command in the hands of a receiver. A command that is not
// finished comes again, with the same id.
type Delivery interface {
	// Command is what is asked for.
	Command() Command
	// Acknowledge tells the sender that it is being carried out. Said again, it
	// tells that this goes on.
	Acknowledge(ctx context.Context, detail string) error
	// Finish writes the one result, unless there is one, and gives that which
	// stands.
	Finish(ctx context.Context, f Fate, detail string) (Answer, error)
}

// CommandInbox is where the commands to a session come from.
type CommandInbox interface {
	// Receive hands over the commands to a session whose op is known, until ctx
	// ends. handle may be called from several goroutines at once, with different
	// commands; a command comes once at a time.
	Receive(ctx context.Context, id ID, knows []Op, handle func(context.Context, Delivery)) error
}

// CommandWay carries commands to receivers, and what becomes of them back.
type CommandWay interface {
	// WayName is the word for people: "nats", "redis", "here".
	WayName() string
	// Carries reports whether commands to a session can go this way.
	Carries(id ID) bool
	// Carry brings a command to whoever receives the session's commands and waits
	// for its one result, until ctx ends; over breaks of the connection it sends
	// again, which is safe by the command's id. Each word on the way is told to
	// heard: FateRequested once it is kept for those who come later,
	// FateDelivered and FateAcknowledged from a receiver. ErrNobody says that it
	// is not kept and nobody took it.
	Carry(ctx context.Context, c Command, heard func(Answer)) (Answer, error)
	// Conclude writes the one result of a command unless there is one, and gives
	// the one that stands.
	Conclude(ctx context.Context, a Answer) (Answer, error)
}

// ErrNobody: no receiver listens for the commands of a session.
var ErrNobody = errors.New("nobody takes commands for it")

// ErrReadOnly: nothing may be acted on.
var ErrReadOnly = errors.New("read-only: nothing can be acted on; leave --read-only (read_only in the configuration) out")
