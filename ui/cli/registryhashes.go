package cli

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/httpregistry"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// registryHashes keeps the registry's hashes in Redis.
type registryHashes struct{ redis *redisstore.Registry }

func hashOf(e httpregistry.Entry) redisstore.Hash {
	return redisstore.Hash{ID: e.ID, AgentID: e.AgentID, LastSeen: e.LastSeen, TTL: e.TTL, Status: string(e.Status)}
}

func entryOf(h redisstore.Hash) httpregistry.Entry {
	return httpregistry.Entry{ID: h.ID, AgentID: h.AgentID, LastSeen: h.LastSeen, TTL: h.TTL, Status: httpregistry.Status(h.Status)}
}

// Beat notes a heartbeat in one step.
func (r registryHashes) Beat(ctx context.Context, e httpregistry.Entry) (httpregistry.Entry, bool, error) {
	before, found, err := r.redis.Beat(ctx, hashOf(e))
	return entryOf(before), found, err
}

// Entry reads one hash.
func (r registryHashes) Entry(ctx context.Context, id watchdog.ID) (httpregistry.Entry, bool, error) {
	h, found, err := r.redis.Hash(ctx, id)
	return entryOf(h), found, err
}

// Entries calls each for every hash.
func (r registryHashes) Entries(ctx context.Context, each func(httpregistry.Entry, error)) error {
	return r.redis.Hashes(ctx, func(h redisstore.Hash, err error) { each(entryOf(h), err) })
}

// Register makes the hash of a new generation anew.
func (r registryHashes) Register(ctx context.Context, e httpregistry.Entry) error {
	return r.redis.Register(ctx, hashOf(e))
}

// Mark sets the status of a hash that is still as it was read.
func (r registryHashes) Mark(ctx context.Context, as httpregistry.Entry, to httpregistry.Status) (bool, error) {
	return r.redis.Mark(ctx, hashOf(as), string(to))
}

// Forget removes a hash.
func (r registryHashes) Forget(ctx context.Context, id watchdog.ID) error {
	return r.redis.Forget(ctx, id)
}

// ReaperRan notes when the reaper ran.
func (r registryHashes) ReaperRan(ctx context.Context, at time.Time) error {
	return r.redis.ReaperRan(ctx, at)
}

// LastRun tells when the reaper ran.
func (r registryHashes) LastRun(ctx context.Context) (time.Time, bool, error) {
	return r.redis.LastRun(ctx)
}
