package stackdump

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plain is a view as lines, what is folded on one line.
func plain(v *View) string {
	lines := []string{v.Title, v.Headline}
	for _, n := range v.Notes {
		lines = append(lines, "  "+n)
	}
	for _, s := range v.Sections {
		if !s.Open {
			lines = append(lines, strings.TrimSpace("+ "+s.Title+" "+s.Status)+" in "+s.Summary)
			continue
		}
		lines = append(lines, strings.TrimSpace("- "+s.Title+" "+s.Status))
		for _, r := range s.Rows {
			lines = append(lines, strings.TrimRight("    "+strings.TrimSpace(r.Where+" "+r.Name)+" "+r.Mark, " "))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// A capture holds several kinds of dump, and lines of its own between them: they
// are no output of the program, and what is counted is of one kind.
func TestACaptureCountsItsOwnKind(t *testing.T) {
	native, kernel := read(t, "c-eu-stack.txt"), read(t, "c-proc-task.txt")
	var text strings.Builder
	for i, part := range []string{native, native, kernel, kernel} {
		if i > 0 {
			fmt.Fprintf(&text, "## %s, sample %d, 2026-11-30T19:21:48.539Z\n", []string{"eu-stack", "proc"}[i/2], i%2+1)
		}
		text.WriteString(part)
	}
	alone, f := Parse(native), Parse(text.String())
	if want := alone.Stray*2 + Parse(kernel).Stray*2; f.Stray != want {
		t.Errorf("%d stray lines, want %d: %q", f.Stray, want, f.StrayText)
	}
	if v := NewView(f, Options{}); !strings.Contains(v.Title, "   2 dumps of ") {
		t.Errorf("title %q", v.Title)
	}
}

func TestViews(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"py311-loopwatchdog-dump_only-stderr.txt", `python faulthandler   4 dumps of 3 threads
WEDGED  loop thread in gateway.py:10 rebuild_index, same in 4 of 4
  CPU per thread not recorded: spinning or blocked cannot be told
- LOOP  0x7fc3f2412b80 same 4/4
    gateway.py:10 rebuild_index culprit
    gateway.py:15 handle_message
    (4 asyncio frames)
    gateway.py:60 main
    gateway.py:64 <module>
+ 0x7fc3f0cff6c0 same 4/4 in watchdog that wrote this: not the culprit
+ 0x7fc3ebfff6c0 same 4/4 in thread.py:58 run
`},
		{"py311-idle-loop-not-wedged.txt", `python faulthandler   1 thread
IDLE  loop idle, in its own poll
- LOOP  0x7fabdb260b80
    (6 library frames)
    idle.py:9 <module>
`},
		{"py311-exception-group-not-a-dump.txt", "python traceback\nNOT A DUMP  a Python traceback, not a thread dump\n"},
		{"go126-deadlock-fatal.txt", `Go goroutines   3 goroutines
DEADLOCK  likely: goroutine 18 > goroutine 19 > goroutine 18
  fatal error: all goroutines are asleep - deadlock!
- 2 x goroutine [sync.Mutex.Lock]
    (4 library frames)
    main.go:15 func1 culprit
    waits for 0x1938cfa06008
    waits for 0x1938cfa06000
+ 1 [sync.WaitGroup.Wait] in main.go:20 main
`},
		{"c-gdb-thread-apply-all-bt.txt", `gdb   6 threads
DEADLOCK  likely: flusher > agent-c > flusher
  1 line of other output
- flusher 16112
    (4 library frames)
    agent.c:19 flusher culprit
    (2 library frames)
    waits for session_mu
- agent-c 16106
    (4 library frames)
    agent.c:13 dispatch culprit
    agent.c:33 main
    waits for outbox_mu
+ 4 x worker in agent.c:25 worker
`},
	} {
		if diff := cmp.Diff(c.want, plain(NewView(Parse(read(t, c.file)), Options{}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
	}
}

func TestViewPutsTheLoopAboveTheBigGroups(t *testing.T) {
	v := NewView(Parse(read(t, "go126-sigquit-209.txt")), Options{})
	if len(v.Sections) != 12 || v.Sections[0].Kind != LoopSection || v.Sections[0].Title != "LOOP  8 [chan send]" {
		t.Fatalf("%d sections, the first %q", len(v.Sections), v.Sections[0].Title)
	}
	var counts []int
	for _, s := range v.Sections[:5] {
		counts = append(counts, s.Count)
	}
	if diff := cmp.Diff([]int{1, 1, 10, 40, 150}, counts); diff != "" {
		t.Error(diff)
	}
	for _, s := range v.Sections[5:] {
		if s.Kind != RuntimeSection || s.Open {
			t.Errorf("%q stands among the runtime's own, open %v", s.Title, s.Open)
		}
	}
}

func TestViewSaysWhatIsMissing(t *testing.T) {
	for file, want := range map[string]string{
		"py311-151threads-capped-at-100.txt": "loop thread not in the dump (cut at 100)",
		"go126-truncated-by-full-pipe.txt":   "TRUNCATED: the text breaks off; what stands last is incomplete",
		"java17-hostile-thread-names.txt":    "1 stack below a header that cannot be believed: not counted",
		"go126-sigquit-waits.txt":            "SIGQUIT: quit",
	} {
		if text := plain(NewView(Parse(read(t, file)), Options{})); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q:\n%s", file, want, text)
		}
	}
}

func TestFoldedRowsKeepTheirFrames(t *testing.T) {
	v := NewView(Parse(read(t, "py311-usr1-asyncio-sleep.txt")), Options{})
	fold := v.Sections[0].Rows[2]
	if fold.Kind != FoldRow || fold.Name != "(6 asyncio frames)" || len(fold.Folded) != 6 {
		t.Fatalf("%+v", fold)
	}
	if f := fold.Folded[1]; f.Path != "/usr/lib/python3.11/asyncio/base_events.py" || f.Line != 1922 || f.Name != "_run_once" || f.Where != "base_events.py:1922" {
		t.Errorf("%+v", f)
	}
}

func TestWaitsAreShown(t *testing.T) {
	a := Analyze(&Parse(read(t, "go126-sigquit-waits.txt")).Dumps[0], Options{})
	waiting, labelled := 0, 0
	for _, th := range a.Dump.Threads {
		if th.Wait == 2*time.Minute {
			waiting++
			if th.Labels != "" {
				labelled++
			}
		}
	}
	if waiting != 10 || labelled != 3 {
		t.Errorf("%d goroutines wait for 2 minutes, %d of them with labels; want 10 and 3", waiting, labelled)
	}
}

func TestComparePair(t *testing.T) {
	from, to := Parse(read(t, "java17-spin-pair-1.txt")), Parse(read(t, "java17-spin-pair-2.txt"))
	pairs := Compare(&from.Dumps[0], &to.Dumps[0])
	for _, p := range pairs {
		if p.From < 0 || from.Dumps[0].Threads[p.From].Name != "event-loop" {
			continue
		}
		if got, want := p.Consumed(), "cpu +2222 ms in 2.29 s = 97 % of a core"; p.Change != Same || got != want {
			t.Errorf("%s, %q; want same, %q", p.Change, got, want)
		}
		if got := p.Stuck(); !strings.HasPrefix(got, "spinning") {
			t.Errorf("an unmoved stack with a core is %q", got)
		}
	}
	v := NewDiff(from, to, Options{})
	if v.Sections[0].Kind != ChangeSection || !strings.HasPrefix(v.Sections[0].Title, "LOOP  event-loop") {
		t.Errorf("the loop is not first: %+v", v.Sections[0].Title)
	}
	if v.Notes[0] != "0 moved, 28 same, 0 new, 0 gone" {
		t.Errorf("%q", v.Notes[0])
	}
}

func TestCompareMovedNewAndGone(t *testing.T) {
	const head = "State:\tS (sleeping)\nvoluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t3\n"
	from := Parse("== tid 1 comm=a wchan=futex syscall=1\n" + head + "10 0\n== tid 2 comm=b wchan=poll syscall=7\n" + head + "0 0\n== tid 3 comm=c wchan=poll syscall=7\n" + head + "0 0\n")
	to := Parse("== tid 1 comm=a wchan=poll syscall=7\n" + head + "60 0\n== tid 2 comm=b wchan=poll syscall=7\n" + head + "0 0\n== tid 9 comm=d wchan=poll syscall=7\n" + head + "0 0\n")
	got := map[string]string{}
	for _, p := range Compare(&from.Dumps[0], &to.Dumps[0]) {
		d, i := &to.Dumps[0], p.To
		if i < 0 {
			d, i = &from.Dumps[0], p.From
		}
		got[d.Threads[i].Name] = p.Change.String() + " " + p.Consumed()
	}
	want := map[string]string{"a": "moved cpu +500 ms, 0 context switches", "b": "same cpu +0 ms, 0 context switches", "c": "gone ", "d": "new "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A capture holds the dump of the runtime and the kernel's view: like is compared
// with like.
func TestDiffOfCapturesOfSeveralKinds(t *testing.T) {
	capture := Parse(read(t, "py311-usr1-asyncio-sleep.txt") + "\n## proc\n" + read(t, "c-proc-task.txt"))
	if n := len(capture.Dumps); n < 2 || capture.Dumps[0].Format == capture.Dumps[n-1].Format {
		t.Fatalf("%d dumps in the capture", n)
	}
	for _, note := range NewDiff(capture, capture, Options{}).Notes {
		if strings.Contains(note, "different kinds") {
			t.Error(note)
		}
	}
}

func TestDiffOfWhatIsNoDump(t *testing.T) {
	dump, other := Parse(read(t, "c-eu-stack.txt")), Parse("INFO nothing\n")
	if v := NewDiff(other, dump, Options{}); v.Verdict != Unclear || !strings.HasPrefix(v.Notes[0], "the earlier file: ") {
		t.Errorf("%+v", v)
	}
	if v := NewDiff(dump, other, Options{}); v.Verdict != NotADump {
		t.Errorf("%+v", v)
	}
}

func TestMutexEdgesOfJava(t *testing.T) {
	a := Analyze(&Parse(read(t, "java17-sigquit-deadlock.txt")).Dumps[0], Options{})
	var got []string
	for _, e := range a.Edges {
		to := "?"
		if e.To >= 0 {
			to = a.Dump.Threads[e.To].Name
		}
		got = append(got, a.Dump.Threads[e.From].Name+" > "+to)
	}
	if diff := cmp.Diff([]string{"event-loop > flusher", "flusher > event-loop", "sync-a > sync-b", "sync-b > sync-a"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestKernelTellsOfTheLoop(t *testing.T) {
	stack := read(t, "py311-usr1-asyncio-sleep.txt")
	snapshot := func(ticks string) string {
		return "== tid 7 comm=python3 wchan=? syscall=?\nState:\tS (sleeping) voluntary_ctxt_switches:\t8 nonvoluntary_ctxt_switches:\t3 \n" + ticks + " 0\n"
	}
	for text, want := range map[string]string{
		stack + snapshot("5"):                           "the kernel says of the main thread: sleeping",
		stack + snapshot("5") + stack + snapshot("105"): "the kernel says of the main thread: sleeping; cpu +1000 ms, 0 context switches",
	} {
		v := NewView(Parse(text), Options{})
		if v.Verdict != Wedged || len(v.Notes) == 0 || v.Notes[0] != want {
			t.Errorf("%s: %q, want %q", v.Verdict, v.Notes, want)
		}
	}
}
