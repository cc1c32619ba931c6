package redisstore

import "github.com/redis/go-redis/v9"

// Each script decides for the keys of one session, which share a slot. Outside
// of a Cluster the keys behind them, which belong to all sessions, may be named
// too, so that one step does it all; in a Cluster they stand elsewhere and are
// written in steps of their own.

// settleScript writes a terminal record unless one stands, and takes the lease
// away that names the generation. It answers the record that stood, or nil.
//
//	KEYS  1 terminal record  2 outbox  3 lease  4 head
//	      and, outside of a Cluster, 5 untold ends  6 their counter  7 journal  8 identity
//	ARGV  1 record  2 generation  3 its name among untold ends  4 session
//	      5 longest record  6 length of the journal  7 identity, empty if not known
//
// The outbox comes first: should a later command be refused, it names a record
// that is not there, which is no harm.
var settleScript = redis.NewScript(`
if KEYS[8] and ARGV[7] ~= '' and redis.call('GET', KEYS[8]) ~= ARGV[7] then
  return redis.error_reply('EPOCH another store answers')
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('GETRANGE', KEYS[1], 0, ARGV[5])
end
redis.call('SADD', KEYS[2], ARGV[2])
if KEYS[5] and not redis.call('ZSCORE', KEYS[5], ARGV[3]) then
  redis.call('ZADD', KEYS[5], redis.call('INCR', KEYS[6]), ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[1])
if KEYS[7] then
  redis.call('XADD', KEYS[7], 'MAXLEN', '~', ARGV[6], '*', 'session', ARGV[4], 'generation', ARGV[2])
end
local own = tonumber(ARGV[2])
local ok, lease = pcall(cjson.decode, redis.call('GET', KEYS[3]) or '')
if not ok or type(lease) ~= 'table' then return false end
local holder = lease.generation
if type(holder) ~= 'number' then
  local known, head = pcall(cjson.decode, redis.call('GET', KEYS[4]) or '')
  if not known or type(head) ~= 'table' then return false end
  if type(lease.boot_id) ~= 'string' then
    holder = head.generation
  elseif type(head.executions) == 'table' then
    for _, e in ipairs(head.executions) do
      if type(e) == 'table' and e.boot_id == lease.boot_id then
        holder = e.generation
        break
      end
    end
  end
end
if holder == own then redis.call('DEL', KEYS[3]) end
return false
`)

// swapScript replaces a head that is still as it was read, and answers 1, or 0
// if it is not.
//
//	KEYS  1 head  and, outside of a Cluster, 2 journal  3 identity
//	ARGV  1 head as it was read, empty for none  2 new head  3 session  4 length of the journal
//	      5 identity, empty if not known
var swapScript = redis.NewScript(`
if KEYS[3] and ARGV[5] ~= '' and redis.call('GET', KEYS[3]) ~= ARGV[5] then
  return redis.error_reply('EPOCH another store answers')
end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
if KEYS[2] then
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'session', ARGV[3], 'generation', '0')
end
return 1
`)

// untoldScript notes that an end is to be told, in the order of the calls.
//
//	KEYS  1 untold ends  2 their counter
//	ARGV  names
var untoldScript = redis.NewScript(`
for _, name in ipairs(ARGV) do
  if not redis.call('ZSCORE', KEYS[1], name) then
    redis.call('ZADD', KEYS[1], redis.call('INCR', KEYS[2]), name)
  end
end
return #ARGV
`)

// proofScript is a compare-and-set whose outcome is known: it answers 1 only on
// a server that takes writes and compares what it holds.
//
//	KEYS  1 a key of this call alone
//	ARGV  1 any text
var proofScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`)
