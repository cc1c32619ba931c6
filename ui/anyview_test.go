package ui

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// wholeKeyboard is each key of the key map, and what else a keyboard has.
func wholeKeyboard() []string {
	all := map[string]bool{"x": true, "日": true, "~": true, "é": true, "f1": true, "insert": true, "alt+x": true, "(": true, "\"": true}
	for _, keys := range DefaultKeyMap() {
		for _, k := range keys {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// doors lead into the views that lie behind more than one key, or behind data.
var doors = map[scene]func(*screen){
	inSessions: func(*screen) {},
	inWhy:      func(s *screen) { s.press("i") },
	inAlerts:   func(s *screen) { s.press("2") },
	inEvents:   func(s *screen) { s.press("3") },
	inCommands: func(s *screen) { s.press("4") },
	inLogs:     func(s *screen) { s.press("5") },
	inDumps:    func(s *screen) { s.press("6") },
	inDump:     func(s *screen) { s.press("6", "enter") },
	inRaw:      func(s *screen) { s.press("p") },
	inHelp:     func(s *screen) { s.press("?") },
	inMenu:     func(s *screen) { s.press("C") },
	inPrompt:   func(s *screen) { s.press("/") },
	inPalette:  func(s *screen) { s.press(":") },
	inHandover: func(s *screen) { s.press("H") },
	inTrial:    func(s *screen) { s.run(s.m.openTrialWith("stall_timeout=10m")) },
	inSources:  func(s *screen) { s.m.openView(viewSources) },
	inQuestion: func(s *screen) { s.now += time.Minute; s.press("S") },
	inReplay:   func(*screen) {},
	inFirstRun: func(*screen) {},
}

// everyAbout is an About behind which there is everything, or a recording.
func everyAbout(about About, replay bool) About {
	about.Trial, about.Shift, about.Operator = &fakeTrier{result: trialOf()}, &fakeShift{result: handedOver()}, "ops1"
	if replay {
		about.Replay, about.Length = &fakeReplay{speed: 20}, 4*time.Hour
	}
	return about
}

// Each door leads into its scene, so that the properties are checked there.
func TestDoorsLeadWhereTheySay(t *testing.T) {
	for in := scene(1); in < sceneEnd; in <<= 1 {
		if doors[in] == nil {
			t.Errorf("nothing leads into %s", sceneNames[in])
			continue
		}
		w := hungWindow()
		if in == inFirstRun {
			w = emptyWindow(refusedLinks()...)
		}
		s := newScreen(t, w, everyAbout(About{Name: "prod"}, in == inReplay), 120, 40)
		s.can = func(watchdog.ID) watchdog.Can { return canAll() }
		if in != inReplay && in != inFirstRun {
			s.supervise(twoDumps(), w)
		}
		doors[in](s)
		if got := s.m.scene(); got != in {
			t.Errorf("the door to %s leads to %s; the screen says %q", sceneNames[in], sceneNames[got], s.m.note.text)
		}
	}
}

// twoDumps are of the session under the cursor.
func twoDumps() *fakeChildren {
	f := &fakeChildren{texts: map[string]string{}, lines: []LogLine{{Seq: 1, At: at, Stream: "stdout", Text: "line"}}}
	for i := range 2 {
		name := fmt.Sprint(i)
		f.dumps = append(f.dumps, DumpEntry{Name: name, ID: "indexer", Generation: 2, At: at.Add(-time.Duration(i) * time.Hour), Bytes: 1, Reason: "asked"})
		f.texts[name] = "Current thread 0x00007fc3f0cff6c0 (most recent call first):\n  File \"/srv/app/a.py\", line 4 in f\n"
	}
	return f
}

func anyMoment(t *rapid.T) time.Time { return at.Add(-anyDuration().Draw(t, "ago") / 64) }

// anyAlerts is a queue of hostile alerts, groups and mutes.
func anyAlerts(t *rapid.T) watchdog.AlertsView {
	text, d := hostile(), anyDuration()
	var v watchdog.AlertsView
	note := func() *watchdog.AlertNote {
		return &watchdog.AlertNote{Key: watchdog.MatchKey(text.Draw(t, "pattern")), Kind: watchdog.NoteKind(rapid.IntRange(0, 4).Draw(t, "note")),
			Author: text.Draw(t, "author"), Text: text.Draw(t, "words"), At: anyMoment(t), Until: anyMoment(t)}
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "alerts") {
		a := watchdog.Alert{Key: watchdog.AlertKey(fmt.Sprintf("%d/%s", i, text.Draw(t, "key"))), Cause: watchdog.AlertCause(rapid.IntRange(0, 14).Draw(t, "cause")),
			ID: watchdog.ID(text.Draw(t, "alert of")), Generation: watchdog.Generation(rapid.Uint32().Draw(t, "alert generation")), Verdict: watchdog.Verdict(rapid.IntRange(0, int(watchdog.VerdictCount)-1).Draw(t, "alert verdict")),
			N: rapid.Int().Draw(t, "members"), Since: d.Draw(t, "alert since"), Began: anyMoment(t).UnixNano(), Gone: rapid.Bool().Draw(t, "gone"), Text: text.Draw(t, "sentence"),
			HeldFor: d.Draw(t, "alert held"), Shared: text.Draw(t, "alert shared"), Standing: watchdog.Standing(rapid.IntRange(0, 3).Draw(t, "standing"))}
		for range rapid.IntRange(0, 3).Draw(t, "of group") {
			a.Members = append(a.Members, watchdog.ID(text.Draw(t, "member id")))
			a.Hosts = append(a.Hosts, watchdog.HostCount{Host: text.Draw(t, "host of"), N: rapid.Int().Draw(t, "on host")})
		}
		if a.Standing != watchdog.AlertOpen {
			a.Note = note()
		}
		v.List = append(v.List, a)
	}
	if rapid.Bool().Draw(t, "mutes") {
		v.Mutes = append(v.Mutes, *note())
	}
	v.Total, v.Open, v.Acked = len(v.List), rapid.Int().Draw(t, "open"), rapid.Int().Draw(t, "acked")
	return v
}

// anyPayloads are messages as an attacker would send them.
func anyPayloads(t *rapid.T) []watchdog.Payload {
	var out []watchdog.Payload
	for range rapid.IntRange(0, 3).Draw(t, "payloads") {
		raw := hostile().Draw(t, "raw")
		if rapid.Bool().Draw(t, "JSON") {
			raw = fmt.Sprintf(`{%q:[%q,{"a":%q}],"n":1e999}`, raw, raw, hostile().Draw(t, "in it"))
		}
		out = append(out, watchdog.Payload{Source: watchdog.Source(rapid.IntRange(0, 3).Draw(t, "payload source")), Age: anyDuration().Draw(t, "payload age"),
			Size: rapid.IntRange(0, 1<<30).Draw(t, "payload size"), Raw: []byte(raw), Refused: rapid.Bool().Draw(t, "payload refused"), Standing: rapid.Bool().Draw(t, "payload standing")})
	}
	return out
}

// anyShift is a hand-over with hostile words in it.
func anyShift(t *rapid.T) *fakeShift {
	text, h := hostile(), handedOver()
	for i := range h.Open {
		a := &h.Open[i]
		a.ID, a.Text, a.Author, a.Note, a.Began = watchdog.ID(text.Draw(t, "open id")), text.Draw(t, "open text"), text.Draw(t, "open author"), text.Draw(t, "open note"), anyMoment(t)
	}
	for i := range h.Happened {
		e := &h.Happened[i]
		e.ID, e.Verdict, e.Text, e.Became, e.At = watchdog.ID(text.Draw(t, "past id")), text.Draw(t, "past verdict"), text.Draw(t, "past text"), text.Draw(t, "past became"), anyMoment(t)
	}
	for i := range h.Actions {
		c := &h.Actions[i]
		c.By, c.Op, c.ID, c.Fate, c.Detail, c.Reason = text.Draw(t, "past by"), text.Draw(t, "past op"), watchdog.ID(text.Draw(t, "past of")), text.Draw(t, "past fate"), text.Draw(t, "past detail"), text.Draw(t, "past reason")
	}
	h.Quiet[0].What, h.Quiet[0].Note, h.Blind[0].Reason, h.Blind[0].Source = text.Draw(t, "quiet"), text.Draw(t, "quiet note"), text.Draw(t, "blind reason"), text.Draw(t, "blind source")
	h.Doubts = []string{text.Draw(t, "doubt")}
	return &fakeShift{result: h}
}

// anyTrial is a result with hostile words in it.
func anyTrial(t *rapid.T) *fakeTrier {
	text, r := hostile(), trialOf()
	for i := range r.Raised {
		r.Raised[i].ID = watchdog.ID(text.Draw(t, "tried id"))
		for _, raise := range []*watchdog.TrialRaise{r.Raised[i].Now, r.Raised[i].Would} {
			if raise != nil {
				raise.Text, raise.Until.Mono = text.Draw(t, "tried text"), anyDuration().Draw(t, "tried until")
			}
		}
	}
	r.Own[0].Name, r.Own[0].From = text.Draw(t, "own"), text.Draw(t, "own from")
	r.Sessions, r.Beats, r.Unlisted = rapid.Int().Draw(t, "tried sessions"), rapid.Uint64().Draw(t, "tried beats"), rapid.Int().Draw(t, "unlisted")
	return &fakeTrier{result: r}
}

// No frame is wider or higher than the screen, none holds a control character
// that is not one of our own styles, and nothing panics, whatever the data, the
// size, the theme, the view and the keys.
//
// fault 43
func TestFramesStayInsideTheScreen(t *testing.T) {
	keys, into := wholeKeyboard(), slices.Sorted(maps.Keys(doors))
	rapid.Check(t, func(rt *rapid.T) {
		width, height := rapid.IntRange(0, 300).Draw(rt, "width"), rapid.IntRange(0, 100).Draw(rt, "height")
		about := About{Name: hostile().Draw(rt, "name"), Demo: rapid.Bool().Draw(rt, "demo"), ReadOnly: rapid.Bool().Draw(rt, "read-only"), Sweeper: hostile().Draw(rt, "sweeper")}
		door := rapid.SampledFrom(into).Draw(rt, "door")
		about = everyAbout(about, door == inReplay)
		about.Shift, about.Trial = anyShift(rt), anyTrial(rt)
		theme := Theme(rapid.IntRange(0, len(themeNames)-1).Draw(rt, "theme"))
		ascii := rapid.Bool().Draw(rt, "ascii")
		first := anyWindow(rt)
		if door == inFirstRun {
			first.Rows, first.Matched, first.Total = nil, 0, 0
		}
		s := newScreen(t, first, about, width, height, func(o *Options) {
			o.Theme, o.ASCII, o.Export = theme, ascii, func(e Export) (string, error) { return e.Path, nil }
		})
		if rapid.Bool().Draw(rt, "can") || door == inQuestion {
			s.can = func(watchdog.ID) watchdog.Can { return canAll() }
		}
		if rapid.Bool().Draw(rt, "children") || door&(inLogs|inDumps|inDump) != 0 {
			s.supervise(hostileChildren(rt), first)
		}
		doors[door](s)
		checkFrame(rt, s.m.frame(), width, height)
		for range rapid.IntRange(0, 12).Draw(rt, "keys") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				width, height = rapid.IntRange(0, 300).Draw(rt, "width"), rapid.IntRange(0, 100).Draw(rt, "height")
				s.send(tea.WindowSizeMsg{Width: width, Height: height})
			case 1:
				s.show(anyWindow(rt))
			case 2:
				s.send(tea.PasteMsg{Content: hostile().Draw(rt, "paste")})
			case 3:
				s.now += time.Second // a question takes an answer then
				s.press(rapid.SampledFrom(keys).Draw(rt, "late key"))
			default:
				s.press(rapid.SampledFrom(keys).Draw(rt, "key"))
			}
			checkFrame(rt, s.m.frame(), width, height)
		}
		checkFrame(rt, s.m.frame(), width, height)
	})
}
