package watchdog

import (
	"math"
	"time"
)

// AgeKind says how well the moment of a beat is known.
type AgeKind uint8

// A message from a bus is as old as its arrival. A key that was already there
// at first sight is older; by how much is an estimate, or not known at all.
const (
	AgeExact AgeKind = iota
	AgeEstimated
	AgeUnknown
)

// Beat is one liveness message: proof that the publisher lives, not proof of
// work. Its byte slices belong to the source and are valid until the beat has
// been applied; the tracker copies what it keeps. Text is cleaned already.
type Beat struct {
	Source   Source
	Received time.Duration // receiver's monotonic clock (Instant.Mono)
	AgeKind  AgeKind
	Age      time.Duration // at Received, if AgeKind is AgeEstimated

	ID        []byte
	State     State
	StateText []byte  // as published
	Uptime    int64   // seconds since this execution started; -1 unknown
	Credits   float64 // NaN unknown
	Task      []byte  // nil none

	Generation   Generation    // 0 not given
	BootID       []byte        // nil not given
	Seq          int64         // -1 not given
	Idle         time.Duration // age of the last activity when sent; -1 not given
	Interval     time.Duration // the publisher's heartbeat interval; 0 not given
	StallTimeout time.Duration // the publisher's stall timeout; 0 not given
	WaitingFor   Wait
	WaitingMax   time.Duration // 0 not given
	LoopLag      time.Duration // age of its loop's oldest unanswered probe; -1 not given
	PID          int64         // 0 not given
	Agent        []byte
	Host         []byte
	Message      []byte

	Dropped   uint8 // optional fields that were wrong and were dropped
	Takes     OpSet // commands that its publisher takes, if TakesSaid
	TakesSaid bool

	Raw []byte // the message as it came; nil: not from a message
}

// Reset makes b a beat in which nothing is known.
func (b *Beat) Reset() {
	*b = Beat{Uptime: -1, Credits: math.NaN(), Seq: -1, Idle: -1, LoopLag: -1}
}

// HasCredits reports whether a balance was published.
func (b *Beat) HasCredits() bool { return !math.IsNaN(b.Credits) }

// maxUptime keeps hostile uptimes from overflowing a clock; nothing runs longer.
const maxUptime = 100 * 365 * 24 * time.Hour

// started estimates the Mono at which the execution of b began. It is negative
// for what ran before our own clock started.
func (b *Beat) started() time.Duration {
	up := maxUptime
	if b.Uptime < int64(maxUptime/time.Second) {
		up = time.Duration(b.Uptime) * time.Second
	}
	return b.Received - b.Age - up
}

// Refusal is the kind of reason for which a message does not count as a beat.
type Refusal uint8

// The kinds that are counted, in the words of the wire format.
const (
	RefusedID Refusal = iota
	RefusedState
	RefusedType
	RefusedRange
	RefusedDuplicate
	RefusedJSON
	RefusedSize
	RefusedDepth
	RefusalCount
)

var refusalNames = [RefusalCount]string{"id", "state", "type", "range", "duplicate", "json", "size", "depth"}

// String is the word that is counted, logged and shown.
func (r Refusal) String() string {
	if r < RefusalCount {
		return refusalNames[r]
	}
	return "unknown"
}

// Error makes a Refusal usable as the error of a decoder.
func (r Refusal) Error() string { return "refused beat: " + r.String() }
