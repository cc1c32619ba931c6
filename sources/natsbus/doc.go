// Package natsbus carries beats over NATS: Bus brings those of other programs
// in and says how well the server is seen, Publisher sends our own, and
// Subscribe is the client for users of the library. Ledger keeps the ends of
// generations in JetStream, and Commands carries what operators want done.
//
// # One connection, one life
//
// Each of them stands on a link: one goroutine that makes a connection, serves it
// until it is lost, waits, and makes the next one. The client library's own
// reconnect is off. It holds the connection's lock while it dials, so that a
// hanging name look-up blocks every other call; it gives up for good on errors
// of the server that it does not know; and it keeps what was published
// meanwhile, so that old beats revive. With one client connection for each
// life none of this can happen, and what is subscribed is subscribed anew each
// time.
//
//	  +--------------> dial and greet (2 s each, on the link's goroutine)
//	  |                     |            \
//	  |                     | ok          \ failed
//	  |                     v              v
//	wait 0.5 to 4 s <--- serve: sight      (LinkDown, with the reason)
//	  ^                  every 2 s         |
//	  +---------------------+--------------+
//
// # Sight
//
// A RoundTrip is posted only when the server answered a question of ours: a
// ping, sent every two seconds, one at a time. A server that hangs gives none;
// after ten seconds without an answer the connection is given up. The first
// ping of a connection follows the subscription on the same stream, so its
// answer also proves that the server took the subscription, or has told by
// then that it may not. No permission to write is needed for any of this.
//
// # What JetStream is asked
//
// Decisions are read from a stream's leader, message by message, and never from
// a replica that may be behind. A write is stored or refused only if the server
// says so by number; anything else leaves it unknown, and the leader is asked.
// What is published on a subject proves nothing, for subscribers see what the
// stream refused as well: it wakes whoever reads the stream.
//
// The package owns the connection, the receive time of beats and the counts of
// what was refused or lost. It must not judge sessions, must not write anything
// to a bus that is read-only, and must not call the client library from a
// goroutine that has anything else to do.
package natsbus
