// Package guard is what an agent embeds so that others can see whether it works:
// Session sends beats and knows when the work has stalled, Budget bounds what it
// may spend, Loop watches an event loop from the outside.
//
// # A session
//
//	s, ctx, err := guard.Start(ctx, guard.Options{ID: "indexer", Publishers: publishers})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	for chunk := range chunks {
//		s.SetTask("chunk " + chunk.Name)
//		if err := work(ctx, chunk, s.Touch); err != nil {
//			s.Fail(err)
//			return err
//		}
//	}
//	s.Complete()
//
// Call Touch for every token, tool call and checkpoint. Without one for the
// stall timeout the session is stalled: it says so at once and then with every
// heartbeat, and its key in a store is not refreshed, so that clients that only
// poll see it go. With the next Touch it is running again, at once.
//
//	           stall timeout without activity
//	running ------------------------------------> stalled
//	   ^  <-----------------------------------------  |
//	   |              Touch, SetTask, Wait            |
//	   +---- Complete: completed                      |
//	   +---- Fail, or Close without either: error ----+
//
// A pause that is expected is declared with Wait; any other counts as inactivity.
// Where people approve what an agent does, declare it or set the timeout
// generously.
//
// A client that only polls the store sees a stall after the stall timeout, the
// TTL and its own poll interval: up to 300 + 60 + 45 s by default.
//
// # Publishers
//
// The package knows no client library. What goes out is handed to each Publisher
// through one slot that holds the newest beat, and each has a goroutine of its
// own: one that is away, hangs or panics costs the agent and the other
// publishers nothing. Nothing old is ever sent. After a failure a fresh beat is
// tried, so that observers see the session soon after its bus is back. Close
// alone waits, for at most Options.FlushTimeout, so that the last beat leaves.
//
// # Commands
//
// With Options.Commands a session takes what operators ask of it, and its beats
// say what that is: stop cancels the context of the work, dump writes down all
// goroutines, kill and restart are what the agent gives functions for. A stop is
// acknowledged at once and effective when the session has ended; if the work was
// done meanwhile, that counts. A command for another execution touches nothing.
//
// # An event loop
//
// Loop is for programs with one goroutine through which everything must pass. It
// posts an acknowledgement onto that loop every interval; after so many strikes
// without an answer it dumps all goroutines and ends the process with
// ExitRestart, which asks a supervisor to start it again.
//
//   - Cadences that have proved themselves: 1 s x 3 for a screen that people sit
//     at, 5 s x 3 (the default) for a service, 10 s x 6 for a loop with long
//     steps. Below 1 s a busy machine looks like a wedge.
//   - Keep the interval above the longest block that is expected on the loop, and
//     move such work off the loop.
//   - Try DumpOnly first, and read what it dumps, before it may end anything.
//   - Run under a supervisor that restarts on 75 and not on 78: systemd does, with
//     Restart=on-failure, RestartSec=5 and RestartPreventExitStatus=78; nohup does
//     not. Let it drain standard error.
//   - In a dump, read the goroutine of the loop first: it names what blocks.
//   - Arm after the start-up, Disarm first at shutdown; for these two there are
//     deadlines of their own.
//
// A process that was stopped and continued is not wedged: the watchdog sees that
// it was late itself. Code that keeps all goroutines from running, such as a
// foreign call that holds every thread, keeps the watchdog from running too; only
// an observer outside sees that, by the beats that stay away.
//
// # What it must not do
//
// It must not call a client library, slow the agent down, or end it, but for the
// exit of a Loop that was armed for it. It allocates no generation: a beat
// carries a boot id, and whoever keeps the ledger gives it a number. All times
// are of the monotonic clock.
package guard
