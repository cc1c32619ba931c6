// Package filestore keeps what must outlive a process on a machine of its own:
// the ledger where there is neither JetStream nor Redis, the history of
// sessions, the quarantine of what came late, and the audit trail.
//
// # One owner
//
// A file has one owner at a time, a process that opened it with [Open]. The next
// one to try is told who holds it. That makes the ledger's decisions plain: a
// transaction of one file, written to the disk before it is answered. Two
// processes that must agree on ends need a bus; two files are two authorities.
//
// The audit trail is different: any number of processes append to it, one line
// in one write.
//
// # What can go wrong with a file
//
// A file is made whole under another name and linked into its place, so that a
// crash leaves either none or a good one. One that is empty, cut off, of another
// format or damaged is refused with what to do about it, and is never made anew
// in its place: an empty ledger would settle again what has ended. A damage that
// shows later ends all writing. A full disk is an error, and what the file says
// stays as it was.
//
// Files are private: mode 0600, in a directory of mode 0700, of our own user,
// never through a symbolic link.
//
// # What it must not do
//
// It decides nothing: no verdict, and no end beyond what write-once means. It
// reads no clock but to say what is too old to be kept.
package filestore
