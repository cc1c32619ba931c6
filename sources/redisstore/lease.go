package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Holding is one beat of a publisher of our own: it shows the beat and renews
// the lease of the session in one step, unless the ledger of this Redis holds
// the end of the execution already.
type Holding struct {
	ID         watchdog.ID
	Generation watchdog.Generation // 0: not known; then the head tells by BootID
	BootID     string              // empty: a publisher that has none

	Payload []byte        // the encoded beat; nil renews the lease alone, as while stalled
	TTL     time.Duration // of the liveness key; whole seconds, rounded up
	Lease   time.Duration // of the lease; 0 takes none, and gives up one that is its own
}

// Refused is the answer to a beat of an execution that has ended: it renewed
// nothing, and was not written.
type Refused struct {
	ID     watchdog.ID
	Record []byte // the terminal record that stands, as it stands
}

// Error says what it means to the publisher.
func (r *Refused) Error() string {
	return fmt.Sprintf("the beat of %s was refused: this execution has ended; end the work, or start a new generation", r.ID)
}

// beatScript is the only way in which our own publishers write. A terminal
// record of the beat's own generation refuses it. A generation that the
// publisher does not know is looked up in the head by its boot id.
//
//	KEYS  1 liveness  2 lease  3 head  4 terminal record of the generation
//	ARGV  1 beat, empty for none  2 TTL in seconds  3 lease  4 its TTL in ms, 0 to give it up
//	      5 generation, 0 not known  6 boot id  7 what the keys of terminal records begin with
//
// An overtaken execution may still show its beats, but takes no lease away from
// the one that came after it. The answer is the terminal record, or nil if the
// beat was taken.
var beatScript = redis.NewScript(`
local ok, head = pcall(cjson.decode, redis.call('GET', KEYS[3]) or '')
if not ok or type(head) ~= 'table' then head = {} end
local own, terminal = tonumber(ARGV[5]), KEYS[4]
if own == 0 and ARGV[6] ~= '' and type(head.executions) == 'table' then
  for _, e in ipairs(head.executions) do
    if type(e) == 'table' and e.boot_id == ARGV[6] and type(e.generation) == 'number' then
      own = e.generation
      terminal = ARGV[7] .. string.format('%d', own)
      break
    end
  end
end
local ended = redis.call('GET', terminal)
if ended then return ended end
if ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
local overtaken = own > 0 and type(head.generation) == 'number' and head.generation > own
if ARGV[4] == '0' then
  if redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end
elseif not overtaken then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
end
return false
`)

// hold writes one beat with its lease. The error is a *Refused if the execution
// has ended.
func (c *client) hold(ctx context.Context, h Holding) error {
	record, err := beatScript.Run(ctx, c.UniversalClient, h.keys(), h.arguments()...).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return err
	}
	return &Refused{ID: h.ID, Record: []byte(record)}
}

func (h *Holding) keys() []string {
	return []string{wire.LivenessKey(h.ID), wire.LeaseKey(h.ID), wire.HeadKey(h.ID), wire.TerminalKey(h.ID, h.Generation)}
}

func (h *Holding) arguments() []any {
	seconds := max(int64((h.TTL+time.Second-1)/time.Second), 1)
	return []any{
		h.Payload, seconds, appendLease(nil, h.Generation, h.BootID), h.Lease.Milliseconds(),
		uint32(h.Generation), h.BootID, strings.TrimSuffix(wire.TerminalKey(h.ID, 0), "0"),
	}
}

// appendLease appends the value of a lease: who holds it.
func appendLease(dst []byte, g watchdog.Generation, bootID string) []byte {
	dst = append(dst, `{"generation":`...)
	if g > 0 {
		dst = strconv.AppendUint(dst, uint64(g), 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"boot_id":`...)
	if bootID == "" {
		return append(dst, "null}"...)
	}
	return append(wire.AppendString(dst, bootID), '}')
}
