package watchdog

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"time"
)

// SettledBy says in which office a generation was settled.
type SettledBy string

// The offices of the wire format.
const (
	ByAgent      SettledBy = "agent"
	BySupervisor SettledBy = "supervisor"
	BySweeper    SettledBy = "sweeper"
	ByReaper     SettledBy = "reaper"
	ByOperator   SettledBy = "operator"
)

// Record is the write-once end of one generation.
type Record struct {
	ID         ID
	Generation Generation
	Outcome    Outcome
	SettledBy  SettledBy
	Writer     string // who wrote it: "serve@eu1-01/812"
	Nonce      string // of this attempt: tells our own write from another's
	Reason     string
	At         time.Time // wall clock of the writer
	Why        []byte    // evidence, JSON as in `why --json`; opaque here; nil none
}

// Seen is the event that tells of the record, read at.
func (r Record) Seen(at time.Duration) TerminalSeen {
	seen := TerminalSeen{ID: r.ID, Generation: r.Generation, Outcome: r.Outcome, SettledBy: r.SettledBy,
		Writer: r.Writer, Reason: r.Reason, At: at}
	if !r.At.IsZero() {
		seen.Settled = r.At.UnixNano()
	}
	return seen
}

// Entry is one transcript record of an ending.
type Entry struct {
	ID         string // UUID v5
	Index      int
	Type       string // error, done
	Code       string // of an error
	Message    string // of an error
	StopReason string // of done
}

// Entries are the transcript records of the ending: error and done, or done
// alone. They are a function of the record, so a repeat adds nothing.
func (r *Record) Entries() []Entry {
	done := Entry{Type: "done", StopReason: r.Outcome.String()}
	fault := Entry{Type: "error", Message: r.Reason}
	switch r.Outcome {
	case OutcomeLost:
		fault.Code = "execution_lost"
		if r.SettledBy == ByReaper {
			fault.Code = "session_reaped"
		}
	case OutcomeError:
		fault.Code = "agent_error"
	case OutcomeStopped:
		done.StopReason = "cancelled"
	case OutcomeCompleted, OutcomeExpired, OutcomeNone:
	}
	entries := []Entry{done}
	if fault.Code != "" {
		entries = []Entry{fault, done}
	}
	for i := range entries {
		entries[i].Index = i
		entries[i].ID = EntryID(r.ID, r.Generation, entries[i].Type)
	}
	return entries
}

// urlSpace is the name space of URLs in RFC 4122.
var urlSpace = [16]byte{0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}

// EntryID is the id of a transcript record: the UUID v5, in the URL name space,
// of sessionwatch:<id>:<generation>:<suffix>.
func EntryID(id ID, g Generation, suffix string) string {
	h := sha1.New()
	h.Write(urlSpace[:])
	fmt.Fprintf(h, "sessionwatch:%s:%d:%s", id, g, suffix)
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	s := hex.EncodeToString(u)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
