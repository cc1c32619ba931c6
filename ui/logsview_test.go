package ui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeChildren keeps output and dumps like a supervisor does.
type fakeChildren struct {
	mu      sync.Mutex
	lines   []LogLine
	partial []LogLine // what has not ended yet
	dumps   []DumpEntry
	texts   map[string]string
	err     error
	reads   int
}

func (f *fakeChildren) Logs(_ context.Context, id watchdog.ID, from int64, most int) ([]LogLine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.err != nil {
		return nil, f.err
	}
	var out []LogLine
	for _, l := range f.lines {
		if from < 0 || l.Seq >= from {
			out = append(out, l)
		}
	}
	if from < 0 {
		out = out[max(len(out)-most, 0):]
	}
	return append(out[:min(len(out), most):min(len(out), most)], f.partial...), nil
}

func (f *fakeChildren) Dumps(_ context.Context, id watchdog.ID) ([]DumpEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]DumpEntry(nil), f.dumps...), f.err
}

func (f *fakeChildren) Dump(_ context.Context, name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text, ok := f.texts[name]; ok {
		return []byte(text), nil
	}
	return nil, errors.New("there is no dump " + name)
}

// print adds lines; those that begin with "! " are of standard error.
func (f *fakeChildren) print(generation watchdog.Generation, texts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range texts {
		seq := int64(1)
		if n := len(f.lines); n > 0 {
			seq = f.lines[n-1].Seq + 1
		}
		l := LogLine{Seq: seq, At: at.Add(-time.Minute + time.Duration(seq)*time.Second), Generation: generation, Stream: "stdout", Text: text}
		if rest, isErr := strings.CutPrefix(text, "! "); isErr {
			l.Stream, l.Text = "stderr", rest
		}
		f.lines = append(f.lines, l)
	}
}

// drop forgets lines from the middle, as a full ring does.
func (f *fakeChildren) drop(from, to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var kept []LogLine
	for _, l := range f.lines {
		if l.Seq < from || l.Seq > to {
			kept = append(kept, l)
		}
	}
	f.lines = kept
}

func talkative() *fakeChildren {
	f := &fakeChildren{}
	f.print(1, "loading the index", "chunk 1 of 3 done", "! warning: the cache is cold, reading 4,096 documents from the bucket one by one, which takes a while", "chunk 2 of 3 done", "! Traceback (most recent call last):", "! ConnectionError: db.lan:5432 refused")
	f.print(2, "loading the index", "chunk 1 of 3 done")
	return f
}

// poll reads once more, as the pause between two readings is over.
func (s *screen) poll() {
	s.t.Helper()
	s.run(s.m.readLogs())
}

// newLogs opens the logs of a supervised session.
func newLogs(t *testing.T, f *fakeChildren, width, height int) *screen {
	t.Helper()
	s := newScreen(t, runningChild(), About{Name: "local"}, width, height)
	s.supervise(f, runningChild())
	s.press("l")
	return s
}

func TestLogs(t *testing.T) {
	f := talkative()
	s := newLogs(t, f, 120, 40)
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"LOGS  batch-job-0001 #2", "8 lines", "following", "03:11:46Z", "! Traceback", "  chunk 1 of 3 done", "generation #2 begins"} {
		if !strings.Contains(frame, want) {
			t.Errorf("no %q in\n%s", want, frame)
		}
	}
	f.print(2, "chunk 2 of 3 done")
	f.partial = []LogLine{{Seq: 10, At: at, Stream: "stdout", Text: "waiting for", Partial: true}}
	s.poll()
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "waiting for ...") {
		t.Errorf("an unfinished line is not shown:\n%s", frame)
	}
	f.partial = nil
	f.print(2, "waiting for the database")
	s.poll()
	frame = ansi.Strip(s.m.frame())
	if strings.Contains(frame, "waiting for ...") || strings.Count(frame, "waiting for") != 1 {
		t.Errorf("an unfinished line stays beside the whole one:\n%s", frame)
	}
	s.press("t")
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "03:11:46Z") {
		t.Error("t leaves the time stamps")
	}
}

func TestLogsFollow(t *testing.T) {
	f := talkative()
	s := newLogs(t, f, 80, 24)
	s.press("k", "k")
	if s.m.pager().follow {
		t.Fatal("it follows while an older line is read")
	}
	cur := s.m.pager().cur
	f.print(2, "one", "two", "three")
	s.poll()
	if s.m.frame(); s.m.pager().cur != cur {
		t.Errorf("the cursor went from %d to %d", cur, s.m.pager().cur)
	}
	s.press("G")
	f.print(2, "four")
	s.poll()
	s.m.frame()
	if l := s.m.lines(); l.text(s.m.pager().cur) != "four" {
		t.Error("the end is not followed")
	}
	s.press("F")
	f.print(2, "five")
	s.poll()
	s.m.frame()
	if l := s.m.lines(); l.text(s.m.pager().cur) != "four" {
		t.Error("F does not stop following")
	}
}

func TestLogsTellWhatIsMissing(t *testing.T) {
	f := talkative()
	s := newLogs(t, f, 120, 40)
	for i := range 50 {
		f.print(2, fmt.Sprintf("flood %d", i))
	}
	f.drop(9, 40)
	s.poll()
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "cut: 32 lines came faster") {
		t.Errorf("a gap is not told:\n%s", frame)
	}
	f.lines = nil
	f.print(1, "a new life")
	for range logsRewound + 2 {
		s.poll()
	}
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "started anew") || !strings.Contains(frame, "a new life") {
		t.Errorf("lines that are counted from 1 again are not seen:\n%s", frame)
	}
}

func TestLogsAreBounded(t *testing.T) {
	f := &fakeChildren{}
	for i := range 3000 {
		f.lines = append(f.lines, LogLine{Seq: int64(i + 1), At: at, Text: fmt.Sprintf("line %d", i+1)})
	}
	s := newLogs(t, f, 80, 24)
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "line 3000") {
		t.Errorf("the newest lines are not shown:\n%s", frame)
	}
	s.press("g")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "cut: 1,000 lines before this one") {
		t.Errorf("what was not read is not told:\n%s", frame)
	}
	for k := range 5 {
		for i := range 1500 {
			f.lines = append(f.lines, LogLine{Seq: int64(3001 + k*1500 + i), At: at, Text: strings.Repeat("x", 200)})
		}
		s.poll()
	}
	if n := len(s.m.logs.list); n > logsKept+logsSlack+1 {
		t.Errorf("%d lines are held", n)
	}
	s.press("g")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "no longer held") {
		t.Errorf("what was let go is not told:\n%s", frame)
	}
	var held int64
	for _, it := range s.m.logs.list {
		if held += it.cut; it.mark == "" {
			held++
		}
	}
	if held != 10_500 {
		t.Errorf("%d of 10,500 lines are accounted for", held)
	}
}

func TestLogsSaySoWhereNothingIsSupervised(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	s.press("l")
	if s.m.top() == viewLogs || !strings.Contains(s.m.note.text, "nothing is supervised") {
		t.Errorf("l says %q", s.m.note.text)
	}
	f := &fakeChildren{err: errors.New("indexer: no such session is supervised here")}
	s.supervise(f, sickWindow())
	s.press("5")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "no such session is supervised here") {
		t.Errorf("the reason is not shown:\n%s", frame)
	}
	f.mu.Lock()
	f.err = nil
	f.mu.Unlock()
	f.print(1, "here it is")
	s.poll()
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "here it is") || strings.Contains(frame, "cannot be read") {
		t.Errorf("it does not recover:\n%s", frame)
	}
}

// What was read for a session that is no longer looked at changes nothing, and
// is not read on.
func TestOldReadingsAreDropped(t *testing.T) {
	f := talkative()
	s := newLogs(t, f, 80, 24)
	late := s.m.readLogs()
	s.press("esc")
	reads := f.reads
	s.send(late())
	if f.reads > reads+1 {
		t.Error("it is read on though nobody looks")
	}
	s.press("j", "l")
	s.send(logsArrived{gen: s.m.gen, opened: s.m.logs.opened - 1, lines: []LogLine{{Seq: 99, Text: "of another"}}})
	s.send(logsArrived{gen: s.m.gen - 1, opened: s.m.logs.opened, lines: []LogLine{{Seq: 99, Text: "of another"}}})
	if frame := ansi.Strip(s.m.frame()); strings.Contains(frame, "of another") {
		t.Errorf("an old reading is shown:\n%s", frame)
	}
}

// A supervisor that does not answer costs the screen nothing.
func TestLogsNeverBlock(t *testing.T) {
	s := newScreen(t, runningChild(), About{Name: "local"}, 80, 24)
	hangs := make(chan struct{})
	defer close(hangs)
	s.m.children = hanging{hangs}
	_, cmd := s.m.Update(key("l")) // a command is not run here: it would hang
	s.now += time.Second
	if wait := cmd; wait != nil {
		s.m.Update(keysSettled{})
	}
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "reading") {
		t.Errorf("no frame while it hangs:\n%s", frame)
	}
	s.press("esc")
	if s.m.top() != viewSessions {
		t.Error("esc does not leave")
	}
}

type hanging struct{ until chan struct{} }

func (h hanging) Logs(context.Context, watchdog.ID, int64, int) ([]LogLine, error) {
	<-h.until
	return nil, nil
}
func (h hanging) Dumps(context.Context, watchdog.ID) ([]DumpEntry, error) { <-h.until; return nil, nil }
func (h hanging) Dump(context.Context, string) ([]byte, error)            { <-h.until; return nil, nil }

// A text that has no lines yet is asked for none, however it is shown.
func TestAPagerAsksAnEmptyTextForNothing(t *testing.T) {
	nothing := lines{newest: growsAtTop, text: func(int) string { panic("asked for a line") }, height: func(int, int) int { panic("asked for a height") }}
	for _, g := range []pager{{wrap: true}, {wrap: true, follow: true}, {wrap: true, cur: 3, top: 2}, {search: "x"}} {
		for _, newest := range []growth{growsNowhere, growsAtEnd, growsAtTop} {
			l := nothing
			l.newest = newest
			g.settle(&l, 5, 80)
			g.move(1, &l)
			if g.cur != 0 || g.top != 0 || len(g.matches(&l)) != 0 {
				t.Errorf("%+v", g)
			}
		}
	}
}
