// Package orders is how commands are taken and followed, whatever carries them:
// whom a receiver obeys, what it answers without asking its handler, that a
// command is handled once at a time and not again after its end, and which words
// of many a sender passes on.
//
//	parcel --> read --> trusted? --> op known? --> seen before? --> result stands? --> fleet, expiry, deliveries --> handler
//	             |          |            |              |                 |                      |
//	          dropped    refused      left to        answered          answered              one result
//	         (counted)  (counted)     others        (replay: counted)
//
// A forged command is answered and leaves no result, for that would settle the
// true one of the same id. A bus may take the same message twice, so the table of
// ids is ours.
//
// It must not know a bus: a way brings Parcels and keeps Results. Whether the
// target of a command is still the one that was meant is for the handler to say,
// see watchdog.Command.Meant.
package orders
