package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeTrier answers with one result.
type fakeTrier struct {
	tried  []watchdog.Policy
	result watchdog.TrialResult
	err    error
}

func (f *fakeTrier) Reach(context.Context) (TrialReach, error) {
	return TrialReach{Policy: watchdog.DefaultPolicy(), Text: "what came in from 02:08:44Z, 1h04"}, f.err
}

func (f *fakeTrier) Try(_ context.Context, words string) (watchdog.TrialResult, error) {
	now := watchdog.DefaultPolicy()
	would, err := watchdog.ParseTrial(now, words)
	if err != nil || f.err != nil {
		return watchdog.TrialResult{}, errors.Join(err, f.err)
	}
	f.tried = append(f.tried, would)
	r := f.result
	r.Changes = watchdog.TrialChanges(&now, &would)
	r.Would = would
	return r, f.err
}

// trialOf has one raise of each kind.
func trialOf() watchdog.TrialResult {
	moment := func(ago time.Duration) watchdog.Instant {
		return watchdog.Instant{Mono: watched - ago, Wall: at.Add(-ago).UnixNano()}
	}
	raise := func(from, to time.Duration, end watchdog.TrialEnd, next watchdog.Verdict) *watchdog.TrialRaise {
		return &watchdog.TrialRaise{At: moment(from), Until: moment(to), End: end, Next: next}
	}
	return watchdog.TrialResult{From: moment(64 * mins), To: moment(0), Sessions: 2002, Beats: 256_412, GroupsNow: 1, GroupsWould: 1,
		Verdicts: []watchdog.TrialVerdict{
			{Verdict: watchdog.Stalled, Now: watchdog.TrialCount{Raised: 3, Recovered: 2}, Would: watchdog.TrialCount{Raised: 2, Recovered: 1}, Gone: 1},
			{Verdict: watchdog.Lost, Would: watchdog.TrialCount{Raised: 1, Recovered: 1}, New: 1},
			{Verdict: watchdog.Silent, Now: watchdog.TrialCount{Raised: 1, Recovered: 1}, Would: watchdog.TrialCount{Raised: 1, Recovered: 1}},
		},
		Own: []watchdog.TrialOwn{{Name: "stall_timeout", From: "declared", Sessions: 44}},
		Raised: []watchdog.Tried{
			{ID: "indexer", Generation: 2, Verdict: watchdog.Stalled, Now: raise(40*mins, 34*mins, watchdog.TrialRecovered, watchdog.Running)},
			{ID: "etl-nightly", Generation: 9, Verdict: watchdog.Stalled, Now: raise(30*mins, 20*mins, watchdog.TrialRecovered, watchdog.Running),
				Would: raise(25*mins, 20*mins, watchdog.TrialRecovered, watchdog.Running)},
			{ID: "team.a.job-1", Verdict: watchdog.Lost, Would: raise(24*mins, 20*mins+30*sec, watchdog.TrialRecovered, watchdog.Lost)},
			{ID: "crawler-0031", Generation: 1, Verdict: watchdog.Silent, Now: raise(22*mins, 21*mins, watchdog.TrialRecovered, watchdog.Running),
				Would: raise(22*mins, 21*mins, watchdog.TrialRecovered, watchdog.Running)},
			{ID: "batch-job-abc123", Generation: 3, Verdict: watchdog.Stalled, Now: raise(9*mins, 0, watchdog.TrialOpen, watchdog.Stalled),
				Would: raise(4*mins, 0, watchdog.TrialOpen, watchdog.Stalled)},
		}}
}

func newTrialScreen(t *testing.T, width, height int) (*screen, *fakeTrier, *[]Export) {
	t.Helper()
	trier := &fakeTrier{result: trialOf()}
	var written []Export
	s := newScreen(t, sickWindow(), About{Name: "prod", Trial: trier}, width, height, func(o *Options) {
		o.Export = func(e Export) (string, error) { written = append(written, e); return "/tmp/" + e.Path, nil }
	})
	return s, trier, &written
}

func (s *screen) typed(text string) {
	for _, r := range text {
		if r == ' ' {
			s.press("space")
			continue
		}
		s.press(string(r))
	}
}

func TestTrialWithWords(t *testing.T) {
	s, trier, written := newTrialScreen(t, 100, 40)
	s.press(":")
	s.typed("trial stall_timeout=10m quiet=stalled")
	s.press("enter")
	if len(trier.tried) != 1 || trier.tried[0].StallTimeout != 10*mins || trier.tried[0].Quiet != watchdog.QuietStalled {
		t.Fatalf("tried %+v", trier.tried)
	}
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{
		"TRIAL  stall_timeout 5m > 10m, quiet notice > stalled", "1h04", "2,002 sessions", "nothing is published or settled",
		"44 of 2,002 sessions have stall_timeout of their own (declared)", "*:stall_timeout=10m tries it on them too",
		"gone  02:32:44Z stalled    indexer #2", "recovered after 6m00",
		"moved 02:42:44Z stalled    etl-nightly #9", "5m00 later, recovered after 5m00",
		"new   02:48:44Z lost       team.a.job-1 #?", "beat again after 3m30: it was not lost",
		"same  02:50:44Z silent     crawler-0031 #1", "open, for 4m00 so far", "1 group now, 1 would be",
	} {
		if !strings.Contains(frame, want) {
			t.Errorf("the trial does not show %q:\n%s", want, frame)
		}
	}
	s.press("/")
	s.typed("indexer")
	s.press("enter", "enter")
	if s.m.top() != viewWhy || s.m.table.cursor != "indexer" {
		t.Errorf("enter leads to %v of %s", s.m.top(), s.m.table.cursor)
	}
	s.press("esc", "E")
	s.press("enter")
	if len(*written) != 1 || (*written)[0].Trial == nil || (*written)[0].Path != "trial-20261130T031244Z.txt" || !strings.Contains(s.m.note.text, "5 raises written to /tmp/trial") {
		t.Errorf("exported %+v; %s", *written, s.m.note.text)
	}
	if done := s.feed.commands; len(done) > 0 {
		t.Errorf("a trial did %v", done)
	}
}

func TestTrialAsksForWords(t *testing.T) {
	s, trier, _ := newTrialScreen(t, 80, 24)
	s.press(":")
	s.typed("trial")
	s.press("enter")
	frame := ansi.Strip(s.m.frame())
	for _, want := range []string{"what would other thresholds have raised?", "tried on what came in from 02:08:44Z, 1h04", "stall_timeout", "5m", "stalled after so long without work", "try "} {
		if !strings.Contains(frame, want) {
			t.Errorf("it does not show %q:\n%s", want, frame)
		}
	}
	s.typed("stall_timeout=ten")
	s.press("enter")
	if frame := ansi.Strip(s.m.frame()); len(trier.tried) > 0 || !strings.Contains(frame, `"ten" is not a duration`) {
		t.Errorf("tried %v; the screen says\n%s", trier.tried, frame)
	}
	s.press("backspace", "backspace", "backspace")
	s.typed("7m")
	s.press("enter")
	if len(trier.tried) != 1 || s.m.trial.result == nil {
		t.Fatalf("nothing was tried")
	}
	s.press("t") // others: the words stand there again
	if got := s.m.prompt.in.String(); got != "stall_timeout=7m" {
		t.Errorf("the line holds %q", got)
	}
	s.press("esc", "esc")
	if s.m.top() != viewSessions {
		t.Errorf("esc leads to %v", s.m.top())
	}
}

// TestTrialGivesUp: esc ends what runs, and a late answer is dropped.
func TestTrialGivesUp(t *testing.T) {
	s, _, _ := newTrialScreen(t, 80, 24)
	begin := s.m.openTrialWith("stall_timeout=10m") // its answer is not there yet
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "judging what was seen once more") {
		t.Errorf("\n%s", frame)
	}
	s.press("esc")
	s.send(begin())
	if s.m.trial.result != nil || s.m.top() != viewSessions {
		t.Error("a trial that was given up is shown")
	}
}

func TestTrialSaysWhatIsWrong(t *testing.T) {
	s, trier, _ := newTrialScreen(t, 80, 24)
	trier.err = errors.New("nothing is kept yet")
	s.run(s.m.openTrialWith("stall_timeout=10m"))
	if !s.m.note.bad || !strings.Contains(s.m.note.text, "not tried: nothing is kept yet") {
		t.Errorf("%+v", s.m.note)
	}
	trier.err = nil
	s.run(s.m.openTrialWith("nonsense=1"))
	if !strings.Contains(s.m.note.text, "no threshold that can be tried") {
		t.Errorf("%+v", s.m.note)
	}
}

// TestTrialText is the same as text, for a file or a terminal that is none.
func TestTrialText(t *testing.T) {
	r := trialOf()
	r.Changes = []string{"stall_timeout 5m > 10m"}
	r.Would.StallTimeout = 10 * mins
	golden(t, "trial-text", strings.Join(TrialText(&r), "\n")+"\n")
	r = watchdog.TrialResult{}
	if got := strings.Join(TrialText(&r), "\n"); !strings.Contains(got, "neither policy raises anything") {
		t.Error(got)
	}
}

// fakeRecorder keeps what it was told.
type fakeRecorder struct {
	tape  *Tape
	paths []string
	err   error
}

func (f *fakeRecorder) Record(_ context.Context, path string) error {
	if f.err != nil {
		return f.err
	}
	f.paths = append(f.paths, path)
	f.tape = &Tape{Path: path, For: 252 * sec, Bytes: 41_000}
	return nil
}

func (f *fakeRecorder) Stop(context.Context) (string, error) {
	f.tape = nil
	return "recorded 1,200 beats", f.err
}

func (f *fakeRecorder) Tape() (Tape, bool) {
	if f.tape == nil {
		return Tape{}, false
	}
	return *f.tape, true
}

func TestRecord(t *testing.T) {
	f := &fakeRecorder{}
	s := newScreen(t, sickWindow(), About{Name: "prod", ReadOnly: true, Recorder: f}, 80, 24)
	badge := func() string { return strings.Split(ansi.Strip(s.m.frame()), "\n")[1] }
	s.press(":")
	s.typed("record x.jsonl.gz")
	s.press("enter")
	if diff := cmp.Diff([]string{"x.jsonl.gz"}, f.paths); diff != "" {
		t.Fatal(diff)
	}
	if !strings.Contains(badge(), " REC 4m12 41 kB ") || !strings.Contains(s.m.note.text, "recording to x.jsonl.gz; :record ends it") {
		t.Errorf("%q, %q", badge(), s.m.note.text)
	}
	s.run(s.m.recordTo("y"))
	if !strings.Contains(s.m.note.text, "already recording to x.jsonl.gz") {
		t.Error(s.m.note.text)
	}
	f.tape.Err = errors.New("no space left on device")
	s.show(sickWindow())
	if !strings.Contains(badge(), " REC FAILED ") {
		t.Error(badge())
	}
	s.press(":")
	s.typed("record")
	s.press("enter")
	if strings.Contains(badge(), "REC") || s.m.note.text != "recorded 1,200 beats" {
		t.Errorf("%q, %q", badge(), s.m.note.text)
	}
	f.err = errors.New("x.jsonl.gz exists already; give the recording another name")
	s.press(":")
	s.typed("record")
	s.press("enter")
	if s.m.prompt == nil || s.m.prompt.in.String() != "sessionwatch-20261130-031244.jsonl.gz" {
		t.Fatal("it does not ask for a name")
	}
	s.press("enter")
	if !s.m.note.bad || !strings.Contains(s.m.note.text, "exists already") || strings.Contains(badge(), "REC") {
		t.Errorf("%q, %q", badge(), s.m.note.text)
	}
}

// TestReplayIsSteeredFromItsPages: who reads why, or events, can still hold the
// recording; at its end it begins again.
func TestReplayIsSteeredFromItsPages(t *testing.T) {
	r := &fakeReplay{speed: 20}
	s := newScreen(t, sickWindow(), About{Name: "night", Replay: r, Length: 4 * time.Hour}, 80, 24)
	frame := ansi.Strip(s.m.frame())
	if !strings.Contains(frame, "REPLAY x20  night  3h00 of 4h00") || !strings.Contains(frame, "space pause") {
		t.Errorf("where we are, or how to hold it, is not said:\n%s", frame)
	}
	s.press("i", "space")
	if !r.paused || s.m.top() != viewWhy {
		t.Errorf("%+v in %v", r, s.m.top())
	}
	s.press("esc", "3", ".")
	if r.steps != 1 {
		t.Errorf("%+v", r)
	}
	r.ended = true
	s.show(sickWindow())
	s.press("space")
	if r.paused || r.steps >= 0 {
		t.Errorf("space at the end: %+v", r)
	}
	live := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	live.press("i", "space")
	if !strings.Contains(live.m.note.text, "no recording") {
		t.Error(live.m.note.text)
	}
}
