// Package query is the language in which people filter and sort sessions: in
// the screen's prompt, in --filter, in saved views.
//
//	chunk eu2               both words stand in the id or the task, in any case
//	"two words"             a phrase
//	/batch-\d+/             a regular expression (RE2) on the id or the task; it
//	                        minds case unless it begins with (?i)
//	!chunk                  not
//	verdict:stalled,wedged  a field that is one of these
//	host:eu2-*              * is any text, ? one character
//	task:~chunk             contains; task:/re/ and task:"exact" work too
//	work>5m credits<2       compare; 90s, 5m, 2h, 3d
//	credits:unknown         what is unknown matches no comparison, only this
//	src:nats src=nats       NATS carries it; NATS alone does
//
// All terms must hold. Compile turns a text into a predicate over a
// watchdog.Candidate; SortKeys gives the sort orders. Fields and sort orders
// are one table each (fields.go, sort.go), from which parsing, errors, help and
// completion are derived.
//
// The package owns no sessions and keeps no state: a compiled Query may be used
// from several goroutines. It must not panic on any text, and plain words match
// without allocating.
package query
