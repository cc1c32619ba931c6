package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
)

// failureKind says what a failure means for the connection.
type failureKind uint8

const (
	failedLink   failureKind = iota // no answer
	failedServer                    // an answer, but not one that helps
	failedDenied                    // a permission is missing
)

// failure is an error in few words, for the header of a screen.
type failure struct {
	kind    failureKind
	words   string
	timeout bool
}

// errNoHandshake is a TLS handshake that nobody answered: a plain Redis waits
// for the end of a line.
var errNoHandshake = errors.New("the TLS handshake timed out")

// serverWords are the errors that a server answers with, by their first word.
var serverWords = map[string]string{
	"WRONGPASS":   "authentication refused",
	"NOAUTH":      "authentication required",
	"LOADING":     "the server is loading its data",
	"MASTERDOWN":  "the replica has lost its master",
	"CLUSTERDOWN": "the cluster is down",
	"TRYAGAIN":    "slots are being moved",
	"MOVED":       "slots were moved",
	"ASK":         "slots are being moved",
	"BUSY":        "the server is busy with a script",
	"READONLY":    "the server is a read-only replica",
	"MISCONF":     "the server cannot save and refuses writes",
	"OOM":         "the server is out of memory",
	"DENIED":      "the server is in protected mode",
	"NOREPLICAS":  "the server has too few replicas for a write",
}

// explain puts an error into few words. command is what was asked; it matters
// for permission errors only.
func explain(err error, command string) failure {
	var server redis.Error
	if errors.As(err, &server) || isServerText(err) {
		return explainServer(err.Error(), command)
	}
	return explainLink(err)
}

// isServerText catches server errors that the library wrapped in its own text.
func isServerText(err error) bool {
	text := err.Error()
	for _, mark := range []string{"WRONGPASS ", "NOAUTH ", "NOPERM ", "invalid password", "without any password configured"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

func explainServer(text, command string) failure {
	if i := strings.Index(text, "NOPERM "); i >= 0 {
		reason := netreason.Short(strings.TrimPrefix(text[i:], "NOPERM "))
		if command != "" {
			reason = command + ": " + reason
		}
		return failure{kind: failedDenied, words: "no permission: " + reason}
	}
	if strings.Contains(text, "invalid password") || strings.Contains(text, "without any password configured") {
		return failure{kind: failedServer, words: serverWords["WRONGPASS"]}
	}
	for _, word := range strings.Fields(text) {
		if words, ok := serverWords[word]; ok {
			return failure{kind: failedServer, words: words}
		}
	}
	if strings.Contains(text, "max number of clients") {
		return failure{kind: failedServer, words: "the server has too many clients"}
	}
	if strings.Contains(text, "No such master") {
		return failure{kind: failedServer, words: "the sentinels do not know this master_name"}
	}
	return failure{kind: failedServer, words: netreason.Short(text)}
}

func explainLink(err error) failure {
	switch {
	case strings.Contains(err.Error(), "sentinels specified in configuration are unreachable"):
		return failure{words: "no sentinel answers", timeout: errors.Is(err, context.DeadlineExceeded)}
	case errors.Is(err, errNoHandshake):
		return failure{words: "TLS: the handshake timed out; perhaps this is not a TLS port", timeout: true}
	}
	if words := netreason.TLS(err); words != "" {
		return failure{words: "TLS: " + words}
	}
	if words := netreason.Network(err); words != "" {
		return failure{words: words, timeout: words == netreason.TimedOut}
	}
	return failure{words: netreason.Short(err.Error())}
}
