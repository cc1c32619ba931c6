package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The ops of the wire format. A receiver leaves any other to those who know it.
const (
	OpStop    = "stop"
	OpKill    = "kill"
	OpExpire  = "expire"
	OpRestart = "restart"
	OpDump    = "dump"
)

// The fates of a command, in their order; one of the last six is its end.
const (
	FateRequested     = "requested"
	FateDelivered     = "delivered"
	FateAcknowledged  = "acknowledged"
	FateEffective     = "effective"
	FateIneffective   = "ineffective"
	FateRefused       = "refused"
	FateUndeliverable = "undeliverable"
	FateLostRace      = "lost_race"
	FateTimedOut      = "timed_out"
)

// Command is an operator's wish, pinned to one execution.
type Command struct {
	ID         string // minted: the same on every delivery
	Fleet      string // identity of the authority that the sender knows; empty unknown
	Op         string
	Session    watchdog.ID
	Generation watchdog.Generation // 0: its number is not known
	BootID     string              // empty: not known
	Reason     string
	IssuedBy   string
	At         time.Time // wall clock of the sender
	Expires    time.Time // after which nobody begins with it
}

// Result says what became of a command.
type Result struct {
	Command    string
	Session    watchdog.ID
	Generation watchdog.Generation // 0: not known
	Fate       string
	Detail     string
	By         string
	At         time.Time
}

// Final reports whether nothing comes after it.
func (r *Result) Final() bool {
	switch r.Fate {
	case FateEffective, FateIneffective, FateRefused, FateUndeliverable, FateLostRace, FateTimedOut:
		return true
	}
	return false
}

type command struct {
	ID         string      `json:"command_id"`
	Fleet      text        `json:"fleet"`
	Op         string      `json:"op"`
	Session    watchdog.ID `json:"session_id"`
	Generation ordinal     `json:"generation"`
	BootID     text        `json:"boot_id"`
	Reason     text        `json:"reason"`
	IssuedBy   text        `json:"issued_by"`
	At         instant     `json:"at"`
	Expires    instant     `json:"expires_at"`
}

type result struct {
	Command    string      `json:"command_id"`
	Session    watchdog.ID `json:"session_id"`
	Generation ordinal     `json:"generation"`
	Fate       string      `json:"fate"`
	Detail     text        `json:"detail"`
	By         text        `json:"by"`
	At         instant     `json:"at"`
}

// EncodeCommand writes the payload of a command's envelope.
func EncodeCommand(c Command) ([]byte, error) {
	if err := checkCommand(c); err != nil {
		return nil, fmt.Errorf("the command cannot be written: %w", err)
	}
	return marshal(command{
		ID: c.ID, Fleet: text(c.Fleet), Op: c.Op, Session: c.Session, Generation: ordinal(c.Generation), BootID: text(c.BootID),
		Reason: text(termtext.Clean(c.Reason)), IssuedBy: text(termtext.Clean(c.IssuedBy)), At: instant(c.At), Expires: instant(c.Expires),
	})
}

// DecodeCommand reads the payload of an envelope that came for a session.
func DecodeCommand(id watchdog.ID, src []byte) (c Command, err error) {
	err = readDocument(src, fields{
		"command_id": exactly(&c.ID),
		"fleet":      exactly(&c.Fleet),
		"op":         exactly(&c.Op),
		"session_id": sessionID(&c.Session),
		"generation": generation(&c.Generation),
		"boot_id":    exactly(&c.BootID),
		"reason":     cleaned(&c.Reason),
		"issued_by":  cleaned(&c.IssuedBy),
		"at":         momentCut(&c.At),
		"expires_at": momentCut(&c.Expires),
	})
	if err == nil {
		err = checkCommand(c)
	}
	if err == nil && c.Session != id {
		err = fmt.Errorf("it is for %q", c.Session)
	}
	if err != nil {
		return Command{}, fmt.Errorf("a command to %s cannot be read: %w", id, err)
	}
	return c, nil
}

func checkCommand(c Command) error {
	switch {
	case !Mintable(c.ID):
		return fmt.Errorf("its id is %q, and must be letters, digits, - and _", termtext.Clean(c.ID))
	case !ValidID(c.Session):
		return errors.New("it names no session")
	case !plainName(c.Op):
		return errors.New("it has no op")
	case c.Fleet != "" && !plainName(c.Fleet), c.BootID != "" && !plainName(c.BootID):
		return errors.New("its fleet or boot id holds what is not seen, or is too long")
	case c.Expires.IsZero():
		return errors.New("it never expires")
	}
	return nil
}

// EncodeResult writes what became of a command.
func EncodeResult(r Result) ([]byte, error) {
	if err := checkResult(r); err != nil {
		return nil, fmt.Errorf("the result of a command cannot be written: %w", err)
	}
	return marshal(result{
		Command: r.Command, Session: r.Session, Generation: ordinal(r.Generation), Fate: r.Fate,
		Detail: text(termtext.Clean(r.Detail)), By: text(termtext.Clean(r.By)), At: instant(r.At),
	})
}

// DecodeResult reads what became of a command.
func DecodeResult(id watchdog.ID, commandID string, src []byte) (r Result, err error) {
	err = readDocument(src, fields{
		"command_id": exactly(&r.Command),
		"session_id": sessionID(&r.Session),
		"generation": generation(&r.Generation),
		"fate":       exactly(&r.Fate),
		"detail":     cleaned(&r.Detail),
		"by":         cleaned(&r.By),
		"at":         momentCut(&r.At),
	})
	if err == nil {
		err = checkResult(r)
	}
	if err == nil && (r.Command != commandID || r.Session != id) {
		err = fmt.Errorf("it is of command %s to %q", r.Command, r.Session)
	}
	if err != nil {
		return Result{}, fmt.Errorf("the result of command %s to %s cannot be read: %w", commandID, id, err)
	}
	return r, nil
}

func checkResult(r Result) error {
	switch {
	case !Mintable(r.Command):
		return fmt.Errorf("the command's id is %q", termtext.Clean(r.Command))
	case !ValidID(r.Session):
		return errors.New("it names no session")
	case !r.Final() && r.Fate != FateRequested && r.Fate != FateDelivered && r.Fate != FateAcknowledged:
		return fmt.Errorf("its fate is %q, which is none", termtext.Clean(r.Fate))
	}
	return nil
}
