package ui

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// hostile is text as it comes out of cleaning: wide, joined and combining
// characters, right to left, and whatever else is allowed to be shown. Some of
// it was never cleaned: the screen must not rely on it.
func hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"👩‍👩‍👧‍👦", "🏳️‍🌈", "e\u0301", "日本語", "한국어", "\u0e19\u0e49\u0e33", "🇩🇪", "ﷺ", "שלום", "\u200d", "\ufe0f", "☃︎", "☃️", "👍🏽", "ｆｕｌｌ", "●▲", "\t",
			"\x1b]52;c;aGk=\x07", "\x1b[31m", "\u009b31m", "\x1b[6n", "\u202e", "\x00", "\r\n", "\x7f", "\xff\xfe", "\x1b]8;;http://x\x1b\\", "~", "\"",
		}),
		rapid.StringN(0, 20, -1),
		rapid.StringMatching(`[a-z0-9:._-]{0,40}`),
	)
	return rapid.Custom(func(t *rapid.T) string {
		text := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "cleaned") {
			return termtext.Clean(text)
		}
		return text
	})
}

func anyDuration() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(-1, int64(400*24*time.Hour)).Draw(t, "d"))
		}),
		rapid.SampledFrom([]time.Duration{-1, 0, math.MaxInt64, math.MinInt64, time.Second}),
	)
}

func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -0.001, 1e300}))
}

func anyRow(t *rapid.T, i int) watchdog.Row {
	text, d := hostile(), anyDuration()
	return watchdog.Row{
		ID: watchdog.ID(fmt.Sprintf("%d%s", i, text.Draw(t, "id"))), Generation: watchdog.Generation(rapid.Uint32().Draw(t, "generation")),
		Verdict: watchdog.Verdict(rapid.IntRange(0, int(watchdog.VerdictCount)-1).Draw(t, "verdict")), Attention: watchdog.Attention(rapid.IntRange(0, 6).Draw(t, "attention")),
		For: d.Draw(t, "for"), State: text.Draw(t, "state"), BeatAge: d.Draw(t, "beat"), BeatKind: watchdog.AgeKind(rapid.IntRange(0, 2).Draw(t, "kind")),
		WorkAge: d.Draw(t, "work"), WorkKnown: rapid.Bool().Draw(t, "known"), WorkBound: rapid.Bool().Draw(t, "bound"), Uptime: d.Draw(t, "up"),
		Credits: anyFloat().Draw(t, "credits"), Task: text.Draw(t, "task"), Waiting: watchdog.Wait(rapid.IntRange(0, 4).Draw(t, "wait")), WaitMax: d.Draw(t, "max"),
		Agent: text.Draw(t, "agent"), Host: text.Draw(t, "host"), Sources: watchdog.SourceSet(rapid.IntRange(0, 15).Draw(t, "sources")),
		Seeing: watchdog.SourceSet(rapid.IntRange(0, 15).Draw(t, "seeing")), Why: text.Draw(t, "why"),
		Progress: watchdog.Progress{
			Known: rapid.Bool().Draw(t, "progress"), Done: rapid.Int64().Draw(t, "done"), Of: rapid.Int64().Draw(t, "of"),
			PerMinute: anyFloat().Draw(t, "rate"), WasPerMin: anyFloat().Draw(t, "was"), ETA: d.Draw(t, "eta"),
		},
	}
}

func anyWindow(t *rapid.T) watchdog.Window {
	w := baseWindow()
	text, d := hostile(), anyDuration()
	for i := range rapid.IntRange(0, 12).Draw(t, "rows") {
		w.Rows = append(w.Rows, anyRow(t, i))
	}
	w.Matched = len(w.Rows) + rapid.IntRange(0, 3).Draw(t, "more")
	w.Total = w.Matched
	for i := range w.Fleet.ByVerdict {
		w.Fleet.ByVerdict[i] = rapid.IntRange(0, 1<<40).Draw(t, "count")
	}
	w.Fleet.NeedYou, w.Fleet.Live = rapid.IntRange(0, 1<<40).Draw(t, "need"), rapid.IntRange(0, 1<<40).Draw(t, "live")
	w.Fleet.Assessed = rapid.IntRange(0, 1<<40).Draw(t, "assessed")
	for i := range w.Links {
		l := &w.Links[i]
		l.Phase, l.Sighted = watchdog.LinkPhase(rapid.IntRange(0, 2).Draw(t, "phase")), rapid.Bool().Draw(t, "sighted")
		l.Address, l.Detail, l.Reason, l.Warning, l.Origin = text.Draw(t, "address"), text.Draw(t, "detail"), text.Draw(t, "reason"), text.Draw(t, "warning"), text.Draw(t, "origin")
		l.Since, l.NextTry, l.LastTrip, l.Attempt = d.Draw(t, "since"), d.Draw(t, "next"), d.Draw(t, "trip"), rapid.Int().Draw(t, "attempt")
		l.Refused[0], l.LastRefusalID = rapid.Uint64().Draw(t, "refused"), text.Draw(t, "refused id")
	}
	if rapid.Bool().Draw(t, "group") {
		w.Groups = []watchdog.Group{{N: rapid.Int().Draw(t, "n"), Began: d.Draw(t, "began"), HeldFor: d.Draw(t, "held"), Shared: text.Draw(t, "shared")}}
	}
	w.Ledger = watchdog.LedgerView{
		Known: rapid.Bool().Draw(t, "ledger"), Ready: rapid.Bool().Draw(t, "ready"), Sweeping: rapid.Bool().Draw(t, "sweeping"), Overdue: rapid.Bool().Draw(t, "late sweep"),
		Authority: watchdog.Authority{Name: text.Draw(t, "authority"), Identity: text.Draw(t, "identity")}, Reason: text.Draw(t, "ledger reason"),
		Warning: text.Draw(t, "ledger warning"), PassWhy: text.Draw(t, "pass"), LastPass: d.Draw(t, "last pass"), Waiting: rapid.Int().Draw(t, "due"), Late: rapid.Uint64().Draw(t, "late"),
	}
	w.Events = []watchdog.Transition{{ID: watchdog.ID(text.Draw(t, "event")), To: watchdog.Lost, Text: text.Draw(t, "event text")}}
	for i := range rapid.IntRange(0, 4).Draw(t, "actions") {
		w.Actions = append(w.Actions, watchdog.Action{
			Command: watchdog.Command{ID: fmt.Sprint(i), Op: watchdog.Op(text.Draw(t, "op")), Session: watchdog.ID(text.Draw(t, "acted on")), Reason: text.Draw(t, "why asked"), IssuedBy: text.Draw(t, "who"), At: at},
			Fate:    watchdog.Fate(rapid.IntRange(0, 12).Draw(t, "fate")), Detail: text.Draw(t, "fate detail"), By: text.Draw(t, "by"), Way: text.Draw(t, "way"), Next: text.Draw(t, "next"),
			Age: d.Draw(t, "action age"), Since: d.Draw(t, "fate age"),
		})
	}
	w.Alerts, w.Payloads = anyAlerts(t), anyPayloads(t)
	if len(w.Rows) > 0 {
		f := detailOf(w.Rows[0])
		f.BootID, f.Message, f.Evidence.Text, f.Evidence.Held = text.Draw(t, "boot"), text.Draw(t, "message"), text.Draw(t, "evidence"), text.Draw(t, "held why")
		f.Evidence.Inputs[0].Name, f.Evidence.Inputs[0].Value, f.Evidence.Inputs[1].Value = text.Draw(t, "input"), text.Draw(t, "value"), "1e400"
		f.Cadence, f.HistorySince, f.TaskSince, f.StallTimeout = d.Draw(t, "cadence"), d.Draw(t, "history"), d.Draw(t, "task since"), d.Draw(t, "stall")
		f.BurnPerMin, f.CreditsLeft = anyFloat().Draw(t, "burn"), d.Draw(t, "left")
		f.LateBeats = rapid.Uint64Range(0, 3).Draw(t, "late beats")
		if rapid.Bool().Draw(t, "ended") {
			f.Terminal = &watchdog.TerminalView{Outcome: watchdog.Outcome(rapid.IntRange(0, 5).Draw(t, "outcome")), SettledBy: watchdog.SettledBy(text.Draw(t, "office")),
				Writer: text.Draw(t, "writer"), Reason: text.Draw(t, "end"), Settled: rapid.Int64().Draw(t, "settled"), Foreign: rapid.Bool().Draw(t, "foreign")}
		}
		if rapid.Bool().Draw(t, "supervised") {
			f.Supervisor, f.SuperDetail = watchdog.SupervisorPhase(rapid.IntRange(0, 5).Draw(t, "phase")), text.Draw(t, "phase why")
			f.Process = &watchdog.Process{PID: rapid.Int().Draw(t, "pid"), Restarts: rapid.Int().Draw(t, "restarts"), ExitCode: rapid.Int().Draw(t, "exit"), Signal: text.Draw(t, "signal"),
				NextRestart: d.Draw(t, "next start"), CPU: anyFloat().Draw(t, "cpu"), RSS: rapid.Int64().Draw(t, "rss"), Processes: rapid.Int().Draw(t, "processes"), LastLine: text.Draw(t, "stderr"),
				Outlook: &watchdog.Outlook{Members: []watchdog.Member{{PID: rapid.Int().Draw(t, "member"), Name: text.Draw(t, "member name")}}, Grace: d.Draw(t, "grace"), Window: d.Draw(t, "window"),
					Burst: rapid.Int().Draw(t, "burst"), Brake: text.Draw(t, "brake"), Dump: text.Draw(t, "dump how"), DumpPauses: rapid.Bool().Draw(t, "pauses")}}
		}
		w.Focus = f
	}
	return w
}

// hostileChildren write, and are dumped, like an attacker would.
func hostileChildren(t *rapid.T) *fakeChildren {
	f, text := &fakeChildren{texts: map[string]string{}}, hostile()
	for i := range rapid.IntRange(0, 30).Draw(t, "lines") {
		f.lines = append(f.lines, LogLine{Seq: int64(i + 1 + rapid.IntRange(0, 2).Draw(t, "gap")*i), At: at, Stream: text.Draw(t, "stream"), Text: text.Draw(t, "line"),
			Generation: watchdog.Generation(rapid.IntRange(0, 2).Draw(t, "line generation"))})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "dumps") {
		name := fmt.Sprint(i)
		f.dumps = append(f.dumps, DumpEntry{Name: name, ID: "x", At: at.Add(-time.Duration(i) * time.Hour), Bytes: 1, Reason: text.Draw(t, "reason"), Method: text.Draw(t, "method"),
			Format: text.Draw(t, "format"), Verdict: text.Draw(t, "dump verdict"), Culprit: text.Draw(t, "culprit")})
		f.texts[name] = "Current thread 0x00007fc3f0cff6c0 (most recent call first):\n  File \"" + text.Draw(t, "file") + "\", line 4 in " + text.Draw(t, "function") + "\n" + text.Draw(t, "rest")
	}
	return f
}

func checkFrame(t *rapid.T, frame string, width, height int) {
	lines := strings.Split(frame, "\n")
	if len(lines) > max(height, 1) {
		t.Fatalf("%d lines on a screen of %d", len(lines), height)
	}
	for i, line := range lines {
		text := ansi.Strip(line)
		if w := max(ansi.StringWidth(text), ansi.StringWidthWc(text)); w > width {
			t.Fatalf("line %d takes %d of %d cells: %q", i, w, width, text)
		}
		rest := line
		for {
			at := strings.IndexByte(rest, '\x1b')
			if at < 0 {
				break
			}
			end := strings.IndexByte(rest[at:], 'm')
			if end < 0 || strings.Trim(rest[at+2:at+end], "0123456789;") != "" || rest[at+1] != '[' {
				t.Fatalf("line %d holds a foreign sequence: %q", i, rest[at:])
			}
			rest = rest[at+end+1:]
		}
		if termtext.Changes(text) {
			t.Fatalf("line %d holds what cleaning would change: %q", i, text)
		}
	}
}

func TestTinyScreens(t *testing.T) {
	for width := range 46 {
		for height := range 14 {
			s := newScreen(t, sickWindow(), About{Name: "prod", Demo: true}, width, height)
			for _, k := range []string{"", "i", "?", ":", "esc", "esc", "/", "esc", "s", "esc", "4", "esc", "space", "S", "r", "esc", "esc"} {
				if k != "" {
					s.press(k)
				}
				lines := strings.Split(s.m.frame(), "\n")
				if len(lines) > max(height, 1) {
					t.Fatalf("%dx%d after %q: %d lines", width, height, k, len(lines))
				}
				for _, l := range lines {
					if w := ansi.StringWidth(l); w > width {
						t.Fatalf("%dx%d after %q: a line of %d cells", width, height, k, w)
					}
				}
			}
		}
	}
}
