package redisstore

import (
	"strconv"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ledgerKey is a key of a session's ledger. It shares the slot of the liveness
// key, so that one script may touch both.
func ledgerKey(id watchdog.ID, rest string) string { return "{" + wire.LivenessKey(id) + "}:" + rest }

func headKey(id watchdog.ID) string        { return ledgerKey(id, "head") }
func leaseKey(id watchdog.ID) string       { return ledgerKey(id, "lease") }
func terminalPrefix(id watchdog.ID) string { return ledgerKey(id, "terminal:") }

func terminalKey(id watchdog.ID, g watchdog.Generation) string {
	return terminalPrefix(id) + strconv.FormatUint(uint64(g), 10)
}
