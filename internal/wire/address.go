package wire

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Subjects and keys of liveness.
const (
	livenessSubject = "agent.liveness."
	livenessKey     = "agent:liveness:"

	// LivenessSubjectAll matches the beats of all sessions.
	LivenessSubjectAll = livenessSubject + ">"
	// LivenessKeyPattern matches the liveness keys of all sessions in a SCAN.
	LivenessKeyPattern = livenessKey + "*"
	// PingSubject asks every guard and supervisor to beat now. Any payload.
	PingSubject = "agent.ping"
)

// Subjects of everything that is not liveness. The id stands with its dots.
const (
	terminalSubject   = "agent.terminal."
	commandSubject    = "agent.command."
	resultSubject     = "agent.result."
	eventSubject      = "agent.event."
	outputSubject     = "agent.output."
	outputWantSubject = "agent.output_want."
	dumpSubject       = "agent.dump."

	// TerminalSubjectAll matches the terminal records of all generations.
	TerminalSubjectAll = terminalSubject + ">"
	// TerminalProbeSubject is of the stream of terminal records and names no
	// generation: a second write to it proves that the stream refuses those.
	TerminalProbeSubject = terminalSubject + "selftest"
	// CommandSubjectAll matches the commands to all sessions.
	CommandSubjectAll = commandSubject + ">"
	// ResultSubjectAll matches the results of all commands.
	ResultSubjectAll = resultSubject + ">"
	// EventSubjectAll matches the timeline entries of all sessions.
	EventSubjectAll = eventSubject + ">"
)

// What is kept in JetStream.
const (
	TerminalStream = "SW_TERMINAL"
	CommandsStream = "SW_COMMANDS"
	ResultsStream  = "SW_RESULTS"
	MetaBucket     = "SW_META"
	HeadsBucket    = "SW_HEADS"
	DumpsBucket    = "SW_DUMPS" // an object store

	// MetaAuthority is the key of the authority marker in MetaBucket.
	MetaAuthority = "authority"
)

// Keys in Redis. Those of one session's ledger share the slot of its liveness
// key; the registry's hash is a projection and stands elsewhere.
const (
	slotOpen      = "{" + livenessKey
	slotClose     = "}:"
	keyHead       = "head"
	keyTerminal   = "terminal:"
	keyLease      = "lease"
	keyOutbox     = "outbox"
	keyCommands   = "commands"
	keyResult     = "result:"
	keyWords      = "words:"
	keyDump       = "dump:"
	registryKey   = "session:"
	ledgerPattern = slotOpen + "*" + slotClose

	// HeadKeyPattern, TerminalKeyPattern, LeaseKeyPattern and OutboxKeyPattern
	// match the ledger keys of all sessions in a SCAN.
	HeadKeyPattern     = ledgerPattern + keyHead
	TerminalKeyPattern = ledgerPattern + keyTerminal + "*"
	LeaseKeyPattern    = ledgerPattern + keyLease
	OutboxKeyPattern   = ledgerPattern + keyOutbox
	// RegistryKeyPattern matches the registry's hashes of all sessions.
	RegistryKeyPattern = registryKey + "*"
	// AuthorityKey holds the authority marker.
	AuthorityKey = "sessionwatch:authority"
	// KeptDumpsKey is the sorted set of the dumps that nobody asked for: when each
	// was taken, and "<last part of its key> <session>".
	KeptDumpsKey = "sessionwatch:dumps"
	// ReaperLastRunKey holds when the reaper last ran, in Unix seconds.
	ReaperLastRunKey = "reaper:last_run"
)

// MaxIDBytes is the longest id that is accepted.
const MaxIDBytes = 256

// LivenessSubject is the NATS subject of a session's beats.
func LivenessSubject(id watchdog.ID) string { return livenessSubject + string(id) }

// LivenessKey is the Redis key that holds a session's newest beat.
func LivenessKey(id watchdog.ID) string { return livenessKey + string(id) }

// IDFromSubject gives what follows the prefix of a liveness subject. It is not
// checked: DecodeBeat does that. ok is false for any other subject.
func IDFromSubject(subject string) (id string, ok bool) {
	return strings.CutPrefix(subject, livenessSubject)
}

// IDFromKey gives what follows the prefix of a liveness key. It is not checked:
// DecodeBeat does that. ok is false for any other key.
func IDFromKey(key string) (id string, ok bool) {
	return strings.CutPrefix(key, livenessKey)
}

// What a byte of an id may be, besides printable ASCII that may stand anywhere.
const (
	idDot    = 1 << iota // separates tokens, none of which may be empty
	idBanned             // white space, control, or of meaning to NATS or Redis
	idWide               // part of a character beyond ASCII
)

// ValidID reports whether id is accepted as the id of a session: 1 to 256 bytes
// of UTF-8 that a NATS subject and a Redis key can carry (no white space or
// control characters, no "* > { }", no empty token between dots), and nothing
// that cleaning would change, so that no two ids look alike by invisible marks.
func ValidID[T ~string | ~[]byte](id T) bool {
	if len(id) == 0 || len(id) > MaxIDBytes {
		return false
	}
	all := uint8(0)
	for i := range len(id) {
		all |= idClasses[id[i]]
	}
	return all == 0 ||
		all&idBanned == 0 && (all&idDot == 0 || !emptyToken(string(id))) && (all&idWide == 0 || validWide(string(id)))
}

// emptyToken reports whether a dot of id has no token on one of its sides.
func emptyToken(id string) bool {
	return id[0] == '.' || id[len(id)-1] == '.' || strings.Contains(id, "..")
}

// validWide checks the characters beyond ASCII.
func validWide(id string) bool {
	if !utf8.ValidString(id) || termtext.Changes(id) {
		return false
	}
	for _, r := range id {
		// Cleaning keeps a selector behind a symbol, where it is still a mark
		// that makes a twin.
		if unicode.IsSpace(r) || unicode.Is(unicode.Variation_Selector, r) {
			return false
		}
	}
	return true
}

var idClasses = func() (classes [256]uint8) {
	for c := range classes {
		switch {
		case c >= utf8.RuneSelf:
			classes[c] = idWide
		case c <= ' ' || c == 0x7f || strings.IndexByte("*>{}", byte(c)) >= 0:
			classes[c] = idBanned
		case c == '.':
			classes[c] = idDot
		}
	}
	return classes
}()

// Mintable reports whether id is one that this program gives out itself:
// [A-Za-z0-9][A-Za-z0-9_-]{0,127}.
func Mintable(id string) bool {
	if len(id) == 0 || len(id) > 128 || id[0] == '_' || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
