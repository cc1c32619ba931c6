package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The words in the status of a session's hash.
const (
	HashAlive   = "alive"
	HashReaped  = "reaped"
	HashExpired = "expired"
)

// hashKept is how much longer than its TTL a hash stands: long enough for a
// reaper that is away, short enough not to fill a Redis. It decides nothing.
const hashKept = 24 * time.Hour

// Hash is the registry's hash of one session.
type Hash struct {
	ID       watchdog.ID
	AgentID  string
	LastSeen time.Time     // our clock, to the millisecond; the zero time is last_seen 0
	TTL      time.Duration // its own value decides
	Status   string
}

// Registry keeps the hashes of the session registry. It is safe for concurrent
// use.
type Registry struct{ conn *Conn }

// Registry is the session registry in this Redis.
func (c *Conn) Registry() *Registry { return &Registry{conn: c} }

// hashBeatScript makes or renews a hash as a whole, so that no hash is ever
// partial or without an end, and answers what stood before. One that was marked
// is left as it is; one that makes no sense is made whole.
//
//	KEYS  1 hash
//	ARGV  1 last_seen  2 ttl  3 agent_id  4 expiry in seconds  5 "anew" whatever stood
var hashBeatScript = redis.NewScript(`
local before = redis.call('HMGET', KEYS[1], 'agent_id', 'last_seen', 'ttl', 'status')
local found = redis.call('EXISTS', KEYS[1]) == 1
if found and ARGV[5] ~= 'anew' then
  if before[4] == 'reaped' or before[4] == 'expired' then return before end
  if before[2] and tonumber(before[2]) == 0 then return before end
end
local agent = ARGV[3]
if agent == '' and ARGV[5] ~= 'anew' and before[1] then agent = before[1] end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'agent_id', agent, 'last_seen', ARGV[1], 'ttl', ARGV[2], 'status', 'alive')
redis.call('EXPIRE', KEYS[1], ARGV[4])
if not found then return false end
return before
`)

// markScript sets the status of a hash that is still as it was read, and
// answers 1, or 0 if it is not.
//
//	KEYS  1 hash
//	ARGV  1 last_seen as it was read, in ms  2 status as it was read  3 new status
var markScript = redis.NewScript(`
local now = redis.call('HMGET', KEYS[1], 'last_seen', 'status')
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local seen = tonumber(now[1] or '') or 0
if string.format('%.0f', math.floor(seen * 1000 + 0.5)) ~= ARGV[1] or (now[2] or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[3])
if ARGV[3] == 'expired' then redis.call('HSET', KEYS[1], 'last_seen', '0') end
return 1
`)

// Beat notes a heartbeat in one step: it makes or renews the whole hash, and
// never changes one whose status is not alive or whose last_seen is 0. It gives
// the hash that stood before; found is false if there was none.
func (r *Registry) Beat(ctx context.Context, h Hash) (before Hash, found bool, err error) {
	return r.put(ctx, h, "")
}

// Register makes the hash of a new generation anew, whatever stood there.
func (r *Registry) Register(ctx context.Context, h Hash) error {
	_, _, err := r.put(ctx, h, "anew")
	return err
}

func (r *Registry) put(ctx context.Context, h Hash, how string) (before Hash, found bool, err error) {
	if h.TTL <= 0 || h.LastSeen.IsZero() {
		return Hash{}, false, fmt.Errorf("the hash of %s cannot be written: it needs a last_seen and a ttl", h.ID)
	}
	var stood []any
	err = r.conn.write(ctx, func(ctx context.Context, c *client) (err error) {
		stood, err = hashBeatScript.Run(ctx, c, []string{wire.RegistryKey(h.ID)},
			secondsText(h.LastSeen), strconv.FormatFloat(h.TTL.Seconds(), 'f', -1, 64), h.AgentID,
			int64((h.TTL+hashKept)/time.Second), how).Slice()
		if err == redis.Nil {
			stood, err = nil, nil
		}
		return err
	})
	if err != nil {
		return Hash{}, false, r.failed(err)
	}
	if stood == nil {
		return Hash{}, false, nil
	}
	before, err = readHash(h.ID, stood)
	if err != nil && how == "" {
		return Hash{}, true, nil // it was broken, and is whole now
	}
	return before, true, nil
}

func (r *Registry) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s", r.conn.target.display, explain(err, "EVALSHA").words)
}

// hashFields are the fields of a hash in the order of HMGET.
var hashFields = []string{"agent_id", "last_seen", "ttl", "status"}

// readHash reads the answer to an HMGET of hashFields. An operator who breaks
// the glass may have written one field alone: either mark is enough.
func readHash(id watchdog.ID, fields []any) (Hash, error) {
	h := Hash{ID: id}
	if len(fields) != len(hashFields) {
		return h, errReplyBroken
	}
	h.AgentID, _ = fields[0].(string)
	seenText, seen := fields[1].(string)
	ttlText, _ := fields[2].(string)
	h.Status, _ = fields[3].(string)
	lastSeen, seenErr := readSeconds(seenText)
	ttl, ttlErr := readSeconds(ttlText)
	if seenErr == nil && lastSeen != 0 {
		h.LastSeen = time.UnixMilli(lastSeen).UTC()
	}
	if ttlErr == nil {
		h.TTL = time.Duration(ttl) * time.Millisecond
	}
	broken := h.Status == HashExpired || seen && seenErr == nil && lastSeen == 0
	switch {
	case broken, h.Status == HashReaped:
		return h, nil
	case h.Status != HashAlive:
		return h, fmt.Errorf("session:%s has the status %q; alive, reaped and expired are known", id, clipText(h.Status))
	case seenErr != nil:
		return h, fmt.Errorf("session:%s has the last_seen %q, which is no Unix time in seconds", id, clipText(seenText))
	case ttlErr != nil || ttl <= 0:
		return h, fmt.Errorf("session:%s has the ttl %q, which is no number of seconds above 0", id, clipText(ttlText))
	}
	return h, nil
}

func clipText(s string) string { return s[:min(len(s), 40)] }

// readSeconds reads a number of seconds as milliseconds.
func readSeconds(text string) (ms int64, err error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(f) || f < 0 || f > 1e11 {
		return 0, strconv.ErrRange
	}
	return int64(math.Floor(f*1000 + 0.5)), nil
}

// secondsText spells a moment as Unix seconds with three decimals; the zero time
// is 0.
func secondsText(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	ms := t.UnixMilli()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// Hash reads one hash. One that makes no sense is none: the next heartbeat makes
// it whole.
func (r *Registry) Hash(ctx context.Context, id watchdog.ID) (h Hash, found bool, err error) {
	var fields []any
	err = r.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		fields, err = c.HMGet(ctx, wire.RegistryKey(id), hashFields...).Result()
		return err
	})
	if err != nil {
		return Hash{}, false, r.failed(err)
	}
	h, err = readHash(id, fields)
	return h, err == nil && anyField(fields), nil
}

// anyField reports whether there is a hash: one without any of our fields is
// not ours.
func anyField(fields []any) bool {
	for _, f := range fields {
		if f != nil {
			return true
		}
	}
	return false
}

// Hashes calls each for every hash, in no order. One that cannot be read comes
// with its id and an error, and costs only itself. A hash may be told twice if
// the store grows meanwhile.
func (r *Registry) Hashes(ctx context.Context, each func(h Hash, err error)) error {
	var nodes []node
	err := r.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		nodes, err = c.masters(ctx)
		return err
	})
	if err != nil {
		return r.failed(err)
	}
	for _, n := range nodes {
		for cursor := uint64(0); ; {
			var keys []string
			var next uint64
			err := r.conn.do(ctx, func(ctx context.Context, _ *client) (err error) {
				keys, next, err = n.Scan(ctx, cursor, wire.RegistryKeyPattern, scanCount).Result()
				return err
			})
			if err == nil {
				err = r.readAll(ctx, keys, each)
			}
			if err != nil {
				return r.failed(err)
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

func (r *Registry) readAll(ctx context.Context, keys []string, each func(Hash, error)) error {
	if len(keys) == 0 {
		return nil
	}
	var asked []*redis.SliceCmd
	err := r.conn.do(ctx, func(ctx context.Context, c *client) error {
		pipe := c.Pipeline()
		answers := make([]*redis.SliceCmd, len(keys))
		for i, key := range keys {
			answers[i] = pipe.HMGet(ctx, key, hashFields...)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for _, a := range answers {
			if err := a.Err(); err != nil && !isServerError(err) {
				return err
			}
		}
		asked = answers
		return nil
	})
	if err != nil {
		return err
	}
	for i, a := range asked {
		id, ok := wire.IDFromRegistryKey(keys[i])
		switch {
		case !ok: // no session of ours can have it
		case a.Err() != nil:
			each(Hash{ID: id}, r.failed(a.Err()))
		case anyField(a.Val()):
			each(readHash(id, a.Val()))
		}
	}
	return nil
}

// Mark sets the status of a hash that is still as it was read: reaped keeps
// last_seen, expired sets it to 0. changed is false if it is not.
func (r *Registry) Mark(ctx context.Context, as Hash, to string) (changed bool, err error) {
	marked := false
	err = r.conn.write(ctx, func(ctx context.Context, c *client) (err error) {
		marked, err = markScript.Run(ctx, c, []string{wire.RegistryKey(as.ID)}, as.seenMillis(), as.Status, to).Bool()
		return err
	})
	if err != nil {
		return false, r.failed(err)
	}
	return marked, nil
}

// Forget removes the hash of a session that ended by its own word.
func (r *Registry) Forget(ctx context.Context, id watchdog.ID) error {
	return r.failed(r.conn.write(ctx, func(ctx context.Context, c *client) error {
		return c.Del(ctx, wire.RegistryKey(id)).Err()
	}))
}

// ReaperRan writes when the reaper last ran.
func (r *Registry) ReaperRan(ctx context.Context, at time.Time) error {
	return r.failed(r.conn.write(ctx, func(ctx context.Context, c *client) error {
		return c.Set(ctx, wire.ReaperLastRunKey, secondsText(at), 0).Err()
	}))
}

// LastRun reads when the reaper last ran.
func (r *Registry) LastRun(ctx context.Context) (at time.Time, found bool, err error) {
	var text []byte
	var stands bool
	err = r.conn.do(ctx, func(ctx context.Context, c *client) (err error) {
		text, stands, err = read(ctx, c, wire.ReaperLastRunKey)
		return err
	})
	if err != nil {
		return time.Time{}, false, r.failed(err)
	}
	if !stands {
		return time.Time{}, false, nil
	}
	ms, err := readSeconds(string(text))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%s is %q, which is no Unix time in seconds", wire.ReaperLastRunKey, clipText(string(text)))
	}
	return time.UnixMilli(ms).UTC(), true, nil
}

// forgetScript removes a hash that is still as it was read.
//
//	KEYS  1 hash
//	ARGV  1 last_seen as it was read, in ms  2 status as it was read
var forgetScript = redis.NewScript(`
local now = redis.call('HMGET', KEYS[1], 'last_seen', 'status')
local seen = tonumber(now[1] or '') or 0
if string.format('%.0f', math.floor(seen * 1000 + 0.5)) ~= ARGV[1] or (now[2] or '') ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
`)

// forgetAs removes a hash that is still as it was read.
func (r *Registry) forgetAs(ctx context.Context, as Hash) error {
	return r.failed(r.conn.write(ctx, func(ctx context.Context, c *client) error {
		return forgetScript.Run(ctx, c, []string{wire.RegistryKey(as.ID)}, as.seenMillis(), as.Status).Err()
	}))
}

// seenMillis is last_seen as the scripts compare it.
func (h *Hash) seenMillis() int64 {
	if h.LastSeen.IsZero() {
		return 0
	}
	return h.LastSeen.UnixMilli()
}
