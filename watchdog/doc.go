// Package watchdog is the domain and the engine of sessionwatch: it is told
// what happened to long-running agents and says which of them work, which have
// silently stopped, and why.
//
// # Words
//
// A session is one long-running agent run, named by its id. A generation is one
// execution inside a session; a restart makes a new one. A [Beat] is one
// liveness message: proof that the publisher lives, not proof of work. Activity
// is proof of work. A [Verdict] is what we say of a session now; it is derived
// by one pure function, [Judge], and never set by hand. [Evidence] is why.
//
// # Two clocks
//
// Each session has a BEAT clock (age of the last beat) and a WORK clock (age of
// the last activity). They are never mixed: an agent whose loop spins beats on
// for ever. WORK is known if the publisher sends the age of its last activity;
// what it did since that beat nobody knows, so a limit of less than four intervals
// that passes between two beats accuses it only with the next one, or when that is
// overdue.
// A five-field producer does not; then its own word counts, and what can be seen
// to change (task, credits, state) is shown as an estimate. If nothing visible
// changes for the stall timeout, the session is quiet: a notice, not an
// accusation.
//
// # Verdicts
//
// The rows are tried from the top; the first that matches wins.
//
//	supervisor ---------------------------> crash-loop restarting
//	terminal record, end beat ------------> completed error stopped lost expired
//	every carrying source is blind -------> unknown
//	loop watchdog, loop lag --------------> wedged
//	publisher says so --------------------> stalled
//	2 intervals + 20 % without a beat ----> silent
//	declared wait ------------------------> waiting, then stalled
//	WORK over the stall timeout ----------> stalled
//	sources contradict each other --------> disputed
//	nothing visible changes --------------> quiet
//	otherwise ----------------------------> running
//
// From running a session may go to each of the others and come back from all
// but the ends. From an end only a new execution leads back to running.
//
// # Time
//
// An [Instant] is read on three clocks at once. The monotonic clock decides.
// The boot clock runs ahead of it when the machine was suspended, which gives
// everything one fresh grace. The wall clock is for people; no decision reads
// it, and neither does any time in a payload.
//
// # Blindness
//
// A source is sighted while its last round trip is under [SightWindow] old, no
// permission error stands on its subscription and we lost no message of it
// lately. Deadlines count sighted time only: when sight returns, each deadline
// has moved by the blind time plus one interval. Spells within one interval
// share that extra, and no deadline is given more than three, so a link that
// flaps does not renew it for ever. The same holds when we ourselves were stopped
// or starved: our own late ticks count as blindness, and raise a score that
// stretches every deadline up to eight times.
// A blind observer accuses nobody.
//
// [Blindness] is kept for each set of sources, not for each session: a bus that
// goes away costs no work per session, and a million sessions become unknown in
// the moment in which the lens next looks.
//
// # Correlated silence
//
// If many sessions fall silent within [GroupWindow] of each other, the likely
// cause is what they share. They are one group: one alert, settling held, each
// member from its own joining. If it is more than half of the live, it is held
// until they beat again or an operator releases it.
//
// # Generations and their ends
//
// The unit that ends exactly once is (session, generation). Numbers are given out
// and ends are written by a [Ledger], which compares and swaps; all that is
// decided about it is pure: [Head.Claim] and [Head.End] decide heads, Judge and
// decideSettle decide when an end is due.
//
//	       Claim            beats            Settle
//	? ------------> open ----------> open ----------> ended
//	                 |                                  |
//	                 +-- a newer number: superseded ----+   never back
//
// A sweeper, which is a [Tracker] with a name, asks by effects ([Number],
// [Settle], [Sweep], [QuarantineLate]); a [Settler] carries them out and tells
// what came of it by events. Between judging and writing lies the wire, so the
// settler asks [Tracker.StillDue] right before the write, and the write itself is
// conditioned on there being no record: whoever comes second learns the winner.
// Order survives a crash anywhere: the record first, then head and projections,
// then notifications; what is missing is in the ledger's outbox, and anybody's
// next pass does it. Nothing depends on who is leader, because nobody is.
//
// Lost is a generation of which no beat came for longer than [Policy].LostAfter
// and LostAfterMissed cadences, seen by every source that would have told of one,
// by an observer that is sighted now, not starved, and not held. With unknown
// cadence, by the absence of a Redis key alone, or after a foreign producer's last
// word "stalled", nobody is ever lost by itself.
//
// After lost, stopped or expired, what the execution still says goes into
// quarantine. It revives nothing and renews nothing.
//
// Beside its record a session has a book, if a ledger is followed: its head, its
// ends, and what is owed. Sessions that only the ledger knows are shown as that
// and no more; if they stay unheard for one fresh deadline they are lost like any
// other, so that a sweeper that starts settles what died while there was none.
//
// # Alerts
//
// What needs a person is queued: one alert for each execution and cause, one for a
// group that went silent together, one for a crash loop until it has been stable
// for a while. An alert opens with its cause and leaves with it, and is told once
// for each opening ([Raise]); people answer it with an [AlertNote], which all
// observers see, and what is new about it opens it again. A bad end has no end of
// its own: it stays until somebody acknowledges it, or a newer execution runs.
// Notes change no verdict, and settle nothing.
//
// # Structure
//
// [Tracker] is a value: no goroutine, no clock, no IO. It owns a store of
// pointer-free records and a timing wheel of lazy deadlines. [Engine] is the one
// goroutine that owns a tracker: beats and events go in through one ordered
// inbox, and are shown to a [Tap] before they are applied, so that a recording
// replays to the same verdicts. Whoever looks asks for one [Window]; a lens
// answers it over the slabs, holding the lock for one slab at a time, at most
// ten times a second. Sessions are never copied as a whole.
//
// # Invariants
//
// The simulation checks them after each step, and checks that it would notice
// if the guard behind each were missing.
//
//  1. Nobody is accused by a blind observer: no session becomes silent, stalled,
//     disputed or quiet while every source that carried it is blind.
//  2. A session is silent only after 2 intervals + 20 % of sighted time without
//     a beat, and, while we are healthy, within one tick of it.
//  3. A beat of an ended or overtaken execution changes no verdict.
//  4. A beat that is older than the newest one of its execution changes nothing,
//     unless its uptime goes on so, in pace with our clock, and nothing newer
//     comes: then the publisher's clock was set back.
//  5. The wall clock changes no verdict.
//  6. The members of a correlated silence are held.
//  7. Settling: a generation has one record, whose winner never changes; none is
//     settled whose beats reached the one who settles within its deadline, by
//     his own clock; every one that is over is settled in the end; an end that
//     was told is not taken back; its transcript has error and done, or done,
//     once; a store that the cluster did not name settles nothing.
//  8. The stored verdict is what Judge says now: no deadline is missed by more
//     than one tick, and counts, rows and details agree.
//  9. What became of a session is told in the order of its times.
//
// # What is honestly impossible
//
// To tell a dead agent from a slow one, or a stopped one from one that is gone.
// To place five-field beats that waited while we ourselves were stopped, or that
// were held up for longer than their run: only their start tells runs apart. To
// number five-field runs alike by sweepers whose wall clocks differ by more than
// the tolerance of a start. To settle exactly once by a store that forgets what
// it acknowledged. To detect faster than the publisher
// beats. To know what the absence of a key means. To know the age of work that
// nobody reports.
package watchdog
