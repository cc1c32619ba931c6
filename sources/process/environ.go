package process

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// What a child finds in its environment.
const (
	notifyVariable     = "NOTIFY_SOCKET"
	urlVariable        = "SESSIONWATCH_HEARTBEAT_URL"
	tokenVariable      = "SESSIONWATCH_HEARTBEAT_TOKEN"
	idVariable         = "SESSIONWATCH_SESSION_ID"
	generationVariable = "SESSIONWATCH_GENERATION"
	// markVariable names the run; by it we find again what left its group.
	markVariable = "SESSIONWATCH_RUN"
)

// own are variables that speak to us and not to a child.
func own(name string) bool {
	switch name {
	case notifyVariable, "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
		"MAINPID", "INVOCATION_ID", "JOURNAL_STREAM",
		urlVariable, tokenVariable, idVariable, generationVariable, markVariable:
		return true
	}
	return false
}

// mayCarry reports whether a variable of ours reaches a child that did not ask
// for it: the address of a bus only if there is no password in it.
func mayCarry(name, value string) bool {
	switch name {
	case "NATS_URL", "REDIS_URL":
		return !hasCredentials(value)
	}
	return !own(name)
}

// hasCredentials reports whether an address, or a list of them with commas, may
// hold a secret. What cannot be read counts as one.
func hasCredentials(addresses string) bool {
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "x://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.User != nil || u.Fragment != "" || strings.Contains(address, "@") {
			return true
		}
		for key := range u.Query() {
			if secretKey(key) {
				return true
			}
		}
	}
	return false
}

// secretKey reports whether a query parameter of that name may hold a secret.
func secretKey(key string) bool {
	return slices.ContainsFunc([]string{"pass", "pwd", "user", "token", "secret", "key", "cred", "jwt", "auth", "seed"},
		func(part string) bool { return strings.Contains(strings.ToLower(key), part) })
}

// greeting is what a child is told of its session.
type greeting struct {
	id         watchdog.ID
	generation watchdog.Generation // 0 not known: not told
	mark       string
	notify     string // path of the socket; empty none
	url, token string // of the HTTP heartbeat; empty none
}

// environment is ours without what is not meant for the child, then what its
// configuration sets, then what we tell it. A later one replaces an earlier one.
func environment(ours []string, set map[string]string, g greeting) []string {
	var env []string
	for _, v := range ours {
		name, value, ok := strings.Cut(v, "=")
		if _, replaced := set[name]; ok && name != "" && !replaced && mayCarry(name, value) {
			env = append(env, v)
		}
	}
	told := map[string]string{idVariable: string(g.id), markVariable: g.mark, notifyVariable: g.notify}
	if g.generation > 0 {
		told[generationVariable] = strconv.FormatUint(uint64(g.generation), 10)
	}
	if g.url != "" {
		told[urlVariable], told[tokenVariable] = g.url, g.token
	}
	for name, value := range set {
		if _, ok := told[name]; !ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range told {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}
