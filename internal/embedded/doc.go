// Package embedded runs the two servers that agents speak to inside our own
// process: a NATS server and a Redis-compatible one. The demo, the bus command
// and tests live on them, so that everything works on a machine with this one
// binary.
//
// It owns starting, waiting until they answer, and stopping. It must not
// install signal handlers, write to the terminal, listen beyond the loopback
// interface, or know what travels over the servers.
package embedded
