// Package wire is the only place that knows how things are spelled outside:
// the JSON of a beat, of terminal records, heads, authority markers and signed
// envelopes, NATS subjects, Redis keys, the rules of ids, and the JSON that the
// command line prints.
//
// It turns bytes into watchdog's values and back. It decides nothing about
// sessions, opens no connection, and keeps nothing between two calls.
//
// # Reading a beat
//
// Beats come from producers that this project did not write, over buses that
// anyone may write to. DecodeBeat is strict where leniency would let two
// readers see two different beats (JSON grammar, exact names, no known field
// twice), and lenient where a producer's slip in one field would cost a sign of
// life (optional fields, Python's NaN).
//
// A message can be wrong in several ways at once. The kind that is counted is
// the first of these that holds:
//
//	size       more than 16 KiB
//	json       not one JSON object and nothing else, or
//	depth      nested deeper than 32 (the object itself is 1): whichever of
//	           these two comes first in the text
//	duplicate  a field of the table below twice, be it null or wrong
//	id         session_id absent, null, not equal to the subject's, or no valid id
//	state      state absent or null
//	type       one of the five fields holds a value of another type
//	range      uptime_secs negative or beyond an int64
//
// Choices that the format leaves open:
//
//   - JSON is RFC 8259: no byte order mark, comment, trailing comma, leading
//     zero or bare control character. NaN, Infinity and -Infinity are read as
//     null wherever a value may stand, in unknown fields too.
//   - Names are compared after their escapes are resolved, so "\u0073tate" is
//     state. Unknown names, and names inside unknown fields, may repeat.
//   - uptime_secs, generation, seq and pid are read exactly, not through a
//     float: 3.0 and 30e-1 are 3. uptime_secs alone is floored; the others are
//     wrong if they have a fraction.
//   - Wrong, so dropped and counted: an optional field of another type or one
//     that no float64 can hold; generation outside 1 to 2^32-1; a seq, idle_secs
//     or loop_lag_ms below 0; a pid, interval, timeout or maximum that is not
//     above 0; an unknown waiting_for; an empty boot_id.
//   - An age (idle_secs, loop_lag_ms) beyond MaxAge is wrong too: it is a point in
//     time, or nonsense. Declared times beyond MaxDeclared are cut down to it, so
//     that sums and small multiples of them cannot overflow.
//   - A state is judged after cleaning, as it is shown. An empty one is text.
//
// # Reading what a ledger holds
//
// Records, heads, markers and envelopes are documents: strict JSON with exact
// names, no known field twice, and nothing required that is missing or of
// another type. What is wrong with one is an error with a sentence; a terminal
// record that is wrong is foreign, which blocks its generation and is never its
// outcome. Texts are cleaned; what is compared (nonces, boot ids, identities)
// is refused if cleaning would change it.
package wire
