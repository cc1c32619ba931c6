package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func payloadWindow() watchdog.Window {
	w := sickWindow()
	message := func(s watchdog.Source, age time.Duration, raw string) watchdog.Payload {
		return watchdog.Payload{Source: s, Age: age, Size: len(raw), Raw: []byte(raw)}
	}
	good := message(watchdog.SourceNATS, 2*sec, `{"session_id":"indexer","state":"running","uptime_secs":11400,"credits_remaining":NaN,"current_task":"embedding batch 9",`+
		`"generation":2,"boot_id":"k3x9","seq":17,"x_trace":{"span":"9f","tags":["a","b"],"empty":{}},"note":"`+"\u202eevil\x1b[2J"+`"}`)
	bad := message(watchdog.SourceNATS, 31*sec, `{"session_id":"indexer","state":"running","state":"stalled"}`)
	bad.Refused, bad.Why = true, watchdog.RefusedDuplicate
	giant := message(watchdog.SourceRedis, 40*sec, `{"session_id":"indexer","current_task":"`+strings.Repeat("x", 300))
	giant.Size, giant.Refused, giant.Why = 40_000, true, watchdog.RefusedSize
	standing := message(watchdog.SourceRedis, 4*sec, `{"session_id":"indexer","state":"running"}`)
	standing.Standing = true
	w.Payloads = []watchdog.Payload{good, standing, bad, giant}
	return w
}

func TestRawPayload(t *testing.T) {
	s := newScreen(t, payloadWindow(), About{Name: "prod"}, 120, 60)
	s.press("p")
	if a := s.feed.last(); !a.Payload || a.Focus != "indexer" {
		t.Fatalf("asked %+v", a)
	}
	s.show(payloadWindow())
	frame := s.m.frame()
	for _, hostile := range []string{"\u202e", "\x1b[2J"} {
		if strings.Contains(frame, hostile) {
			t.Errorf("%q reached the terminal", hostile)
		}
	}
	text := ansi.Strip(frame)
	for _, must := range []string{
		"RAW  of indexer", "NATS  03:12:42Z, 2s ago", `"x_trace": {`, `"span": "9f",`, `"empty": {}`, `"credits_remaining": NaN,`, `"note": "\u{202e}evil\x1b[2J"`,
		"Redis  stood there when it was read, 03:12:40Z, 4s ago", "REFUSED: a known field is given twice (duplicate)", "40,000 bytes, the first 340 are kept", "it is over 16 KiB (size)",
	} {
		if !strings.Contains(text, must) {
			t.Errorf("the view lacks %q:\n%s", must, text)
		}
	}
	s.press("v")
	if text := ansi.Strip(s.m.frame()); !strings.Contains(text, `{"session_id":"indexer","state":"running","uptime_secs":11400,`) {
		t.Errorf("v does not show it as it came:\n%s", text)
	}
	s.press("/", "s", "p", "a", "n", "enter", "c")
	if !strings.Contains(s.m.note.text, `"x_trace":{"span":"9f"`) || strings.Contains(s.m.note.text, "\x1b") {
		t.Errorf("copied %q", s.m.note.text)
	}
	s.press("esc")
	if s.m.top() != viewSessions || s.feed.last().Payload {
		t.Error("esc does not leave, or bytes are asked for on")
	}
}

func TestRawPayloadSaysWhyThereIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*watchdog.Detail)
		want   string
	}{
		"due":   {func(d *watchdog.Detail) { d.BeatAge = 12 * sec }, "the next one is due in 18s"},
		"late":  {func(d *watchdog.Detail) { d.BeatAge = 45 * sec }, "and the next one is late"},
		"ended": {func(d *watchdog.Detail) { d.Verdict = watchdog.Lost }, "it has ended (lost)"},
		"local": {func(d *watchdog.Detail) { d.Sources = watchdog.SourceLocal.Set() }, "there is no message"},
	} {
		w := sickWindow()
		c.change(w.Focus)
		s := newScreen(t, w, About{Name: "prod"}, 100, 30)
		s.press("p")
		s.show(w)
		if text := ansi.Strip(s.m.frame()); !strings.Contains(text, "nothing came since 03:12:44Z") || !strings.Contains(text, c.want) {
			t.Errorf("%s: no %q:\n%s", name, c.want, text)
		}
	}
	s := newScreen(t, sickWindow(), About{Name: "night", Replay: &fakeReplay{}}, 80, 24)
	s.press("p")
	if s.m.top() != viewSessions || !strings.Contains(s.m.note.text, "recording") {
		t.Errorf("in a recording p says %q", s.m.note.text)
	}
}

// Whatever the bytes are, laying them out loses none but white space, and ends.
func FuzzLayOut(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{}],"b":"x\"y"}`, `{"a`, `]]}}`, "\x1b[31m", `{"a":"` + "\xff", "[[[[[[[["} {
		f.Add(seed)
	}
	squeeze := func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune(" \t\r\n", r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(s, "?"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := strings.Join(layOut(text), "\n"); squeeze(got) != squeeze(text) {
			t.Errorf("%q became %q", text, got)
		}
		r := rawSeen{list: []watchdog.Payload{{Raw: []byte(text)}}}
		for range 2 {
			r.flatten()
			for i := range r.flat {
				if c := ansi.Strip(r.flat[i].text); c != r.flat[i].text || len(c) > rawPiece {
					t.Errorf("%q shows %q", text, r.flat[i].text)
				}
			}
			r.asCame = true
		}
	})
}
