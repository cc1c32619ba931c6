// Package recording is the flight recorder: it writes down everything that a
// tracker is told, and tells it again later.
//
// A recording holds inputs, never conclusions: beats and events in the order
// in which the engine applied them, with the receiver's clocks. Verdicts are
// derived anew when it is replayed, so that one recording answers for the
// screen, for the commands and for a policy that did not exist when it was
// made.
//
// # The file
//
// JSON lines, compressed with gzip if the name ends in .gz. The first line is
// the header: format version, program version, the three clocks at the start,
// the policy, and how far its process could act. Every other line is one entry:
//
//	{"tick":{"mono":..,"boot":..,"wall":"..","late":..}}      a clock reading
//	{"t":..,"source":"nats","received":..,"beat":{..}}         a beat, in the wire's own JSON
//	{"t":..,"event":"round_trip","data":{..}}                  any other event
//	{"gap":{"beats":..,"events":..,"from":..,"to":..}}         what the recorder lost
//
// Durations and monotonic readings are nanoseconds, wall times RFC 3339. The
// "t" of an entry is the last clock reading that the engine had applied before
// it. It stands only where it says something new: readings are thinned to one
// a second, and the ones between are told again every 100 ms up to "t". A
// reading that came late is always kept, together with the one before it, and
// nothing is told again for the time in which the engine was held up. So a
// replay passes through the same deadlines.
//
// # Memory
//
// A [Memory] is a recording that no file holds: parts of packed lines, each of
// which begins with what a tracker must know beside the beats, so that the oldest
// can go when there is no room. A [Deck] is the tap of an engine that a screen
// looks at: it always has a memory, and records to a file while somebody wants
// that.
//
// # Invariants
//
//   - The recorder never blocks the engine. What it had to drop it counts, in a
//     gap entry and in the error of Close. A memory never has a gap: it forgets
//     what was before.
//   - The same recording gives the same windows, every time and at every speed.
//   - A file is hostile: lines are bounded, text is cleaned again, numbers and
//     times are bounded, and time never goes back.
//
// The package must not judge, must not know a screen, and must not read the
// clock of the machine to decide what is told: a Player uses it for its pace
// alone.
package recording
