// Package process runs any command as a session: it starts it, reads its
// output, sees its work, beats for it, takes a stack dump when it stalls, ends
// it with everything that it started, and starts it again as the policy says.
//
// # One state machine a session
//
// A session is a unit: one goroutine that owns all of its state and is told
// of exits, lines, notices, wishes and timers through one mailbox. Two restarts
// at once are two messages to the same goroutine, and therefore one restart.
// What a child did and what we wanted of it are kept apart: an exit after our
// own stop is "stopped", whatever its code.
//
//	         start               leader exited, or stop wished
//	idle -----------> running ---------------------------------> ending
//	 ^ ^                                                            |
//	 | |  stop wished        restart due               group empty, |
//	 | +-------------- waiting <------------------+    settled      |
//	 |                  (back-off, fleet hold)    |                 |
//	 +-------------- held <-----------------------+-----------------+
//	   start wished  (crash loop)              policy
//
// # Processes
//
// Each child leads a session and a process group of its own. Its leader is not
// reaped before its group is empty, so that the number of the group can never
// mean another one when it is signalled. What leaves the group (setsid) is
// found by ancestry and by the mark in its environment (SESSIONWATCH_RUN), is
// ended with the group, and is reported if it survives. Where the kernel's
// unified hierarchy of cgroups is ours to write, each run also lives in one of
// its own, which nothing can leave. On Linux orphans become our children, and
// are reaped one by one, never by a wait for any child: that would steal the
// exits that other packages wait for. For the same reason nothing else in the
// process may start children in sessions of their own and leave them unreaped.
//
// Children die with the thread that started them, so one locked thread starts
// all of them. What a killed supervisor leaves behind is found at the next
// start by number and start time, ended, and settled as lost.
//
// On other systems there is no death signal, no adoption and no /proc: there a
// killed supervisor leaves its children to the next start, members of a foreign
// session are found by ancestry alone, and a group may be signalled only until
// its leader is reaped.
//
// The package owns children, their output and the decision when to act on them.
// The arithmetic of restarts is the watchdog's. It must not judge sessions,
// speak to a bus, write a terminal record by itself, or take its commands from
// anywhere but its methods: the argv of a restart is what local configuration
// or a run line said.
package process
