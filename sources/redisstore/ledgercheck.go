package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Where the identity of the store stands. In a Cluster it has many parts, spread
// evenly over the slots, so that the loss of any of its masters shows.
const (
	epochKey   = "sessionwatch:epoch"
	epochParts = 16
	proofKey   = "sessionwatch:proof:"
)

// lastSecond is true of every Redis, however it is set up.
const lastSecond = "a failover or kill -9 can lose the last second"

// Check finds out whether this Redis may decide now: all masters answer and are
// masters, the store is the one that it was, its journal has not gone back, and
// a compare-and-set works on each.
func (l *Ledger) Check(ctx context.Context) error {
	var v *survey
	err := l.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		if v, err = c.survey(ctx); err != nil {
			return err
		}
		for _, n := range v.nodes {
			f := v.facts[n.addr]
			f.readConfig(ctx, n)
			v.facts[n.addr] = f
		}
		return l.inspect(ctx, c, v)
	})
	if err != nil {
		l.mu.Lock()
		l.listed = false
		l.mu.Unlock()
		return l.conn.away(err)
	}
	l.learnRuns(v)
	return nil
}

// sentence is a refusal in our own words.
type sentence string

func (s sentence) Error() string { return string(s) }

// inspect is the part of a check that looks at keys.
func (l *Ledger) inspect(ctx context.Context, c *client, v *survey) error {
	for _, n := range v.nodes {
		if f := v.facts[n.addr]; f.role == "slave" {
			return sentence("it is a replica, which decides nothing; name the master in redis.url, or the sentinels in redis.addrs with redis.master_name")
		}
	}
	if err := l.checkIdentity(ctx, c); err != nil {
		return err
	}
	if err := l.checkJournal(ctx, c); err != nil {
		return err
	}
	if c.target.ReadOnly {
		return sentence(ErrReadOnly.Error())
	}
	return l.prove(ctx, c)
}

// epochKeys are the keys that hold the identity.
func (c *client) epochKeys() []string {
	if c.cluster == nil {
		return []string{epochKey}
	}
	keys := make([]string, epochParts)
	for i := range keys {
		keys[i] = epochKey + ":{" + tagOf(i) + "}"
	}
	return keys
}

// tagOf is a hash tag in the i-th of epochParts equal shares of the slots.
func tagOf(i int) string {
	for n := 0; ; n++ {
		if tag := strconv.Itoa(n); int(crc16(tag)%slotCount)*epochParts/slotCount == i {
			return tag
		}
	}
}

// checkIdentity compares the identity with the one first seen. Whoever comes
// first to a store makes it; whoever knew one never makes another.
func (l *Ledger) checkIdentity(ctx context.Context, c *client) error {
	known := l.Authority().Identity
	keys := c.epochKeys()
	parts, err := readParts(ctx, c, keys)
	if err != nil {
		return err
	}
	if known == "" && slices.Contains(parts, "") {
		if c.target.ReadOnly {
			return sentence("it holds no ledger yet, and " + ErrReadOnly.Error())
		}
		if parts, err = makeParts(ctx, c, keys, parts); err != nil {
			return err
		}
	}
	now := identityOf(parts)
	switch {
	case slices.Contains(parts, ""):
		return sentence("it was emptied: " + epochKey + " is gone, which named it " + known +
			", and with it the ends that it kept. Restore its data, or restart sessionwatch to begin anew; ends from before may then be settled once more")
	case known != "" && known != now:
		return sentence("another Redis answers: it is " + now + " and was " + known +
			". Connect to that one or restore its data, or restart sessionwatch to begin anew; ends from before may then be settled once more")
	}
	l.mu.Lock()
	l.identity, l.parts = now, parts
	l.mu.Unlock()
	return nil
}

// errEpoch says that a write met another store than the one that was checked.
var errEpoch = errors.New("EPOCH another store answers")

// epochFor is the identity that the script for a key must find, so that a store
// that was emptied since the last check is not written to. In a Cluster, where
// the script cannot look, it looks itself, at the part that is nearest.
func (l *Ledger) epochFor(ctx context.Context, c *client, key string) (string, error) {
	l.mu.Lock()
	parts := l.parts
	l.mu.Unlock()
	if len(parts) == 0 {
		return "", nil
	}
	if c.cluster == nil {
		return parts[0], nil
	}
	i := int(slotOf(key)) * epochParts / slotCount
	now, err := readParts(ctx, c, c.epochKeys()[i:i+1])
	if err == nil && now[0] != parts[i] {
		err = errEpoch
	}
	return parts[i], err
}

func readParts(ctx context.Context, c *client, keys []string) ([]string, error) {
	pipe := c.Pipeline()
	gets := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		gets[i] = pipe.GetRange(ctx, key, 0, 63)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	parts := make([]string, len(keys))
	for i, get := range gets {
		if err := get.Err(); err != nil {
			return nil, err
		}
		parts[i] = get.Val()
	}
	return parts, nil
}

// makeParts makes those that are missing; of several that try, one succeeds.
func makeParts(ctx context.Context, c *client, keys, parts []string) ([]string, error) {
	for i, key := range keys {
		if parts[i] == "" {
			if err := c.SetNX(ctx, key, rand.Text()[:16], 0).Err(); err != nil {
				return nil, err
			}
		}
	}
	return readParts(ctx, c, keys)
}

func identityOf(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, " ")))
	return hex.EncodeToString(sum[:8])
}

// checkJournal refuses a store that went back behind what we have seen of it: what
// a follower sees while we ask is news.
func (l *Ledger) checkJournal(ctx context.Context, c *client) error {
	l.mu.Lock()
	before := l.newest
	l.mu.Unlock()
	now, err := newestEntry(ctx, c)
	if err != nil {
		return err
	}
	if now.before(before) {
		return sentence(fmt.Sprintf("it went back: its journal stands at %s and stood at %s, so what was written between is lost (%s). "+
			"Restore its data, or restart sessionwatch to go on with what is there; ends that were lost may then be settled once more", now, before, lastSecond))
	}
	l.sawEntry(now)
	return nil
}

// prove makes a compare-and-set on each master, or in a Cluster in each share of
// the slots: a replica, a full server or one that cannot save refuses it.
func (l *Ledger) prove(ctx context.Context, c *client) error {
	nonce := rand.Text()
	keys := []string{proofKey + nonce}
	if c.cluster != nil {
		keys = nil
		for i := range epochParts {
			keys = append(keys, proofKey+nonce+":{"+tagOf(i)+"}")
		}
	}
	for _, key := range keys {
		ok, err := proofScript.Run(ctx, c, []string{key}, nonce).Bool()
		if err != nil {
			return err
		}
		if !ok {
			return sentence("a compare-and-set of our own did not do what it must; this server cannot decide")
		}
	}
	return nil
}

// learnRuns notes which servers answer, and what is to be said of them.
func (l *Ledger) learnRuns(v *survey) {
	warnings := []string{lastSecond}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range v.nodes {
		f := v.facts[n.addr]
		if before, known := l.runs[n.addr]; known && before != f.runID {
			l.conn.logger.Warn("the ledger's Redis was restarted or replaced; its identity and journal are as they were", "address", n.addr)
		}
		l.runs[n.addr] = f.runID
		for _, w := range f.ledgerWarnings() {
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
	}
	l.warning = strings.Join(warnings, "; ")
}

// ledgerWarnings are sentences about settings that lose ends.
func (f *facts) ledgerWarnings() []string {
	var w []string
	switch f.appendOnly {
	case "0":
		w = append(w, "appendonly is off: a crash loses the ends since the last snapshot; set appendonly yes")
	case "":
		w = append(w, "whether appendonly is on cannot be told")
	}
	// Terminal records have no TTL, so volatile-* policies leave them alone.
	if f.maxMemory > 0 && strings.HasPrefix(f.policy, "allkeys-") {
		w = append(w, "maxmemory-policy "+f.policy+" evicts terminal records, and their generations may end twice; set noeviction")
	}
	return w
}

// Warning says what this Redis may lose, as far as the last check knows.
func (l *Ledger) Warning() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.warning == "" {
		return lastSecond
	}
	return l.warning
}
