// Package ownfile says what tells a file of ours from another user's, on each
// system: with which flags it is opened so that no planted link or pipe is
// followed, whose it is, and whether its permissions mean anything.
//
// It must not decide what to do about a file: each of its users says that in its
// own words.
package ownfile
