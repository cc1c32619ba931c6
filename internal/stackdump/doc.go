// Package stackdump reads what runtimes and tools write about the stacks of a
// process, and says what it means.
//
//	Parse    text of any kind        -> File: dumps of one model, stray lines
//	Analyze  one dump                -> Analysis: groups, loop, cycles, culprit, verdict
//	Compare  two dumps               -> what moved, stayed, came and went
//	NewView  a file, or two          -> View: lines that a screen only styles and folds
//	NewSummary  a file               -> what dump-view --json prints
//
// # One model
//
// A File holds Dumps, perhaps of several formats; a Dump holds Threads (of the
// operating system, or goroutines); a Thread holds Frames, the innermost first
// whatever the order in the text. Each format has a parser in its own file and
// a row in the one table of formats (format.go). A parser takes a line or
// leaves it; what no parser takes is stray, mostly the program's own output,
// and may stand anywhere: before, after and inside a dump, even inside a line
// (see tear.go).
//
// # The verdict
//
//	deadlock    a cycle of waits is shown, or the runtime says so
//	idle        the loop waits in its own poll
//	busy        the loop runs, as the runtime says; or there is no loop and
//	            code of the program's own is on a CPU
//	wedged      the loop stands anywhere else
//	unclear     none of these can be told
//	not_a_dump  there is no dump of threads here
//
// The culprit is the innermost frame of the accused thread that belongs neither
// to the standard library nor to the runtime, nor to the code that wrote the
// dump. An idle loop has none, and where nothing points at one there is none: a
// wrong name costs an operator more than no name.
//
// # What the package must not do
//
// It reads text and touches nothing else: no files, no processes, no clock. It
// must not panic on any text, nor take more time or memory than a fixed measure
// of its length (see budget): a dump comes from a program that is in trouble,
// or from one that lies. All text that it hands out has gone through termtext,
// except File.Raw, which is the input.
package stackdump
