// Package sourcetest holds the conformance suites that every source of this
// project passes: one suite for what all of them promise, run against the real
// servers and against the embedded ones.
//
// It owns the promises that sources have in common, and what tests of sources
// need: a recording sink, and servers as processes that are stopped, continued
// and killed by their pid. It must not know any one source. It is imported by
// tests only.
package sourcetest
