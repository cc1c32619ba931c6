// Package clock reads the three clocks on which every decision and every
// display rests, and gives tests three that they move by hand.
//
// It owns the reading alone. It must not decide anything, start a goroutine or
// know what the readings are for.
package clock
