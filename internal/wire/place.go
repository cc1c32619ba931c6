package wire

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TerminalSubject is the NATS subject of a generation's terminal record.
func TerminalSubject(id watchdog.ID, g watchdog.Generation) string {
	return terminalSubject + string(id) + "." + decimalOf(g)
}

// GenerationFromSubject reads a terminal subject. ok is false for one that
// names no generation: nothing on it can end anything.
func GenerationFromSubject(subject string) (id watchdog.ID, g watchdog.Generation, ok bool) {
	rest, ok := strings.CutPrefix(subject, terminalSubject)
	if !ok {
		return "", 0, false
	}
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		return "", 0, false
	}
	g, ok = generationOf(rest[dot+1:])
	if !ok || !ValidID(rest[:dot]) {
		return "", 0, false
	}
	return watchdog.ID(rest[:dot]), g, true
}

// CommandSubject is where commands to a session's supervisor go.
func CommandSubject(id watchdog.ID) string { return commandSubject + string(id) }

// IDFromCommandSubject gives the session of a command subject; ok is false for
// any other subject, and for an id that is none.
func IDFromCommandSubject(subject string) (id watchdog.ID, ok bool) {
	rest, ok := strings.CutPrefix(subject, commandSubject)
	return watchdog.ID(rest), ok && ValidID(rest)
}

// ResultSubject is where the one result of a command is kept. commandID is one
// that Mintable accepts.
func ResultSubject(id watchdog.ID, commandID string) string {
	return resultSubject + string(id) + "." + commandID
}

// EventSubject carries the timeline entries of a session.
func EventSubject(id watchdog.ID) string { return eventSubject + string(id) }

// OutputSubject carries the lines of a supervised child while somebody listens.
func OutputSubject(id watchdog.ID) string { return outputSubject + string(id) }

// OutputWantSubject is asked by whoever wants to listen; it holds for 30 s.
func OutputWantSubject(id watchdog.ID) string { return outputWantSubject + string(id) }

// DumpSubject carries a capture: a header line of JSON, then text.
func DumpSubject(id watchdog.ID) string { return dumpSubject + string(id) }

// BucketStream is the stream behind a KV bucket.
func BucketStream(bucket string) string { return "KV_" + bucket }

// BucketSubject is the subject of a key in a KV bucket; with ">" of all keys.
func BucketSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// BucketKey is the key of a session in a KV bucket, and its name in a file
// system: base64url, for ids may hold what those cannot carry.
func BucketKey(id watchdog.ID) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

// IDFromBucketSubject gives the session of a key in a KV bucket; ok is false
// for any other subject, and for a key that is none of ours.
func IDFromBucketSubject(bucket, subject string) (id watchdog.ID, ok bool) {
	key, ok := strings.CutPrefix(subject, BucketSubject(bucket, ""))
	if !ok {
		return "", false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(key)
	return watchdog.ID(text), err == nil && ValidID(text)
}

// HeadKey holds the head of a session.
func HeadKey(id watchdog.ID) string { return slot(id) + keyHead }

// TerminalKey holds the terminal record of a generation.
func TerminalKey(id watchdog.ID, g watchdog.Generation) string {
	return slot(id) + keyTerminal + decimalOf(g)
}

// LeaseKey is renewed by our own publishers with every beat.
func LeaseKey(id watchdog.ID) string { return slot(id) + keyLease }

// OutboxKey holds what of a session's ends is not told yet.
func OutboxKey(id watchdog.ID) string { return slot(id) + keyOutbox }

// CommandsKey is the stream of commands to a session where there is no NATS.
func CommandsKey(id watchdog.ID) string { return slot(id) + keyCommands }

// ResultKey holds the one result of a command where there is no NATS.
func ResultKey(id watchdog.ID, commandID string) string { return slot(id) + keyResult + commandID }

// WordsKey is the stream of what receivers say on the way to the result of a
// command.
func WordsKey(id watchdog.ID, commandID string) string { return slot(id) + keyWords + commandID }

// DumpKey holds the dump that a command asked for where there is no NATS.
func DumpKey(id watchdog.ID, commandID string) string { return slot(id) + keyDump + commandID }

// RegistryKey is the hash of the session registry.
func RegistryKey(id watchdog.ID) string { return registryKey + string(id) }

// IDFromLedgerKey gives the session of a ledger key and what follows its slot:
// "head", "terminal:3", "outbox". ok is false for any other key.
func IDFromLedgerKey(key string) (id watchdog.ID, rest string, ok bool) {
	inner, ok := strings.CutPrefix(key, slotOpen)
	if !ok {
		return "", "", false
	}
	text, rest, ok := strings.Cut(inner, slotClose) // no id holds a brace
	return watchdog.ID(text), rest, ok && ValidID(text)
}

// GenerationFromKey reads the key of a terminal record.
func GenerationFromKey(key string) (id watchdog.ID, g watchdog.Generation, ok bool) {
	id, rest, ok := IDFromLedgerKey(key)
	if !ok {
		return "", 0, false
	}
	number, ok := strings.CutPrefix(rest, keyTerminal)
	if !ok {
		return "", 0, false
	}
	g, ok = generationOf(number)
	return id, g, ok
}

// IDFromRegistryKey gives the session of a registry hash.
func IDFromRegistryKey(key string) (id watchdog.ID, ok bool) {
	rest, ok := strings.CutPrefix(key, registryKey)
	return watchdog.ID(rest), ok && ValidID(rest)
}

func slot(id watchdog.ID) string { return slotOpen + string(id) + slotClose }

func decimalOf(g watchdog.Generation) string { return strconv.FormatUint(uint64(g), 10) }

// generationOf reads a generation as we write it: another spelling of the same
// number would be another place for the same end.
func generationOf(number string) (watchdog.Generation, bool) {
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 || n > math.MaxUint32 || number[0] == '0' || number[0] == '+' {
		return 0, false
	}
	return watchdog.Generation(n), true
}
