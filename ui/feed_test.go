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

// stuckFeed never comes back from any call.
type stuckFeed struct{ forever chan struct{} }

func (f stuckFeed) Ask(watchdog.Ask)                             { <-f.forever }
func (f stuckFeed) Windows() <-chan watchdog.Window              { <-f.forever; return nil }
func (f stuckFeed) Retry()                                       { <-f.forever }
func (f stuckFeed) Children() Children                           { <-f.forever; return nil }
func (f stuckFeed) About() About                                 { <-f.forever; return About{} }
func (f stuckFeed) Release(context.Context, string) (int, error) { <-f.forever; return 0, nil }
func (f stuckFeed) Do(context.Context, watchdog.Command) (watchdog.Action, error) {
	<-f.forever
	return watchdog.Action{}, nil
}
func (f stuckFeed) Note(context.Context, watchdog.AlertNote) error { <-f.forever; return nil }
func (f stuckFeed) Close()                                         { <-f.forever }

// stuckReplay likewise.
type stuckReplay struct{ forever chan struct{} }

func (r stuckReplay) Pause()           { <-r.forever }
func (r stuckReplay) Resume()          { <-r.forever }
func (r stuckReplay) Paused() bool     { <-r.forever; return false }
func (r stuckReplay) Step(int)         { <-r.forever }
func (r stuckReplay) SetSpeed(float64) { <-r.forever }
func (r stuckReplay) Speed() float64   { <-r.forever; return 0 }
func (r stuckReplay) End() (bool, string) {
	<-r.forever
	return false, ""
}

// With a source that blocks for ever every key still works, every frame is
// still drawn, and the screen can be left.
func TestBlockedSourceBlocksNothing(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	host := fakeHost{open: func(context.Context, Target) (Feed, error) { <-forever; return nil, nil }}
	var now time.Duration
	m := New(Options{Host: host, Feed: stuckFeed{forever}, Theme: ThemeDark, Now: func() time.Duration { return now }})
	done := make(chan bool)
	go func() {
		m.Init()
		m.resize(80, 24)
		w := sickWindow()
		w.AskSeq = 99
		m.Update(windowArrived{gen: m.gen, window: w, about: About{Replay: stuckReplay{forever}}})
		for range 3 {
			for k := range m.bound[inReplay] {
				now += time.Second
				m.Update(key(k))
				m.Update(keysSettled{})
				m.View()
				m.Update(key("esc"))
				m.Update(keysSettled{})
			}
			for _, k := range []string{":", "d", "e", "m", "o", "enter", "esc", "esc", "/", "x", "enter", "ctrl+r", "i", "q"} {
				now += time.Second
				m.Update(key(k))
				m.Update(keysSettled{})
				m.View()
			}
		}
		m.attach(newFakeFeed(About{}), About{}) // and it can be left behind
		done <- true
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Update or View waited for the source")
	}
	if !strings.Contains(m.frame(), "sessionwatch") && m.frame() == "" {
		t.Error("nothing is drawn")
	}
}

func TestAsksAreHandedOverOneByOne(t *testing.T) {
	s := newScreen(t, fleet(100), About{}, 80, 24)
	s.m.asking.busy = true // the feed is slow to take one
	s.press("j", "j", "j")
	before := len(s.feed.asks)
	s.send(askDelivered{gen: s.m.gen})
	if got := len(s.feed.asks); got != before+1 {
		t.Errorf("%d asks were handed over, not the newest alone", got-before)
	}
	if s.feed.last().Focus != "batch-job-0003" {
		t.Errorf("the newest ask is about %s", s.feed.last().Focus)
	}
	s.send(askDelivered{gen: s.m.gen - 1})
	s.send(windowArrived{gen: s.m.gen - 1, window: sickWindow()})
	if s.m.window.Fleet.NeedYou != 0 {
		t.Error("a window of an older feed was shown")
	}
}

func TestOldAnswersDoNotUndoAFilter(t *testing.T) {
	w := fleet(50)
	s := newScreen(t, w, About{}, 80, 24)
	old := s.answer(w)
	s.press("/")
	s.press(strings.Split("0042", "")...)
	s.press("enter")
	s.send(windowArrived{gen: s.m.gen, window: old})
	s.show(w)
	if len(s.m.table.rows) != 1 {
		t.Fatalf("%d rows match", len(s.m.table.rows))
	}
	s.send(windowArrived{gen: s.m.gen, window: old})
	if len(s.m.table.rows) != 1 {
		t.Error("an answer from before the filter was shown")
	}
}

// opens answers openings when the test says so.
type opens struct {
	targets []Target
	answer  func(t Target) (Feed, error)
}

func (o *opens) host() fakeHost {
	return fakeHost{contexts: []string{"prod", "staging"}, open: func(_ context.Context, t Target) (Feed, error) {
		o.targets = append(o.targets, t)
		return o.answer(t)
	}}
}

func firstRunScreen(t *testing.T, o *opens) *screen {
	return newScreen(t, watchdog.Window{}, About{}, 80, 24, func(opt *Options) { opt.Feed, opt.Host = nil, o.host() })
}

func TestFirstRunOffersWhatUxSays(t *testing.T) {
	o := &opens{}
	s := newScreen(t, emptyWindow(refusedLinks()...), About{}, 80, 24, func(opt *Options) { opt.Host = o.host() })
	frame := ansi.Strip(s.m.frame())
	for _, must := range []string{
		"NO SERVER  nothing is watched yet", "nats://localhost:4222", "default", "refused  try 3 in 4s", "no such host  try 2 in 2s", "REDIS_URL",
		"> d  demo: simulated agents, every verdict within 20 s, nothing kept", "b  start a bus on 127.0.0.1 (4222, 6379)",
		"s  supervise a command:   sessionwatch run -- python3 agent.py", "c  connect elsewhere: address or context",
		"o  open a recording; a bundled night needs no server", "sessionwatch beat hello --task \"it works\"", "? help", "q quit",
	} {
		if !strings.Contains(frame, must) {
			t.Errorf("the first-run page lacks %q:\n%s", must, frame)
		}
	}
	up := upLink(watchdog.SourceNATS)
	up.Beats, up.Since = 0, 12*sec
	s.show(emptyWindow(up))
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "connected, subscribed to agent.liveness.>, 0 beats in 12s") {
		t.Errorf("connected but empty shows\n%s", frame)
	}
	s.show(fleet(1))
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "VERDICT") {
		t.Errorf("the first beat did not make a table:\n%s", frame)
	}
}

func TestFirstRunChoices(t *testing.T) {
	feed := newFakeFeed(About{Name: "demo", Demo: true})
	o := &opens{answer: func(Target) (Feed, error) { return feed, nil }}
	s := firstRunScreen(t, o)
	s.press("d")
	if len(o.targets) != 1 || o.targets[0].Kind != TargetDemo || s.m.feed != feed {
		t.Fatalf("d opened %+v", o.targets)
	}
	s.feed = feed
	s.show(sickWindow())
	if !strings.Contains(ansi.Strip(s.m.frame()), " DEMO ") {
		t.Error("the demo has no badge")
	}

	o = &opens{answer: func(Target) (Feed, error) { return nil, errors.New("port 4222 is taken: stop what listens there") }}
	s = firstRunScreen(t, o)
	s.press("j", "enter")
	if o.targets[0].Kind != TargetBus {
		t.Errorf("the second choice opened %+v", o.targets[0])
	}
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "the bus: port 4222 is taken: stop what listens there") {
		t.Errorf("the error is not shown:\n%s", frame)
	}

	s.press("c")
	s.press(strings.Split("prod", "")...)
	s.press("enter")
	s.press("o", "enter")
	s.press("c")
	s.press(strings.Split("nats://a:4222", "")...)
	s.press("space")
	s.press(strings.Split("redis://b:6379", "")...)
	s.press("enter")
	got := o.targets[1:]
	want := []Target{
		{Kind: TargetConfigured, Context: "prod"}, {Kind: TargetRecording}, {Kind: TargetConfigured, NATS: "nats://a:4222", Redis: "redis://b:6379"},
	}
	for i := range want {
		if i >= len(got) || !cmp.Equal(got[i], want[i]) {
			t.Errorf("opened %+v, not %+v", got, want)
			break
		}
	}
	s.press("s")
	s.press(strings.Split("python3", "")...)
	s.press("space", "'", "a", "space", "b", "'", "enter")
	if diff := cmp.Diff(Target{Kind: TargetRun, Command: []string{"python3", "a b"}}, o.targets[len(o.targets)-1]); diff != "" {
		t.Error(diff)
	}
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	for text, want := range map[string]string{
		"": "type an address", "host:4222": "write nats:// or redis:// in front", "http://x": "neither NATS", "nats://u:secret@h": "password", "nats://": "no host", "a b": "in front of a", "nats://a\x7f:x:y": "no address",
	} {
		if _, err := targetOf(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, err := targetOf("redis://h:1"); err != nil || got.NATS != "-" || got.Redis != "redis://h:1" {
		t.Errorf("Redis alone: %+v, %v", got, err)
	}
}

// An opening that was given up, or overtaken, changes nothing when it answers.
func TestOvertakenOpening(t *testing.T) {
	slow, fast := newFakeFeed(About{Name: "slow"}), newFakeFeed(About{Name: "fast"})
	s := firstRunScreen(t, &opens{})
	s.m.openTarget(Target{Kind: TargetBus})
	first := s.m.opening.gen
	s.m.openTarget(Target{Kind: TargetDemo})
	second := s.m.opening.gen
	s.send(feedOpened{gen: second, feed: fast, about: fast.about})
	s.send(feedOpened{gen: first, feed: slow, about: slow.about})
	if s.m.feed != Feed(fast) || !slow.closed || fast.closed {
		t.Error("the overtaken opening was shown, or left open")
	}
	third := s.m.openTarget(Target{Kind: TargetDemo})
	_ = third
	gen := s.m.opening.gen
	s.press("esc")
	late := newFakeFeed(About{})
	s.send(feedOpened{gen: gen, feed: late})
	if s.m.feed != Feed(fast) || !late.closed {
		t.Error("an opening that was given up was shown")
	}
	next := newFakeFeed(About{})
	s.m.openTarget(Target{})
	s.send(feedOpened{gen: s.m.opening.gen, feed: next})
	if s.m.feed != Feed(next) || !fast.closed {
		t.Error("the feed before was not closed")
	}
}

func TestContexts(t *testing.T) {
	o := &opens{answer: func(Target) (Feed, error) { return newFakeFeed(About{}), nil }}
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24, func(opt *Options) { opt.Host = o.host() })
	s.press(":")
	s.press(strings.Split("ctx", "")...)
	s.press("enter")
	if s.m.top() != viewMenu {
		t.Fatal(":ctx shows no menu")
	}
	s.press("j", "enter")
	if len(o.targets) != 1 || o.targets[0].Context != "staging" {
		t.Errorf("opened %+v", o.targets)
	}
	s.press(":")
	s.press(strings.Split("ctx", "")...)
	s.press("space")
	s.press(strings.Split("prod", "")...)
	s.press("enter")
	if len(o.targets) != 2 || o.targets[1].Context != "prod" {
		t.Errorf("opened %+v", o.targets)
	}
}

// fakeReplay keeps what it was told.
type fakeReplay struct {
	paused bool
	speed  float64
	steps  int
	ended  bool
	wrong  string
}

func (r *fakeReplay) Pause()             { r.paused = true }
func (r *fakeReplay) Resume()            { r.paused = false }
func (r *fakeReplay) Paused() bool       { return r.paused }
func (r *fakeReplay) Step(n int)         { r.steps += n }
func (r *fakeReplay) SetSpeed(x float64) { r.speed = x }
func (r *fakeReplay) Speed() float64     { return r.speed }
func (r *fakeReplay) End() (bool, string) {
	return r.ended, r.wrong
}

func TestReplayKeys(t *testing.T) {
	r := &fakeReplay{speed: 1}
	s := newScreen(t, sickWindow(), About{Name: "night", Replay: r}, 80, 24)
	if !strings.Contains(ansi.Strip(s.m.frame()), "REPLAY") {
		t.Error("a replay has no badge")
	}
	s.press("space", "+", "+", "-", ".", ".", ",")
	if !r.paused || r.speed != 2 || r.steps != 1 {
		t.Errorf("the replay is %+v", r)
	}
	if !strings.Contains(ansi.Strip(s.m.frame()), "REPLAY x2 PAUSED") {
		t.Errorf("the badge does not say so:\n%s", ansi.Strip(s.m.frame()))
	}
	s.press("S")
	if !strings.Contains(s.m.note.text, "recording") {
		t.Errorf("S in a replay says %q", s.m.note.text)
	}
}

func TestRetry(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.press("ctrl+r")
	if s.feed.retries != 1 {
		t.Errorf("%d retries", s.feed.retries)
	}
}

func TestTerminalNotices(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.send(TerminalStalled(3 * sec))
	if !strings.Contains(s.m.note.text, "not draining") {
		t.Error(s.m.note.text)
	}
	s.send(GlyphsMeasured(true))
	if !s.m.glyphs.ascii {
		t.Error("wide symbols are still drawn")
	}
	s.send(SuspendDeclined("no shell to come back to"))
	if !strings.Contains(s.m.note.text, "no shell") {
		t.Error(s.m.note.text)
	}
}

// A recording that plays no more must not look as if it stood still by itself.
func TestReplaySaysThatItIsAtItsEnd(t *testing.T) {
	r := &fakeReplay{speed: 20}
	s := newScreen(t, sickWindow(), About{Name: "night", Replay: r}, 80, 24)
	r.ended = true
	s.show(sickWindow())
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "REPLAY x20 END") {
		t.Errorf("the end is not said:\n%s", frame)
	}
	r.wrong = "line 7 cannot be read"
	s.show(sickWindow())
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "the recording ends here: line 7 cannot be read") {
		t.Errorf("what is wrong with the end is not said:\n%s", frame)
	}
}
