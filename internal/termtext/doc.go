// Package termtext makes hostile text safe to show in a terminal and measures
// how many cells text takes there.
//
// It owns three things: cleaning (what of a foreign text may reach a terminal,
// an id or a log line at all), widths (how text is cut and padded so that a row
// never exceeds its cells), and redaction (what of an address may be shown).
//
// It is a leaf: it knows nothing of sessions, JSON or the screen, and it must
// never decide by where a text came from. There is no text that is trusted
// enough to skip it.
package termtext
