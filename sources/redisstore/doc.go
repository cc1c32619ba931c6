// Package redisstore is the Redis side of the watchdog: it polls liveness keys
// and tells what it saw, publishes beats, asks for single sessions, and keeps
// the ledger where this Redis is the authority. Beside that it shows ends that
// were decided elsewhere, and keeps the hashes of the session registry.
//
// # What a poll says
//
// Every [Options.PollInterval] a poll asks each master for the value of every
// known key (MGET) and for keys that it does not know yet (SCAN). A value
// counts as a beat only when its bytes changed. A change between two successive
// polls is exact: it was published after the poll before. A key met for the
// first time, or again after a gap, is older than its arrival: its age is the
// policy's TTL minus the PTTL, an estimate, or unknown if that makes no sense.
//
// A key that was held once and is missing from a good poll is gone; that is a
// fact about the key and not yet one about its session: it may have stalled,
// ended, been evicted, or been deleted. A poll that failed in any part says
// nothing about absence and is no round trip.
//
// # How soon a new key is seen
//
// Up to 20,000 keys in the database a poll scans them all, so that a new session
// shows at the next one. Beyond that DBSIZE, minus the keys that the poll found,
// tells whether there may be new ones. If so, the whole keyspace is scanned at
// once; if not, a share of it, so that a cycle ends within 15 polls or 30 s,
// whichever is shorter, and finds what the sum did not show. Scanning never
// takes more than a tenth of the interval (at least 100 ms), which bounds the
// load that a huge keyspace of foreign keys causes, at the price of a longer
// cycle; only the first cycle has no limit. Known keys do not depend on the
// scan: one that SCAN misses in a failover is still asked for.
//
// # The ledger
//
// A [Ledger] lets one script decide each end: the record is there already, or it
// is written together with its place in the outbox. Head, records, lease and
// outbox of a session share the slot of its liveness key; a head is replaced only
// if it still is, byte for byte, what was read.
//
// Three keys belong to all sessions, and are hints: a journal of what was
// written, which followers ask twice a second; the list of ends that are not
// told yet, in their order; and the counter of that list. A single Redis writes
// them in the same script. In a Cluster they stand in other slots: an end is
// named in the list before it is written and in the journal afterwards, and
// whoever tells it later names it there again. Followers look at all keys of the
// ledger when they begin, after each break, when the journal was cut off, and
// every few minutes, so no change depends on a hint.
//
// [Ledger.Check] knows the store by an identity that its first user wrote into
// it; in a Cluster it has a part in each sixteenth of the slots. A store whose
// identity is gone or another, or whose journal went back, settles nothing until
// this process is restarted. What a Redis cannot promise is in [Ledger.Warning].
//
// Registry hashes are projections and never in a script of the ledger.
//
// # What it must not do
//
// A [Store] never writes a key while reading, decides no verdict, and takes no
// meaning from a failure. Nothing in it blocks a caller: one goroutine owns the
// connection, every question has a deadline, and the client library's own
// retries, pools and reconnects are off, because they hide what an observer has
// to know. A [Conn], for what is asked and written now and then, gives every call
// up with its context. Neither settles anything by itself.
package redisstore
