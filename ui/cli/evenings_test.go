package cli

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/sources/recording/recordingtest"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fleet are n guarded workers that work on from the start.
func fleet(s *recordingtest.Script, n int, host string, to time.Duration) *recordingtest.Script {
	for i := range n {
		s.Beats(time.Duration(i%30)*time.Second, to, 30*time.Second, watchdog.SourceNATS, fmt.Sprintf("%s-worker-%04d", host, i+1),
			func(at time.Duration, b *watchdog.Beat) {
				b.Interval, b.Idle, b.Host = 30*time.Second, time.Second, []byte(host)
				b.Task = fmt.Appendf(nil, "chunk %d/900", int(at/time.Second)%900+1)
			})
	}
	return s
}

// TestEveningFirstInstallWithNoServer: what to do stands there, and the first
// beat turns it into the table.
func TestEveningFirstInstallWithNoServer(t *testing.T) {
	s := recordingtest.New(watchdog.Policy{})
	for src, detail := range map[watchdog.Source]string{watchdog.SourceNATS: "refused", watchdog.SourceRedis: "no such host"} {
		s.Event(0, watchdog.SourceAdded{Source: src, At: s.Mono(0)})
		for try := range 6 {
			at := time.Duration(try) * 5 * time.Second
			s.Event(at, watchdog.LinkChanged{Source: src, Phase: watchdog.LinkDown, Address: src.String() + "://localhost", Origin: "default",
				Detail: detail, Attempt: try + 1, NextTry: s.Mono(at + 5*time.Second), At: s.Mono(at)})
		}
	}
	s.Link(watchdog.SourceNATS, time.Minute, 5*time.Minute)
	s.Beats(2*time.Minute, 5*time.Minute, 30*time.Second, watchdog.SourceNATS, "hello", func(_ time.Duration, b *watchdog.Beat) { b.Task = []byte("it works") })
	s.Until(5 * time.Minute)
	spend(t, s, stage{host: nobody{}}, func(e *evening) {
		e.until(12 * time.Second)
		e.shows(`NO SERVER +nothing is watched yet`, `NATS +nats://localhost +default +refused +try 3 in`, `Redis .*no such host`,
			`> d +demo: simulated agents`, `b +start a bus`, `s +supervise a command`, `o +open a recording; a bundled night needs no server`,
			`sessionwatch beat hello --task "it works"`)
		e.hides("ALL WELL", "VERDICT")
		e.until(90 * time.Second)
		e.shows(`CONNECTED +no session seen yet`)
		e.hides("ALL WELL", "NO SERVER")
		e.until(150 * time.Second)
		e.shows(`VERDICT +FOR +SESSION`, `running +hello .*it works`)
		e.hides("NO SERVER", "demo: simulated agents")
	})
}

// nobody opens nothing: the first-run page offers what a host could.
type nobody struct{}

func (nobody) Open(context.Context, ui.Target) (ui.Feed, error) {
	return nil, errors.New("not tonight")
}
func (nobody) Contexts() []string { return nil }

// TestEveningAttachToTwoThousand: no false all-clear while it is still learning.
func TestEveningAttachToTwoThousand(t *testing.T) {
	const n = 2000
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, 7*time.Minute)
	for i := range n { // five fields: work is known once something changes, or after a whole stall timeout
		first := time.Duration(i%600) * 100 * time.Millisecond
		s.Beats(first, 7*time.Minute, time.Minute, watchdog.SourceNATS, fmt.Sprintf("job-%04d", i+1), func(at time.Duration, b *watchdog.Beat) {
			b.Credits = 50 - float64(i%40)
			if b.Task = []byte("warming up"); at > time.Duration(i%5+1)*time.Minute+first {
				b.Task = fmt.Appendf(nil, "chunk %d/900", int(at/time.Second)+1)
			}
		})
	}
	spend(t, s.Until(7*time.Minute), stage{}, func(e *evening) {
		for _, at := range []time.Duration{5 * time.Second, 45 * time.Second, 2 * time.Minute, 4 * time.Minute} {
			e.until(at)
			e.shows(`learning: work known for [\d,]+ of [\d,]+`)
			e.hides("ALL WELL", "NEED YOU")
		}
		e.until(6*time.Minute + 30*time.Second)
		e.shows(`ALL WELL +2,000 live`)
		e.hides("learning")
	})
}

// TestEveningOneStallAtThree is answered with no key: is anything wrong, what
// and since when, why, what can be done, what comes next.
func TestEveningOneStallAtThree(t *testing.T) {
	const stall = 8 * time.Minute
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, 20*time.Minute)
	fleet(s, 40, "eu1", 20*time.Minute)
	s.Beats(7*time.Second, 20*time.Minute, 30*time.Second, watchdog.SourceNATS, "indexer", func(at time.Duration, b *watchdog.Beat) {
		b.Interval, b.Idle, b.Task, b.Host = 30*time.Second, max(time.Second, at-stall), []byte("embedding batch 9"), []byte("eu2-07")
	})
	spend(t, s, stage{}, func(e *evening) {
		e.until(stall + 4*time.Minute)
		e.shows(`ALL WELL +41 live`)
		e.until(stall + 5*time.Minute + 31*time.Second)
		e.shows(`^ 1 NEEDS YOU +1 stalled +03:13:31Z`,
			`^>. stalled +3[01]s indexer +\d+s 5m3\d no work`,
			`indexer .*1 of 41`,
			`why +no work 5m3\d, limit 5m; beats arrive, last \d+s ago`,
			`task "embedding batch 9"`,
			`^ can +expire; not stop`)
		e.hides("ALL WELL")
		if done := e.feed.asked(); len(done) > 0 {
			t.Errorf("without a key it asked for %v", done)
		}
	})
}

// TestEveningFourHundredSilentTogether: one alert, and nobody is settled.
func TestEveningFourHundredSilentTogether(t *testing.T) {
	const silence, end = 4 * time.Minute, 12 * time.Minute
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, end)
	fleet(s, 1600, "eu1", end)
	fleet(s, 400, "eu2", silence)
	spend(t, s.Until(end), stage{}, func(e *evening) {
		e.until(silence + 2*time.Minute)
		e.shows(`^ 400 NEED YOU +400 silent`, `HELD for \S+ +400 silent together since 03:0\d:\d\dZ; all on`, `silent .*HELD`, `eu2`)
		e.hides("lost  ", "ALL WELL")
		e.press("i")
		e.shows(`SILENT for`, `HELD`, `400`, `IF RESTARTED`)
		e.press("esc")
		e.until(silence + 7*time.Minute) // long past the loss of each alone
		e.shows(`^ 400 NEED YOU +400 silent`, `HELD for \S+ +400 silent together`)
		e.hides(" lost ")
		if !e.alertsView() {
			return
		}
		e.press("2")
		e.shows(`400 silent together`)
		if n := strings.Count(e.frame(), "worker-"); n > 1 {
			t.Errorf("one alert for 400, but %d of them are named on their own:\n%s", n, e.frame())
		}
	})
}

// alertsView reports whether the view of alerts can be opened.
func (e *evening) alertsView() bool {
	e.press("2")
	open := strings.Contains(e.frame(), "ALERT")
	e.press("esc")
	return open
}

// TestEveningHumanWaitOfSixHours: it waits for a person, and is never accused.
func TestEveningHumanWaitOfSixHours(t *testing.T) {
	const asked, end = 10 * time.Minute, 9 * time.Hour
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, end)
	s.Beats(0, end, time.Minute, watchdog.SourceNATS, "approver-billing", func(at time.Duration, b *watchdog.Beat) {
		b.Interval, b.Task = time.Minute, []byte("approve refund 4471")
		if b.Idle = time.Second; at >= asked {
			b.Idle, b.WaitingFor, b.WaitingMax = at-asked, watchdog.WaitHuman, 8*time.Hour
		}
	})
	s.Beats(0, end, time.Minute, watchdog.SourceNATS, "busy", func(_ time.Duration, b *watchdog.Beat) { b.Interval, b.Idle = time.Minute, time.Second })
	spend(t, s, stage{}, func(e *evening) {
		e.until(asked + 10*time.Minute)
		e.hides("NEEDS YOU", "stalled")
		e.until(asked + 6*time.Hour + 2*time.Minute)
		e.shows(`^ 1 NEEDS YOU +1 human`, `waiting +6h0\d approver-billing .*HUMAN, max 8h: approve`, `task "approv`)
		e.hides("stalled", "silent", "OVERDUE")
		e.until(asked + 8*time.Hour + 3*time.Minute)
		e.shows(`OVERDUE`)
		e.hides("stalled  ")
		e.until(asked + 8*time.Hour + 6*time.Minute)
		e.shows(`1 stalled`, `stalled .*approver-billing`)
	})
}

// TestEveningIsItSafeToRestart is answered without touching anything, by one who
// may not.
func TestEveningIsItSafeToRestart(t *testing.T) {
	const gone, end = 5 * time.Minute, 10 * time.Minute
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, end)
	fleet(s, 20, "eu1", end)
	s.Beats(0, gone, 30*time.Second, watchdog.SourceNATS, "mute", func(_ time.Duration, b *watchdog.Beat) {
		b.Interval, b.Idle, b.Task = 30*time.Second, time.Second, []byte("reconciling ledger 118")
	})
	s.Event(gone+3*time.Minute, watchdog.TerminalSeen{ID: "mute", Generation: 1, Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper,
		Reason: "3 beats missed", Writer: "serve@eu1-01/812", At: s.Mono(gone + 3*time.Minute)})
	spend(t, s.Until(end), stage{readOnly: true}, func(e *evening) {
		e.until(gone + 90*time.Second)
		e.shows(`READ-ONLY`, `silent .*mute`, `can .*READ-ONLY`)
		e.press("i")
		e.shows(`SILENT for .*mute`, `IF RESTARTED +unsafe: it may still be working`)
		for _, key := range []string{"R", "X", "S", "T"} {
			e.press(key)
			e.shows(`READ-ONLY`)
			e.hides(" RESTART mute", " y ")
		}
		e.press("esc")
		e.until(gone + 4*time.Minute)
		e.shows(`lost .*mute`)
		e.press("n", "i")
		e.shows(`LOST`, `IF RESTARTED +`)
		e.hides("unsafe")
		if done := e.feed.asked(); len(done) > 0 {
			t.Errorf("looking asked for %v", done)
		}
	})
}

//go:embed testdata/evening/*.txt
var eveningDumps embed.FS

// captured has two dumps of one session.
type captured struct{}

func (captured) Logs(context.Context, watchdog.ID, int64, int) ([]ui.LogLine, error) { return nil, nil }

func (captured) Dumps(context.Context, watchdog.ID) ([]ui.DumpEntry, error) {
	at := time.Date(2026, 11, 30, 3, 4, 0, 0, time.UTC)
	return []ui.DumpEntry{
		{Name: "second.txt", ID: "gateway-eu1", Generation: 1, At: at.Add(30 * time.Second), Reason: "operator", Method: "signal", Bytes: 900},
		{Name: "first.txt", ID: "gateway-eu1", Generation: 1, At: at, Reason: "wedge", Method: "signal", Bytes: 900},
	}, nil
}

func (captured) Dump(_ context.Context, name string) ([]byte, error) {
	return eveningDumps.ReadFile("testdata/evening/" + name)
}

// TestEveningTwoDumpsCompared: which threads did not move between two dumps.
func TestEveningTwoDumpsCompared(t *testing.T) {
	const end = 5 * time.Minute
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, end)
	s.Beats(0, end, 10*time.Second, watchdog.SourceNATS, "gateway-eu1", func(at time.Duration, b *watchdog.Beat) {
		b.Interval, b.Idle, b.LoopLag = 10*time.Second, time.Second, max(0, at-2*time.Minute)
	})
	spend(t, s, stage{children: captured{}}, func(e *evening) {
		e.until(4 * time.Minute)
		e.shows(`1 wedged`, `wedged .*gateway-eu1`)
		e.press("6")
		e.shows(`DUMPS`, `gateway-eu1 #1`, `wedge`, `operator`)
		e.press("enter")
		e.shows(`DUMP +gateway-eu1 #1 +Java`, `BUSY +loop thread runs in Agent\.java:39`, `> Agent\.java:39 .*culprit`)
		e.press("D")
		e.shows(`compared`, `0 moved, 28 same, 0 new, 0 gone`, `loop thread: same, cpu \+2222 ms`, `spinning: the same stack, and most of a core`)
		e.press("D", "esc", "esc")
		e.shows(`VERDICT`)
	})
}

// TestEveningCheckInCI: the exit code tells, and the text says what was seen.
func TestEveningCheckInCI(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, s *recordingtest.Script) string {
		path := filepath.Join(dir, name)
		if err := s.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := func() *recordingtest.Script {
		return fleet(recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, 10*time.Minute), 20, "eu1", 10*time.Minute)
	}
	well := write("well.jsonl.gz", base())
	stalled := base()
	stalled.Beats(0, 10*time.Minute, 30*time.Second, watchdog.SourceNATS, "indexer", func(at time.Duration, b *watchdog.Beat) { b.Interval, b.Idle = 30*time.Second, at })
	bad := write("bad.jsonl.gz", stalled)
	held := fleet(base(), 30, "eu2", 7*time.Minute)
	together := write("held.jsonl.gz", held)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--from", well}, exitDone, "20"},
		{[]string{"--from", bad}, exitBadNews, "stalled.*indexer"},
		{[]string{"--from", bad, "--fail-on", "lost"}, exitDone, ""},
		{[]string{"--from", well, "--expect", "eu1-worker-0001,absent"}, exitUntold, "absent"},
		{[]string{"--from", well, "--min", "21"}, exitUntold, "20 sessions seen, at least 21 are wanted"},
		{[]string{"--from", together, "--fail-on", "silent"}, exitUntold, "together"},
	} {
		code, out := command(t, append([]string{"check"}, c.args...)...)
		if code != c.code || !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("check %v: exit code %d, want %d; %q:\n%s", c.args, code, c.code, c.want, out)
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("check %v writes escape codes", c.args)
		}
	}
}

var colour = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// TestEveningColourBlindOnLight: on a light 80x24 every verdict stands there as a
// word, in five colours none of which is green or plain red, and without any
// colour nothing is missing.
func TestEveningColourBlindOnLight(t *testing.T) {
	look := func(theme ui.Theme) (raw, text string) {
		spend(t, night(), stage{theme: theme}, func(e *evening) {
			e.until(nightSilence + 2*time.Minute)
			raw, text = e.m.View().Content, e.frame()
			e.shows(`stalled +\S+ indexer`, `error +\S+ etl-nightly`, `lost +\S+ payments-sync`, `silent +\S+ worker-02`,
				`\d+ NEED YOU .*1 stalled.*1 lost.*1 error.*12 silent.*1 disputed.*1 human`)
		})
		return raw, text
	}
	light, text := look(ui.ThemeLight)
	bare, plainText := look(ui.ThemeNone)
	if diff := cmp.Diff(plainText, text); diff != "" {
		t.Errorf("colour says what no word says (-none +light):\n%s", diff)
	}
	if colour.MatchString(bare) {
		t.Error("the theme none has attributes")
	}
	seen := map[string]bool{}
	for _, m := range colour.FindAllStringSubmatch(light, -1) {
		if at := strings.Index(m[1], "38;5;"); at >= 0 {
			seen[m[1][at+5:]] = true
		} else if regexp.MustCompile(`(^|;)(3[0-7]|4[0-7]|9[0-7])(;|$)`).MatchString(m[1]) {
			t.Errorf("a colour of the terminal's own palette: %q", m[1])
		}
	}
	for code := range seen {
		if !bytes.Contains([]byte(" 124 89 94 25 241 "), []byte(" "+code+" ")) {
			t.Errorf("colour %s is none of the five", code)
		}
	}
	if len(seen) < 3 {
		t.Errorf("only the colours %v: the frame shows too little", seen)
	}
}

// TestEveningFatFingeredPaste: a paste into a question does nothing, and neither
// do keys that come with it.
func TestEveningFatFingeredPaste(t *testing.T) {
	const stall, end = 3 * time.Minute, 12 * time.Minute
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, end)
	fleet(s, 10, "eu1", end)
	s.Beats(7*time.Second, end, 30*time.Second, watchdog.SourceNATS, "indexer", func(at time.Duration, b *watchdog.Beat) {
		b.Interval, b.Idle, b.BootID, b.Generation = 30*time.Second, max(time.Second, at-stall), []byte("k3x9"), 2
	})
	spend(t, s, stage{}, func(e *evening) {
		e.until(stall + 6*time.Minute)
		e.shows(`stalled .*indexer`)
		e.take(tea.PasteMsg{Content: "SyyyR\ny"}) // no question is open: nothing here takes text
		e.settle()
		e.shows(`paste of .* ignored`)
		e.press("S")
		e.shows(`STOP indexer #2 \?`, `y stop`)
		e.take(tea.PasteMsg{Content: "y\nyes\nyyyy"})
		e.settle()
		for range 8 { // what a terminal without bracketed paste sends
			e.take(tea.KeyPressMsg{Code: 'y', Text: "y"})
		}
		e.wait()
		if done := e.feed.asked(); len(done) > 0 {
			t.Fatalf("a paste stopped something: %v", done)
		}
		e.press("n")
		e.hides("STOP indexer")
		e.press("S")
		e.wait() // deaf until the keys have settled
		e.press("y")
		done := e.feed.asked()
		if len(done) != 1 || done[0].Op != watchdog.OpStop || done[0].Session != "indexer" || done[0].Generation != 2 {
			t.Errorf("a deliberate answer asked for %v", done)
		}
	})
}

// TestEveningCrashLoop: it is told once, with how it ends and what it said last,
// and stays so while its supervisor holds it.
func TestEveningCrashLoop(t *testing.T) {
	const end = 12 * time.Minute
	s := recordingtest.New(watchdog.Policy{}).Link(watchdog.SourceNATS, 0, end)
	fleet(s, 10, "eu1", end)
	say := func(at time.Duration, g watchdog.Generation, phase watchdog.SupervisorPhase, detail string) {
		s.Event(at, watchdog.Supervised{ID: "etl-nightly", Generation: g, Phase: phase, Detail: detail, At: s.Mono(at),
			Process: watchdog.Process{ExitCode: 1, Restarts: int(g) - 1, CPU: 0.1, LastLine: "KeyError: 'orders'"}})
	}
	s.Event(0, watchdog.SourceAdded{Source: watchdog.SourceLocal, At: s.Mono(0)})
	for at := time.Duration(0); at < end; at += 2 * time.Second {
		s.Event(at, watchdog.RoundTrip{Source: watchdog.SourceLocal, Sent: s.Mono(at), At: s.Mono(at)})
	}
	at := 2 * time.Minute
	for g := watchdog.Generation(1); g <= 3; g++ {
		say(at, g, watchdog.SupervisorRunning, "")
		s.Beat(at+time.Second, watchdog.SourceLocal, "etl-nightly", func(b *watchdog.Beat) { b.Generation, b.Interval, b.Uptime, b.Idle = g, 30*time.Second, 1, 0 })
		if at += 15 * time.Second; g < 3 {
			say(at, g, watchdog.SupervisorRestarting, "exit code 1; starts again in 2s")
			at += 2 * time.Second
		}
	}
	say(at, 3, watchdog.SupervisorCrashLoop, "3 exits in 49s, code 1; held")
	spend(t, s.Until(end), stage{}, func(e *evening) {
		e.until(at + 10*time.Second)
		e.shows(`1 NEEDS YOU +1 crash-loop`, `crash-loop .*etl-nightly .*3 exits in 49s, code 1; held`)
		e.until(at + 6*time.Minute) // latched: time alone clears nothing
		e.shows(`1 NEEDS YOU +1 crash-loop`, `crash-loop .*etl-nightly`)
		if n := strings.Count(e.frame(), "crash-loop"); n != 2 {
			t.Errorf("it is told %d times, not in the header and in one row:\n%s", n, e.frame())
		}
		e.press("i")
		e.shows(`CRASH-LOOP`, `KeyError: 'orders'`)
		if e.alertsView() {
			e.press("2")
			e.shows(`CRASH-LOOP etl-nightly`)
		}
	})
}
