// Package httpregistry is the session registry over HTTP and its reaper: agents
// post heartbeats, and who stops posting is reaped, settled, released and told.
//
// It owns the HTTP surface (POST /heartbeat, /sessions, /sessions/<id>/cancel,
// GET /health, /metrics), who may use it, and the reaper's rounds. The hashes
// stand in a Store; the ends stand in a terminal ledger, which it reaches
// through Ledger. It must not decide an end by itself: a reap is a settlement
// like any other, and a 410 is given only for an end that stands in the ledger.
//
// # Who is gone
//
// A session whose hash says reaped or expired is gone if the ledger has the
// record of it. A session that the hash does not know is looked up in the
// ledger: its head has ended: gone; is open: that generation; there is none:
// generation 1. If the ledger cannot be read the answer is 503, never 410: a
// fleet must not end because a store is away.
//
// # Time
//
// last_seen is the receiver's clock. The time stamp in a heartbeat is the
// sender's and decides nothing.
package httpregistry
