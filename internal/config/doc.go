// Package config turns the configuration file, the environment and the flags
// into one checked value, and remembers where each setting came from.
//
// It owns the spelling, the defaults, the documentation and the rules of every
// key. Each key is one row of a table (settings.go, session.go): name,
// documentation, where the value goes, its default and what it accepts.
// Decoding, "config show", "config init" and the overriding by flags and
// environment are derived from those rows, so that a new key touches one place.
//
// Reading is strict. A value that is not understood is never replaced by a
// default: a typo must not silently turn a watchdog off. All faults are
// collected and returned at once as *Faults, each with its line and a sentence
// that says what to do.
//
// Precedence is flag over environment over file over default; only
// WATCHDOG_STALL_TIMEOUT yields to the file. A chosen context counts as a flag.
//
// Secrets come from files or from the environment. A URL with a password is
// refused in the file and in a flag; one in NATS_URL or REDIS_URL is taken
// apart at once, so that no address in a Config ever holds a secret.
//
// The package must not dial, start goroutines, log, or write files, and it
// reads the machine only through the injected environment and Files.
package config
