package wire

import (
	"errors"
	"fmt"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

type command struct {
	ID         string      `json:"command_id"`
	Fleet      text        `json:"fleet"`
	Op         watchdog.Op `json:"op"`
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
func EncodeCommand(c watchdog.Command) ([]byte, error) {
	if err := checkCommand(c); err != nil {
		return nil, fmt.Errorf("the command cannot be written: %w", err)
	}
	return marshal(command{
		ID: c.ID, Fleet: text(c.Fleet), Op: c.Op, Session: c.Session, Generation: ordinal(c.Generation), BootID: text(c.BootID),
		Reason: text(termtext.Clean(c.Reason)), IssuedBy: text(termtext.Clean(c.IssuedBy)), At: instant(c.At), Expires: instant(c.Expires),
	})
}

// DecodeCommand reads the payload of an envelope that came for a session.
func DecodeCommand(id watchdog.ID, src []byte) (c watchdog.Command, err error) {
	err = readDocument(src, fields{
		"command_id": exactly(&c.ID),
		"fleet":      exactly(&c.Fleet),
		"op":         exactly((*string)(&c.Op)),
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
		return watchdog.Command{}, fmt.Errorf("a command to %s cannot be read: %w", id, err)
	}
	return c, nil
}

func checkCommand(c watchdog.Command) error {
	switch {
	case !Mintable(c.ID):
		return fmt.Errorf("its id is %q, and must be letters, digits, - and _", termtext.Clean(c.ID))
	case !ValidID(c.Session):
		return errors.New("it names no session")
	case !plainName(string(c.Op)):
		return errors.New("it has no op")
	case c.Fleet != "" && !plainName(c.Fleet), c.BootID != "" && !plainName(c.BootID):
		return errors.New("its fleet or boot id holds what is not seen, or is too long")
	case c.Expires.IsZero():
		return errors.New("it never expires")
	}
	return nil
}

// EncodeResult writes what became of a command.
func EncodeResult(a watchdog.Answer) ([]byte, error) {
	if err := checkResult(a); err != nil {
		return nil, fmt.Errorf("the result of a command cannot be written: %w", err)
	}
	return marshal(result{
		Command: a.Command, Session: a.Session, Generation: ordinal(a.Generation), Fate: a.Fate.String(),
		Detail: text(termtext.Clean(a.Detail)), By: text(termtext.Clean(a.By)), At: instant(a.At),
	})
}

// DecodeResult reads what became of a command.
func DecodeResult(id watchdog.ID, commandID string, src []byte) (a watchdog.Answer, err error) {
	var fate string
	err = readDocument(src, fields{
		"command_id": exactly(&a.Command),
		"session_id": sessionID(&a.Session),
		"generation": generation(&a.Generation),
		"fate":       exactly(&fate),
		"detail":     cleaned(&a.Detail),
		"by":         cleaned(&a.By),
		"at":         momentCut(&a.At),
	})
	if err == nil {
		if a.Fate, err = watchdog.ParseFate(termtext.Clean(fate)); err == nil {
			err = checkResult(a)
		}
	}
	if err == nil && (a.Command != commandID || a.Session != id) {
		err = fmt.Errorf("it is of command %s to %q", a.Command, a.Session)
	}
	if err != nil {
		return watchdog.Answer{}, fmt.Errorf("the result of command %s to %s cannot be read: %w", commandID, id, err)
	}
	return a, nil
}

// DecodeFinal reads what stands as the one result of a command: a fate that is
// final, or somebody else wrote it.
func DecodeFinal(id watchdog.ID, commandID string, src []byte) (watchdog.Answer, error) {
	a, err := DecodeResult(id, commandID, src)
	if err == nil && !a.Fate.Final() {
		return watchdog.Answer{}, fmt.Errorf("%q stands as the result of command %s to %s, and is none", a.Fate, commandID, id)
	}
	return a, err
}

func checkResult(a watchdog.Answer) error {
	switch {
	case !Mintable(a.Command):
		return fmt.Errorf("the command's id is %q", termtext.Clean(a.Command))
	case !ValidID(a.Session):
		return errors.New("it names no session")
	case a.Fate == watchdog.FateNone || a.Fate > watchdog.FateTimedOut:
		return errors.New("it has no fate")
	}
	return nil
}
