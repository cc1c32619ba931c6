package ui

import (
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "-", 0: "0s", 59 * sec: "59s", 298 * sec: "4m58", 10 * mins: "10m", 59*mins + 59*sec: "59m",
		6*time.Hour + 2*mins: "6h02", 23 * time.Hour: "23h", 76 * time.Hour: "3d04", 240 * time.Hour: "10d", 100_000 * time.Hour: "999d", math.MaxInt64: "999d",
	} {
		if got := age(d); got != want {
			t.Errorf("%v is %q, not %q", d, got, want)
		}
	}
	for d := time.Duration(0); d < 900*24*time.Hour; d = d*9/8 + sec {
		if got := age(d); got != watchdog.FormatAge(d) {
			t.Errorf("%v is %q here and %q in evidence", d, got, watchdog.FormatAge(d))
		}
		for _, b := range [][]byte{appendAge(nil, d), appendMarked(nil, '~', d), appendAge(nil, coarse(d))} {
			if len(b) > 4 {
				t.Errorf("%v takes %d cells: %s", d, len(b), b)
			}
		}
	}
}

func TestAgesOfARow(t *testing.T) {
	r := row(watchdog.Running, watchdog.AttentionNone, "x", 0, 12*sec, 61*sec, "")
	for _, c := range []struct {
		change     func(*watchdog.Row)
		beat, work string
	}{
		{func(*watchdog.Row) {}, "15s", "1m05"}, // healthy: steps of 5 s
		{func(r *watchdog.Row) { r.Attention = watchdog.AttentionAct }, "12s", "1m01"},
		{func(r *watchdog.Row) { r.WorkKnown = false }, "15s", "~1m"},
		{func(r *watchdog.Row) { r.WorkKnown, r.WorkBound = false, true }, "15s", ">1m"},
		{func(r *watchdog.Row) { r.BeatKind = watchdog.AgeEstimated }, "~15s", "1m05"},
		{func(r *watchdog.Row) { r.BeatKind, r.WorkAge = watchdog.AgeUnknown, -1 }, "-", "-"},
	} {
		one := r
		c.change(&one)
		if beat, work := string(appendBeatAge(nil, &one)), string(appendWorkAge(nil, &one)); beat != c.beat || work != c.work {
			t.Errorf("beat %s, work %s; want %s, %s", beat, work, c.beat, c.work)
		}
	}
}

func TestCredits(t *testing.T) {
	for c, want := range map[float64]string{
		8.43: "8.43", 0: "0.00", 99.994: "99.99", 99.996: "100", 912.4: "912", 12_400: "12.4k", 999_700: "1.0M", -3: "-3.00", -12_345: "-12.3k", 5e17: "500P", 1e300: ">999P",
	} {
		if got := string(appendCredits(nil, c)); got != want || len(got) > 6 {
			t.Errorf("%v is %q, not %q", c, got, want)
		}
	}
	if got := string(appendCredits(nil, math.NaN())); got != "-" {
		t.Errorf("no credits are %q", got)
	}
}

// TestCountsAreWrittenInOneWay: what is counted has commas wherever it stands. An id,
// a number of a run and a time are none.
func TestCountsAreWrittenInOneWay(t *testing.T) {
	counted := regexp.MustCompile(`(?m)(^|[ (])\d{4,} (of|and|live|more|others|silent|waiting|sessions?|beats?|keys|lines?|alerts?|events?|messages?|marked|threads?)\b|\bof \d{4,}\b`)
	for _, f := range shots() {
		for _, size := range sizes {
			if wrong := counted.FindString(ansi.Strip(f.open(t, size[0], size[1]).m.frame())); wrong != "" {
				t.Errorf("%s at %dx%d writes %q", f.name, size[0], size[1], wrong)
			}
		}
	}
}

func TestMeasuresAreCountedToo(t *testing.T) {
	w := sickWindow()
	w.Focus.Evidence.Inputs = []watchdog.Input{{Name: "loop_lag", Value: "22889", Unit: "ms", Source: "publisher", Age: sec}}
	s := newScreen(t, w, About{Name: "prod"}, 80, 24)
	s.press("i")
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "22,889 ms") {
		t.Errorf("it says\n%s", frame)
	}
}

// TestKindsOfTroubleAddUp: whatever the width, the kinds in the first line are as many
// as need somebody, with those that were answered.
func TestKindsOfTroubleAddUp(t *testing.T) {
	kind := regexp.MustCompile(`[+ ]([\d,]+) ([a-z-]+)`)
	for name, window := range map[string]func() watchdog.Window{"sick": sickWindow, "alerts": alertsWindow, "mass": massWindow, "beside": besideWindow} {
		for width := 34; width <= 200; width += 3 {
			w := window()
			if f := &w.Fleet; f.Answered > 0 && width < clockFrom {
				continue // there is no room to say so
			}
			s := newScreen(t, w, About{Name: "prod"}, width, 24)
			line, _, _ := strings.Cut(ansi.Strip(s.m.frame()), "\n")
			_, kinds, _ := strings.Cut(line, "NEED YOU")
			sum := 0
			for _, found := range kind.FindAllStringSubmatch(kinds, -1) {
				n, err := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
				switch {
				case err != nil:
					t.Fatal(err)
				case found[2] == "answered", strings.HasPrefix(found[2], "alert"), found[2] == "failed":
				default:
					sum += n
				}
			}
			if want := w.Fleet.NeedYou + w.Fleet.Answered; sum != want {
				t.Errorf("%s at %d: %d of %d in %q", name, width, sum, want, line)
			}
		}
	}
}

// besideWindow has alerts that no verdict tells of.
func besideWindow() watchdog.Window {
	w := sickWindow()
	w.Alerts.Beside = 2
	return w
}

// TestAHeaderWarnsInWords: the sentence is for the view of the sources.
func TestAHeaderWarnsInWords(t *testing.T) {
	for warning, want := range map[string]string{
		"appendonly is off: a crash loses what was written since the last snapshot":                                 "(appendonly is off)",
		"maxmemory-policy allkeys-lru evicts liveness keys under pressure; set noeviction; appendonly is off: a...": "(maxmemory-policy allkeys-lru ev~)",
		"no TLS": "(no TLS)",
	} {
		w := sickWindow()
		w.Links[1].Warning = warning
		s := newScreen(t, w, About{Name: "prod", ReadOnly: true}, 200, 60)
		if got := strings.Split(ansi.Strip(s.m.frame()), "\n")[1]; !strings.Contains(got, "redis://redis.lan:6379 "+want+" ") {
			t.Errorf("%q is no %q", got, want)
		}
		if s.do(": s o u r c e s enter"); !strings.Contains(ansi.Strip(s.m.frame()), warning) {
			t.Errorf("the sources do not say %q", warning)
		}
	}
}

func TestTitle(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 80, 24)
	if got := s.m.titleText(); got != "9! prod sessionwatch" {
		t.Errorf("the title is %q", got)
	}
	for _, name := range []string{"", "p", "a-very-long-context-name", "\x1b]52;c;aGk=\x07x", "東京東京東京東京"} {
		for _, w := range []watchdog.Window{sickWindow(), quietWindow(), blindWindow(), learningWindow()} {
			s := newScreen(t, w, About{Name: name}, 80, 24)
			got := s.m.View().WindowTitle
			if cells(got) > 20 || strings.ContainsAny(got, "\x1b\x07") {
				t.Errorf("the title of %q is %q", name, got)
			}
		}
	}
}

func TestHeaderIsHonest(t *testing.T) {
	half := quietWindow()
	half.Links[1] = downLink(watchdog.SourceRedis, 41*sec)
	broken := quietWindow()
	broken.Links[0] = downLink(watchdog.SourceNATS, 9*time.Hour)
	broken.Links[0].Sighted, broken.Links[0].Reason, broken.Links[0].LastTrip = true, "", 4*sec
	down := blindWindow()
	never := emptyWindow(refusedLinks()...)
	never.Total, never.Rows = 1, sickRows()[:1]
	unseen := quietWindow()
	unseen.Fleet.ByVerdict[watchdog.Unknown] = 3
	for name, c := range map[string]struct {
		w            watchdog.Window
		has, hasNot  string
		secondHas    string
		width, lines int
	}{
		"well":     {w: quietWindow(), has: "ALL WELL  2,000 live  last trouble 2h10 ago"},
		"learning": {w: learningWindow(), has: "learning: work known for 212 of 2,000", hasNot: "ALL WELL"},
		"blind":    {w: down, has: "CANNOT SEE  NATS down 52s, try 7 in 4s; verdicts are of 03:11:52Z, nobody accused", hasNot: "NEED"},
		"half":     {w: half, has: "HALF BLIND  Redis down 41s, try 7 in 4s", hasNot: "ALL WELL", secondHas: "Redis down"},
		"broken":   {w: broken, has: "RECONNECTING  NATS down 4s, try 7 in 4s  2,000 live, none accused", hasNot: "ALL WELL", secondHas: "NATS down 4s, try 7 in 4s"},
		"never":    {w: never, has: "CANNOT SEE", hasNot: "verdicts are of"},
		"unseen":   {w: unseen, has: "3 unknown"},
		"sick":     {w: sickWindow(), has: "9 NEED YOU  3 stalled 1 crash-loop 2 lost 1 silent 1 disputed 1 human"},
	} {
		s := newScreen(t, c.w, About{Name: "prod"}, 120, 24, func(o *Options) { o.Theme = ThemeNone })
		lines := strings.Split(s.m.frame(), "\n")
		if !strings.Contains(lines[0], c.has) || c.hasNot != "" && strings.Contains(lines[0], c.hasNot) || !strings.Contains(lines[1], c.secondHas) {
			t.Errorf("%s:\n%s\n%s", name, lines[0], lines[1])
		}
	}
}

func TestEndedFeedIsNotLive(t *testing.T) {
	s := newScreen(t, sickWindow(), About{}, 80, 24)
	s.send(windowArrived{gen: s.m.gen, closed: true})
	if frame := s.m.frame(); !strings.Contains(frame, "ENDED") || !strings.Contains(frame, "not live") {
		t.Errorf("an ended feed shows\n%s", frame)
	}
}

// Every colour can be read on black, white and both Solarized backgrounds.
func TestContrast(t *testing.T) {
	for theme, backgrounds := range map[Theme][]int{
		ThemeDark: {0x000000, 0x002b36}, ThemeLight: {0xffffff, 0xfdf6e3},
	} {
		st := DefaultStyles(theme)
		for name, one := range map[string]Style{"act": st.Act, "bad end": st.BadEnd, "suspect": st.Suspect, "wait": st.Wait, "done": st.Done, "dim": st.Dim} {
			_, number, ok := strings.Cut(strings.TrimSuffix(one.on, "m"), "38;5;")
			if !ok {
				t.Fatalf("%s %s has no colour: %q", theme, name, one.on)
			}
			n := 0
			for _, c := range number {
				n = n*10 + int(c-'0')
			}
			for _, bg := range backgrounds {
				if got := contrast(xterm(n), bg); got < 4.5 {
					t.Errorf("%s %s has contrast %.2f on #%06x", theme, name, got, bg)
				}
			}
		}
	}
}

func xterm(n int) int {
	if n >= 232 {
		g := 8 + (n-232)*10
		return g<<16 | g<<8 | g
	}
	step := func(v int) int {
		if v == 0 {
			return 0
		}
		return 55 + 40*v
	}
	n -= 16
	return step(n/36)<<16 | step(n/6%6)<<8 | step(n%6)
}

func contrast(a, b int) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(rgb int) float64 {
	part := func(v int) float64 {
		c := float64(v&0xff) / 255
		if c <= 0.03928 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(rgb>>16) + 0.7152*part(rgb>>8) + 0.0722*part(rgb)
}

func TestThemes(t *testing.T) {
	for i, name := range themeNames {
		if got, err := ThemeOf(name); err != nil || got != Theme(i) {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
	if _, err := ThemeOf("blue"); err == nil || !strings.Contains(err.Error(), "use one of") {
		t.Errorf("an unknown theme: %v", err)
	}
}

// One second later nothing moves in a healthy fleet but the clock.
//
// fault 46
func TestUnchangedFleetStandsStill(t *testing.T) {
	for _, size := range sizes {
		w := quietWindow()
		for i := range w.Rows {
			w.Rows[i].BeatAge, w.Rows[i].Uptime = 11*sec, 3*time.Hour+sec
		}
		w.Focus = detailOf(w.Rows[0])
		s := newScreen(t, w, About{Name: "prod"}, size[0], size[1])
		before := strings.Split(s.m.frame(), "\n")
		secondsLater(&w, sec)
		w.Focus = detailOf(w.Rows[0])
		w.Focus.TaskSince += sec
		s.show(w)
		for i, line := range strings.Split(s.m.frame(), "\n") {
			if i > 0 && line != before[i] {
				t.Errorf("%v: line %d moved:\n%s\n%s", size, i, before[i], line)
			}
		}
	}
}

func TestStylesFollowTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		theme Theme
		msgs  []tea.Msg
		want  Theme
	}{
		"dark until it answers": {ThemeAuto, nil, ThemeDark},
		"light background":      {ThemeAuto, []tea.Msg{tea.BackgroundColorMsg{Color: color.White}}, ThemeLight},
		"dark background":       {ThemeAuto, []tea.Msg{tea.BackgroundColorMsg{Color: color.Black}}, ThemeDark},
		"set dark stays":        {ThemeDark, []tea.Msg{tea.BackgroundColorMsg{Color: color.White}}, ThemeDark},
		"256 colours":           {ThemeLight, []tea.Msg{tea.ColorProfileMsg{Profile: colorprofile.ANSI256}}, ThemeLight},
		"16 colours":            {ThemeAuto, []tea.Msg{tea.ColorProfileMsg{Profile: colorprofile.ANSI}, tea.BackgroundColorMsg{Color: color.White}}, ThemeMono},
		"NO_COLOR":              {ThemeDark, []tea.Msg{tea.ColorProfileMsg{Profile: colorprofile.ASCII}}, ThemeMono},
		"dumb":                  {ThemeAuto, []tea.Msg{tea.ColorProfileMsg{Profile: colorprofile.NoTTY}}, ThemeNone},
		"high contrast stays":   {ThemeContrast, []tea.Msg{tea.ColorProfileMsg{Profile: colorprofile.ANSI}}, ThemeContrast},
	} {
		m := New(Options{Theme: c.theme})
		for _, msg := range c.msgs {
			m.Update(msg)
		}
		if m.styles != DefaultStyles(c.want) {
			t.Errorf("%s: not the styles of %s", name, c.want)
		}
	}
}

// TestASCIIAtOnce: who sees boxes instead of symbols need not start anew.
func TestASCIIAtOnce(t *testing.T) {
	s := newScreen(t, sickWindow(), About{Name: "prod"}, 120, 40)
	before := s.m.frame()
	for _, ascii := range []bool{true, false} {
		s.do(": a s c i i enter")
		if frame := s.m.frame(); strings.Contains(frame, "▲") == ascii || strings.Contains(frame, "─") == ascii || !ascii && frame != before {
			t.Errorf("ASCII %v:\n%s", ascii, frame)
		}
	}
}
