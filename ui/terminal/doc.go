// Package terminal is everything that touches the terminal around the screen.
//
// It owns the terminal's state from before the first frame until after the
// last: what is read from it, what is written to it, the signals that concern
// it, and giving it back. It must not know what the screen shows: a model goes
// in, and what happened to the terminal comes out as notices that the wiring
// translates. It holds no state of the process; everything hangs on a Terminal.
//
//	if terminal.BeGuardian(os.Args[1:], os.Environ()) { return } // first of all
//	t, err := terminal.Open(terminal.Config{CrashFile: file, Guardian: true})
//	if err != nil { ... }                // no terminal: say so, exit
//	defer t.Close()
//	caps := terminal.Probe(os.Environ()) // asks nobody; chooses colours, ASCII
//	o.Post, o.BeforeExit = t.Post, t.Restore // of the loop watchdog
//	t.Go(engine)                         // every goroutine beside the screen
//	result, err := t.Run(ctx, model, terminal.Options{Capabilities: caps, ...})
//
// # Keys
//
// A byte stream has pauses where the network put them. Bubble Tea waits 50 ms
// for the rest of a sequence and then takes what it has for keys, so that a
// split F4 becomes "S": in this program the key that stops an agent. Input
// therefore passes a Filter first, a state machine without a clock:
//
//	ESC alone         held 50 ms, then it is the Escape key, and is said in a
//	                  form (CSI 27 u) that makes no decoder wait any longer
//	its late rest     swallowed, if it looks like one, for 1 s
//	CSI, SS3, OSC,    held up to 500 ms between bytes and delivered whole; given
//	DCS, APC, rune    up after that, and its late rest swallowed for 5 s more
//	paste             passed as it comes, without control bytes (with them a
//	                  decoder can miss the end). Its end is never guessed from
//	                  silence alone; a single key after 1 s of silence ends it,
//	                  and is dropped
//
// Whatever is swallowed is counted. Nothing can keep the keyboard: a byte that
// cannot belong to a sequence ends it and counts itself (ctrl+c works in the
// middle of an answer that never ends), and ten seconds are the limit for any
// one. The price is small and on the safe side: within a second after Escape,
// the keys [ ] O P and _ are taken for such a rest. 8-bit control characters
// (C1) are not known to the filter; no terminal sends them unless it is told to.
//
// Bursts of type-ahead are a matter of the screen, which knows which keys move
// and which act.
//
// # Frames
//
// A painter draws what the model shows at the moment when that has changed: the
// first frame right after Init, what a key does at once, anything else 30 times
// a second at most. Bubble Tea's own renderer looks for changes at each tick of a
// clock; it is off, and so are its raw mode and its watch over the size.
//
// Output queues frames for a goroutine of its own, which writes through a
// description of the terminal that is non-blocking for us alone. A terminal
// that stops reading fills the queue (64 kB), then frames are dropped whole.
// Since each frame is a difference to the one before, all others are dropped
// too until the terminal drains; then a full repaint is asked for, and only
// that one goes out again, preceded by the newest of the modes, titles and
// clipboard sequences that were in the dropped ones. Stuck tells how long the
// terminal has taken nothing. The program's loop never waits for any of this,
// so a stalled connection is not a wedge.
//
// # Giving back
//
// Output watches the modes in what really went out, so Restore undoes exactly
// what is on at that moment, even in the middle of a frame: keyboard modes,
// mouse, focus, paste, synchronised output, scroll region, colours, cursor,
// alternate screen, title. Then comes the line discipline as it was at the
// start (or at the last resume), and unread keys are thrown away, so that none
// of them reaches the shell. Restore never waits for a lock that a blocked
// write could hold, and at most 100 ms for a terminal that takes nothing.
//
// Over a slow connection the answer to a question can come later than that, and
// into the shell's line. If one is still to come Restore therefore asks a last
// question, behind everything that it undoes, and reads up to its answer, for
// 500 ms at most; what is typed behind that answer is the shell's, and stays. A
// question that is 3 s old is taken for one to a mute terminal. A guardian cannot
// read, and throws away what is there.
//
//	the screen quits              Run returns
//	SIGINT, SIGTERM, SIGHUP       Run returns with the signal; if the loop does
//	the terminal is gone          not answer within 0.7 s: Restore, exit 128 + n
//	panic under Guard, in the     Restore; panic and stack to standard error and
//	model or in a command         the crash file, within 0.5 s; exit 75
//	any other panic, a fatal      the guardian restores; one line of what happened
//	error of the Go runtime,      to standard error, the stack to the crash file;
//	SIGABRT, SIGSEGV              exit 2, which is the Go runtime's and not ours
//	SIGKILL                       the guardian restores, and says so
//	SIGQUIT                       Restore; all stacks, by the Go runtime, which
//	                              the guardian keeps in the crash file too; exit 2
//	loop watchdog                 it dumps into a file, calls Restore, exits
//	ctrl+z, SIGTSTP               give back, SIGSTOP ourselves; taken again and
//	                              repainted when continued in the foreground;
//	                              refused where nobody could continue us
//	SIGSTOP                       cannot be seen coming; set right at SIGCONT
//
// In the background the terminal is the shell's and is not touched.
//
// # The guardian
//
// Not every end can be seen to from inside. After the first frame the program
// therefore starts itself once more, as a process that waits for its end and
// does nothing else (BeGuardian). It has an empty environment, the terminal,
// standard error, three ends of pipes and sockets, and no other descriptor; a
// process group of its own, so that neither keys nor job control reach it; and
// it ignores the signals that end programs, since it ends with its ward: at the
// end of the pipe by which it is told, at each change of the modes, what would
// have to be undone (a charge). After Restore there is nothing to undo, so every
// orderly end, and an end while the screen is suspended or lent, passes in
// silence.
//
//	ward    --charges-->    guardian   modes, settings, process groups
//	ward    --crash text--> guardian   debug.SetCrashOutput
//	ward    --stderr-->     guardian   what the runtime printed before that
//
// A shell takes over the settings that it finds when a program has exited, so
// after that it is too late. A crash is therefore held up: its text goes into a
// socket with next to no buffer, and the runtime, which has stopped the world by
// then, gets no further than a few words until the guardian has restored the
// terminal and said what happened. With SIGKILL there is nothing to hold up; a
// shell restores its own settings then, and the guardian leaves those alone
// that are no longer as the screen had set them. It never touches a terminal in
// whose foreground there is anyone but its ward and the shell that started it.
//
// While the screen is up, standard error is held back if it is the same
// terminal: what a library prints there is shown after the screen, not over it.
//
// Without a guardian (it could not be started, or somebody killed it; both are
// logged), and in the moment until there is one, a crash that nobody guards and
// SIGKILL leave the terminal raw; `reset` or `stty sane` helps then.
//
// # Asking
//
// A terminal may be mute, and then answers nothing. So nothing waits for an
// answer but giving back, for a moment. Probe reads the environment only. The
// width of the symbols is asked within the first frame, behind its switch to the
// alternate screen and before its erasure, so that nobody sees the question; the
// answer comes as Glyphs or not at all. Which modes it knows is asked behind the
// first frame, and again after a suspension only if it has not said. The
// background is the model's own question (return tea.RequestBackgroundColor from
// Init, restyle on tea.BackgroundColorMsg). A question of a new kind is added to
// questions.go.
package terminal
