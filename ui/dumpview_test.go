package ui

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// dumpText is a dump of a real program.
func dumpText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "internal", "stackdump", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dumped keeps dumps of four runtimes.
func dumped(t testing.TB) *fakeChildren {
	t.Helper()
	f := talkative()
	f.texts = map[string]string{}
	for i, d := range []struct{ file, id, reason, method, format, verdict, culprit string }{
		{"py311-loopwatchdog-dump_only-stderr.txt", "gateway-eu1", "stall", "SIGUSR1", "py-faulthandler", "wedged", "gateway.py:10 rebuild_index"},
		{"go126-sigquit-209.txt", "crawler", "operator", "SIGQUIT", "go", "unclear", ""},
		{"java17-spin-pair-2.txt", "solver", "stall", "SIGQUIT", "java", "busy", ""},
		{"java17-spin-pair-1.txt", "solver", "stall", "SIGQUIT", "java", "busy", ""},
		{"", "etl", "stall", "", "", "", ""},
	} {
		e := DumpEntry{Name: "dump-" + d.file, ID: watchdog.ID(d.id), Generation: 2, At: at.Add(-time.Duration(i+1) * time.Minute), Reason: d.reason, Method: d.method,
			Format: d.format, Verdict: d.verdict, Culprit: d.culprit}
		if d.file != "" {
			f.texts[e.Name] = dumpText(t, d.file)
			e.Bytes = int64(len(f.texts[e.Name]))
		}
		f.dumps = append(f.dumps, e)
	}
	f.dumps[1].Truncated = true
	return f
}

// newDumps opens the list of dumps.
func newDumps(t testing.TB, width, height int, change ...func(*Options)) *screen {
	t.Helper()
	s := newScreen(t, runningChild(), About{Name: "local"}, width, height, change...)
	s.supervise(dumped(t), runningChild())
	s.press("6")
	return s
}

func TestDumpList(t *testing.T) {
	s := newDumps(t, 120, 40)
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"DUMPS  of all sessions", "5, newest first", "gateway-eu1 #2", "py-faulthandler", "wedged", "gateway.py:10 rebuild_index", "nothing was had", "kB!"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	if strings.Index(frame, "gateway-eu1") > strings.Index(frame, "crawler") {
		t.Error("the newest does not stand first")
	}
	// A newer one comes in above; the cursor stays on its dump.
	s.press("j")
	f := s.feed.children.(*fakeChildren)
	f.dumps = append([]DumpEntry{{Name: "new", ID: "x", At: at, Bytes: 1}}, f.dumps...)
	s.run(s.m.listDumps(0))
	if s.m.frame(); s.m.dumps.list[s.m.pager().cur].ID != "crawler" {
		t.Error("the cursor left its dump")
	}
	s.press("esc", "6", "/", "s", "o", "l", "v", "enter", "enter")
	if s.m.top() != viewDump || s.m.dump.entry.ID != "solver" {
		t.Errorf("enter on a match opened %q", s.m.dump.entry.ID)
	}
}

func TestDumpView(t *testing.T) {
	s := newDumps(t, 80, 24)
	s.press("enter")
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"DUMP  gateway-eu1 #2", "WEDGED", "LOOP  ", "> gateway.py:10  rebuild_index", "culprit", "asyncio frames)", "same 4/4", "watchdog that wrote this: not the culprit"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	if strings.Index(frame, "LOOP") < strings.Index(frame, "WEDGED") || strings.Index(frame, "LOOP") > strings.Index(frame, "not the culprit") {
		t.Error("not in the order verdict, loop, others")
	}
	s.press("enter") // folds the loop
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "handle_message") {
		t.Errorf("the loop is not folded:\n%s", frame)
	}
	s.press("enter")
	for range 20 { // to the folded library calls
		if l := s.m.dumpAt(); l.kind == rowLine && strings.Contains(l.text, "asyncio frames)") {
			break
		}
		s.press("j")
	}
	s.press("enter")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "base_events.py") {
		t.Errorf("library calls do not unfold:\n%s", frame)
	}
	s.press("v")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, `File "`) {
		t.Errorf("the raw text is not shown:\n%s", frame)
	}
	s.press("v", "esc", "esc")
	if s.m.top() != viewSessions {
		t.Error("esc does not lead back")
	}
}

// What was configured of a session holds for its dumps in the view too.
func TestDumpViewKnowsTheLoopThatWasNamed(t *testing.T) {
	kept := dumped(t)
	kept.dumps[1].LoopThread = "1"
	s := newScreen(t, runningChild(), About{Name: "local"}, 120, 40)
	s.supervise(kept, runningChild())
	s.press("6", "j", "enter")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "LOOP  1 [") {
		t.Errorf("the loop is not goroutine 1:\n%s", frame)
	}
}

func TestDumpSearchLooksIntoWhatIsFolded(t *testing.T) {
	s := newDumps(t, 120, 40)
	s.press("enter", "/")
	s.press(strings.Split("run_forever", "")...)
	if l := s.m.dumpAt(); l == nil || !strings.Contains(l.text, "run_forever") {
		t.Fatalf("the search does not find a folded call: %+v", l)
	}
	s.press("enter", "g")
	s.m.frame()
	s.press("n")
	if l := s.m.dumpAt(); !strings.Contains(l.text, "run_forever") {
		t.Errorf("n leads to %q", l.text)
	}
}

func TestDumpCompare(t *testing.T) {
	s := newDumps(t, 120, 40)
	s.press("j", "enter")
	s.press("D")
	if !strings.Contains(s.m.note.text, "no older dump of crawler") {
		t.Errorf("D without an older dump says %q", s.m.note.text)
	}
	s.press("esc", "j", "enter", "D")
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"compared", "2222 ms"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	s.press("D")
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "2222 ms") {
		t.Errorf("D does not lead back:\n%s", frame)
	}
}

func TestDumpGroups(t *testing.T) {
	s := newDumps(t, 120, 40)
	s.press("j", "enter")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "main.go:53") {
		t.Errorf("the loop is not shown:\n%s", frame)
	}
	s.press("B")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "by place") || !strings.Contains(frame, "threads  in ") {
		t.Errorf("not grouped by place:\n%s", frame)
	}
	s.press("B", "B")
	if s.m.dump.order != bySuspicion {
		t.Error("B does not lead around")
	}
}

func TestDumpCopyAndEditor(t *testing.T) {
	var copied, edited string
	var line int
	ran := false
	fails := errors.New("gateway.py is not on this machine")
	s := newDumps(t, 80, 24, func(o *Options) {
		o.Copy = func(text string, done func(error) tea.Msg) tea.Cmd {
			copied = text
			return func() tea.Msg { return done(nil) }
		}
		o.Edit = func(path string, n int) (tea.Cmd, error) {
			edited, line = path, n
			return func() tea.Msg { ran = true; return nil }, fails
		}
	})
	s.press("enter", "c")
	if !strings.HasSuffix(copied, "gateway.py:10") || !strings.Contains(copied, "/") {
		t.Errorf("copied %q", copied)
	}
	s.press("o")
	if ran || !strings.Contains(s.m.note.text, "not on this machine") {
		t.Errorf("o says %q", s.m.note.text)
	}
	fails = nil
	s.press("o")
	if !ran || !strings.HasSuffix(edited, "gateway.py") || line != 10 {
		t.Errorf("edited %q:%d", edited, line)
	}
	s.press("g")
	s.m.frame()
	s.press("c")
	if !strings.Contains(s.m.note.text, "no file is named here") {
		t.Errorf("c on the verdict says %q", s.m.note.text)
	}
}

func TestDumpThatCannotBeRead(t *testing.T) {
	s := newDumps(t, 80, 24)
	s.press("G", "enter")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "cannot be read: there is no dump") {
		t.Errorf("it does not say why:\n%s", frame)
	}
	s.press("v", "B", "enter", "c", "o", "D", "n", "j", "G", "esc", "esc")
	if s.m.top() != viewSessions {
		t.Error("esc does not lead back")
	}
}

// Every sample of every runtime is drawn without anything that the terminal
// would obey, at every size, folded and unfolded.
func TestDumpsOfEveryRuntimeAreSafe(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "internal", "stackdump", "testdata", "*.*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	f := &fakeChildren{texts: map[string]string{}}
	for i, file := range files {
		name := filepath.Base(file)
		f.texts[name] = dumpText(t, name)
		f.dumps = append(f.dumps, DumpEntry{Name: name, ID: "x", At: at.Add(-time.Duration(i) * sec), Bytes: 1})
	}
	s := newScreen(t, runningChild(), About{}, 80, 24)
	s.supervise(f, runningChild())
	s.press("6")
	for i := range files {
		s.m.pager().cur, s.m.pager().follow = i, false
		s.press("enter")
		for _, keys := range []string{"", "enter", "B", "w", "v", "G", "w", "v D"} {
			s.press(strings.Fields(keys)...)
			frame := s.m.frame()
			for _, line := range strings.Split(frame, "\n") {
				if n := ansi.StringWidth(line); n > 80 {
					t.Fatalf("%s %s: %d cells: %q", files[i], keys, n, line)
				}
			}
			for _, c := range ansi.Strip(frame) {
				if c < 0x20 && c != '\n' || c == 0x7f || c >= 0x80 && c < 0xa0 {
					t.Fatalf("%s %s: %q in the frame", files[i], keys, c)
				}
			}
		}
		s.press("esc")
		s.m.frame()
	}
}

// A capture may hold dumps of several kinds; those of one kind are compared.
func TestDumpComparesLikeWithLike(t *testing.T) {
	f := &fakeChildren{texts: map[string]string{}}
	mixed := dumpText(t, "py311-usr1-asyncio-sleep.txt") + "\n" + dumpText(t, "c-proc-task.txt")
	for i, name := range []string{"later", "earlier"} {
		f.texts[name] = mixed
		f.dumps = append(f.dumps, DumpEntry{Name: name, ID: "agent", Generation: 1, At: at.Add(-time.Duration(i+1) * time.Minute), Bytes: 1})
	}
	s := newScreen(t, runningChild(), About{}, 120, 40)
	s.supervise(f, runningChild())
	s.press("6", "enter", "D")
	frame := ansi.Strip(s.m.frame())
	if strings.Contains(frame, "different kinds") || !strings.Contains(frame, "0 new, 0 gone") {
		t.Errorf("not compared with its like:\n%s", frame)
	}
}

// newFiles is a screen on dumps out of files alone, the newest first.
func newFiles(t testing.TB, width, height int, names ...string) *screen {
	t.Helper()
	return newScreen(t, watchdog.Window{}, About{}, width, height, func(o *Options) {
		o.Feed = nil
		for _, name := range names {
			o.Dumps = append(o.Dumps, DumpEntry{Name: name})
		}
		o.ReadDump = func(_ context.Context, name string) ([]byte, error) { return []byte(dumpText(t, name)), nil }
	})
}

// Of a file there is the dump view alone: whatever needs sessions says why it is
// off, and below the bottom is the way out.
func TestDumpViewOfAFile(t *testing.T) {
	for _, leave := range []string{"esc", "q", "ctrl+c"} {
		s := newFiles(t, 80, 24, "py311-loopwatchdog-dump_only-stderr.txt")
		frame := ansi.Strip(s.m.frame())
		for _, want := range []string{"DUMP  py311-loop", "python faulthandler", "WEDGED", "> gateway.py:10  rebuild_index", "v raw"} {
			if !strings.Contains(frame, want) {
				t.Errorf("no %q in\n%s", want, frame)
			}
		}
		for _, not := range []string{"NO SERVER", "drops", "esc back", "compare"} {
			if strings.Contains(frame, not) {
				t.Errorf("%q in\n%s", not, frame)
			}
		}
		for _, key := range []string{"1", "2", "3", "4", "5", "6", "[", "]", "ctrl+r"} {
			s.press(key)
			if s.m.top() != viewDump || s.m.note.text != needsSessions(s.m) {
				t.Errorf("%s leads to %d and says %q", key, s.m.top(), s.m.note.text)
			}
		}
		if s.press("D"); !strings.Contains(s.m.note.text, "one file is shown") {
			t.Errorf("D says %q", s.m.note.text)
		}
		s.press("?")
		if s.m.top() != viewHelp {
			t.Error("there is no help")
		}
		if s.press("esc"); s.m.top() != viewDump || s.quit {
			t.Error("esc does not lead back from help")
		}
		if s.press(leave); !s.quit {
			t.Errorf("%s does not leave", leave)
		}
	}
}

func TestTwoFilesAreCompared(t *testing.T) {
	s := newFiles(t, 100, 24, "java17-spin-pair-2.txt", "java17-spin-pair-1.txt")
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"DUMP  java17-spin-pair-2.txt", "compared with java17-spin-pair-1.txt", "0 moved, 28 same, 0 new, 0 gone", "D compare"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	s.press("D")
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "28 same") {
		t.Errorf("still compared:\n%s", frame)
	}
	s.press("D")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "28 same") {
		t.Errorf("not compared again:\n%s", frame)
	}
}
