package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Limits of a dump on its way over a bus.
const (
	// MaxDumpBytes is the longest text of a dump that is sent or read.
	MaxDumpBytes = 16 << 20
	// MaxDumpKeyBytes is the longest text of one that stands in a key of Redis.
	MaxDumpKeyBytes = 8 << 20
	// DumpKeyHold is how long a dump stands in a key of Redis.
	DumpKeyHold = time.Hour

	// MaxKeptDumpBytes is the longest text of a dump that nobody asked for, and
	// MaxKeptKeyBytes of one in a key of Redis, which stands for KeptKeyHold.
	MaxKeptDumpBytes = 1 << 20
	MaxKeptKeyBytes  = 256 << 10
	KeptKeyHold      = 24 * time.Hour
	// KeptDumps is how many of them stand of a session, and KeptDumpsShown of all
	// that are read, and stand in Redis.
	KeptDumps      = 4
	KeptDumpsShown = 64

	maxDumpParts = 64 // parts, and steps, of one header
)

// Dump is a capture on its way over a bus: one line of JSON, and its text as it
// was captured, which is hostile and not cleaned.
type Dump struct {
	ID         string // its name in the store of who took it; empty: it is kept nowhere there
	Session    watchdog.ID
	Generation watchdog.Generation // 0 not known
	BootID     string              // empty: not known
	Command    string              // that asked for it; empty: nobody did
	At         time.Time           // wall clock of By
	Reason     string
	Method     string // how it was taken
	Truncated  bool
	Format     string // as By reads it; empty: not known
	Verdict    string // likewise
	Culprit    string // likewise
	PID        int64  // 0 not known
	Target     string
	Runtime    string
	ExitCode   *int64 // of the tool, if one was run
	LoopThread string
	Took       time.Duration
	Parts      []DumpPart
	Steps      []DumpStep
	By         string // who took it: "run@eu1-02/4700"
	Object     string // in DumpsBucket, where Text stands; empty: Text came along
	Bytes      int64  // of the text
	Text       []byte
}

// DumpPart is one piece of a capture: what one step gave.
type DumpPart struct {
	Method    string
	Sample    int64 // from 1
	At        time.Time
	Offset    int64 // in the text
	Bytes     int64
	ExitCode  *int64
	Truncated bool
}

// DumpStep tells what became of one way to take a dump.
type DumpStep struct {
	Method string
	Taken  bool
	Detail string
	Took   time.Duration
}

// dumpHeader is the line before the text: that of a dump that is kept in a file,
// and what tells whose it is.
type dumpHeader struct {
	ID         text        `json:"id"`
	Session    watchdog.ID `json:"session_id"`
	Generation ordinal     `json:"generation"`
	At         instant     `json:"at"`
	Reason     string      `json:"reason"`
	Method     text        `json:"method"`
	Bytes      int64       `json:"bytes"`
	Truncated  bool        `json:"truncated"`
	Format     text        `json:"format"`
	Verdict    text        `json:"verdict"`
	Culprit    text        `json:"culprit"`
	PID        ordinal     `json:"pid"`
	Target     text        `json:"target"`
	Runtime    text        `json:"runtime"`
	ExitCode   *int64      `json:"exit_code"`
	LoopThread text        `json:"loop_thread"`
	TookMs     int64       `json:"took_ms"`
	Parts      []dumpPart  `json:"parts"`
	Steps      []dumpStep  `json:"steps"`
	Command    text        `json:"command_id"`
	BootID     text        `json:"boot_id"`
	By         text        `json:"by"`
	Object     text        `json:"object"`
}

type dumpPart struct {
	Method    string  `json:"method"`
	Sample    int64   `json:"sample"`
	At        instant `json:"at"`
	Offset    int64   `json:"offset"`
	Bytes     int64   `json:"bytes"`
	ExitCode  *int64  `json:"exit_code"`
	Truncated bool    `json:"truncated"`
}

type dumpStep struct {
	Method string `json:"method"`
	Taken  bool   `json:"taken"`
	Detail string `json:"detail"`
	TookMs int64  `json:"took_ms"`
}

// DumpOf makes the dump of an agent that gives its own stacks away.
func DumpOf(id watchdog.ID, boot, command string, pid int, at time.Time, stacks []byte) Dump {
	return Dump{Session: id, BootID: boot, Command: command, At: at, Reason: "asked", Method: "guard", PID: int64(pid), Runtime: "go", Text: stacks}
}

// Cut keeps the first most bytes of the text, at the end of a line if there is
// one near, and says in a last line what was left out. It tells whether anything was.
func (d *Dump) Cut(most int) bool {
	all := len(d.Text)
	if all <= most {
		return false
	}
	const room = 128 // of the last line
	kept := d.Text[:max(most-room, 0)]
	if end := bytes.LastIndexByte(kept, '\n'); end >= len(kept)-4096 && end >= 0 {
		kept = kept[:end]
	}
	d.Text = fmt.Appendf(bytes.Clone(kept), "\n... cut: %d of %d bytes of this dump were sent\n", len(kept), all)
	d.Truncated = true
	return true
}

// EncodeDump spells a dump: its header's line, and behind it the text, or none if
// that stands in an object. Steps and parts that make the header too long are
// left out.
func EncodeDump(d Dump) ([]byte, error) {
	if d.Object == "" {
		d.Bytes = int64(len(d.Text))
	}
	if err := checkDump(&d); err != nil {
		return nil, fmt.Errorf("the dump cannot be sent: %w", err)
	}
	header, err := encodeDumpHeader(&d)
	if err == nil && len(header) > MaxDocumentBytes {
		d.Parts, d.Steps = nil, nil
		header, err = encodeDumpHeader(&d)
	}
	if err != nil {
		return nil, fmt.Errorf("the dump cannot be sent: %w", err)
	}
	if d.Object != "" {
		return append(header, '\n'), nil
	}
	out := make([]byte, 0, len(header)+1+len(d.Text))
	return append(append(append(out, header...), '\n'), d.Text...), nil
}

func encodeDumpHeader(d *Dump) ([]byte, error) {
	h := dumpHeader{
		ID: text(d.ID), Session: d.Session, Generation: ordinal(d.Generation), At: instant(d.At), Reason: termtext.Clean(d.Reason),
		Method: clean(d.Method), Bytes: d.Bytes, Truncated: d.Truncated, Format: clean(d.Format), Verdict: clean(d.Verdict),
		Culprit: clean(d.Culprit), PID: ordinal(d.PID), Target: clean(d.Target), Runtime: clean(d.Runtime), ExitCode: d.ExitCode,
		LoopThread: clean(d.LoopThread), TookMs: max(d.Took.Milliseconds(), 0), Parts: []dumpPart{}, Steps: []dumpStep{},
		Command: text(d.Command), BootID: text(d.BootID), By: clean(d.By), Object: text(d.Object),
	}
	for _, p := range d.Parts[:min(len(d.Parts), maxDumpParts)] {
		h.Parts = append(h.Parts, dumpPart{termtext.Clean(p.Method), p.Sample, instant(p.At), p.Offset, p.Bytes, p.ExitCode, p.Truncated})
	}
	for _, s := range d.Steps[:min(len(d.Steps), maxDumpParts)] {
		h.Steps = append(h.Steps, dumpStep{termtext.Clean(s.Method), s.Taken, termtext.Clean(s.Detail), max(s.Took.Milliseconds(), 0)})
	}
	return marshal(h)
}

func clean(s string) text { return text(termtext.Clean(s)) }

// DecodeDump reads a dump that came for a session. What its header says is
// cleaned; its text is as it came, and belongs to data. One whose text stands in
// an object has none yet.
func DecodeDump(id watchdog.ID, data []byte) (d Dump, err error) {
	defer func() {
		if err != nil {
			d, err = Dump{}, fmt.Errorf("a dump of %s cannot be read: %w", id, err)
		}
	}()
	header, body, ended := bytes.Cut(data, []byte("\n"))
	if !ended || len(header) > MaxDocumentBytes {
		return d, errors.New("its header is not whole")
	}
	if err := readDocument(header, dumpFields(&d)); err != nil {
		return d, err
	}
	d.Text = body
	switch {
	case d.Session != id:
		return d, fmt.Errorf("it is of %q", d.Session)
	case d.Object != "" && len(body) > 0:
		return d, errors.New("it names an object, and has a text too")
	case d.Object == "" && d.Bytes != int64(len(body)):
		return d, fmt.Errorf("it has %d bytes, and its header says %d", len(body), d.Bytes)
	}
	return d, checkDump(&d)
}

func checkDump(d *Dump) error {
	switch {
	case !ValidID(d.Session):
		return errors.New("it names no session")
	case d.Command != "" && !Mintable(d.Command):
		return fmt.Errorf("the command's id is %q", termtext.Clean(d.Command))
	case d.Bytes < 0 || d.Bytes > MaxDumpBytes || len(d.Text) > MaxDumpBytes:
		return fmt.Errorf("it has %d bytes; %d may be sent", max(d.Bytes, int64(len(d.Text))), MaxDumpBytes)
	case d.BootID != "" && !plainName(d.BootID), d.Object != "" && !plainName(d.Object), d.ID != "" && termtext.Changes(d.ID):
		return errors.New("its name, boot id or object holds what is not seen, or is too long")
	}
	return nil
}

func dumpFields(d *Dump) fields {
	return fields{
		"id":          cleaned(&d.ID),
		"session_id":  sessionID(&d.Session),
		"generation":  generation(&d.Generation),
		"at":          momentCut(&d.At),
		"reason":      cleaned(&d.Reason),
		"method":      cleaned(&d.Method),
		"bytes":       whole(&d.Bytes),
		"truncated":   flag(&d.Truncated),
		"format":      cleaned(&d.Format),
		"verdict":     cleaned(&d.Verdict),
		"culprit":     cleaned(&d.Culprit),
		"pid":         whole(&d.PID),
		"target":      cleaned(&d.Target),
		"runtime":     cleaned(&d.Runtime),
		"exit_code":   exitCode(&d.ExitCode),
		"loop_thread": cleaned(&d.LoopThread),
		"took_ms":     tookMs(&d.Took),
		"parts":       list(func(v value) error { return readDumpPart(d, v) }),
		"steps":       list(func(v value) error { return readDumpStep(d, v) }),
		"command_id":  exactly(&d.Command),
		"boot_id":     exactly(&d.BootID),
		"by":          cleaned(&d.By),
		"object":      exactly(&d.Object),
	}
}

func readDumpPart(d *Dump, v value) error {
	var p DumpPart
	err := readMembers(v.raw, fields{
		"method": cleaned(&p.Method), "sample": whole(&p.Sample), "at": momentCut(&p.At), "offset": whole(&p.Offset),
		"bytes": whole(&p.Bytes), "exit_code": exitCode(&p.ExitCode), "truncated": flag(&p.Truncated),
	})
	if err == nil && len(d.Parts) < maxDumpParts {
		d.Parts = append(d.Parts, p)
	}
	return err
}

func readDumpStep(d *Dump, v value) error {
	var s DumpStep
	err := readMembers(v.raw, fields{"method": cleaned(&s.Method), "taken": flag(&s.Taken), "detail": cleaned(&s.Detail), "took_ms": tookMs(&s.Took)})
	if err == nil && len(d.Steps) < maxDumpParts {
		d.Steps = append(d.Steps, s)
	}
	return err
}

// whole reads a whole number, 0 or more.
func whole(into *int64) func(value) error {
	return func(v value) error {
		n, exact, ok := v.scaled(0)
		if !ok || !exact {
			return errors.New("is not a whole number from 0 on")
		}
		*into = n
		return nil
	}
}

// tookMs reads milliseconds, cut down to MaxDeclared.
func tookMs(into *time.Duration) func(value) error {
	return func(v value) error {
		var n int64
		err := whole(&n)(v)
		*into = time.Duration(min(n, MaxDeclared.Milliseconds())) * time.Millisecond
		return err
	}
}

// exitCode reads what a tool ended with, which may be below 0.
func exitCode(into **int64) func(value) error {
	return func(v value) error {
		var n int64
		if v.kind != kindNumber || json.Unmarshal(v.raw, &n) != nil {
			return errors.New("is not a whole number")
		}
		*into = &n
		return nil
	}
}
