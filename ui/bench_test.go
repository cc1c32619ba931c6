package ui

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// bigWindow is a window out of n sessions: what is drawn does not depend on n.
func bigWindow(n int) watchdog.Window {
	w := sickWindow()
	w.Total, w.Matched = n, n
	w.Fleet.Live, w.Fleet.Assessed = n, n
	return w
}

func benchScreen(b *testing.B, n int) *screen {
	return newScreen(b, bigWindow(n), About{Name: "prod", ReadOnly: true}, 200, 60)
}

// BenchmarkView draws 200x60 of a million sessions. Its floor is the same frame
// of ten thousand, drawn in turn so that a busy machine treats both alike.
func BenchmarkView(b *testing.B) {
	small, large := benchScreen(b, 10_000), benchScreen(b, 1_000_000)
	var floor, took time.Duration
	for b.Loop() {
		t0 := time.Now()
		_ = small.m.View()
		t1 := time.Now()
		_ = large.m.View()
		floor += t1.Sub(t0)
		took += time.Since(t1)
	}
	b.ReportMetric(float64(took)/float64(floor), "ratio-to-10k")
	b.ReportMetric(floor.Seconds()*1000/float64(b.N), "floor-ms/frame")
	b.ReportMetric(took.Seconds()*1000/float64(b.N), "ms/frame")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkUpdateAndView takes a window and draws it, as happens ten times a
// second at most.
func BenchmarkUpdateAndView(b *testing.B) {
	s := benchScreen(b, 1_000_000)
	w := s.answer(bigWindow(1_000_000))
	b.ReportAllocs()
	for b.Loop() {
		s.m.Update(windowArrived{gen: s.m.gen, window: w, about: s.feed.about})
		_ = s.m.View()
	}
}

// BenchmarkAgesOnly measures what reaches the terminal when a second passes and
// nothing but ages changes: a fleet of healthy sessions at 200x60.
func BenchmarkAgesOnly(b *testing.B) {
	for _, c := range []struct {
		name   string
		window watchdog.Window
	}{{"healthy", quietWindow()}, {"sick", sickWindow()}} {
		b.Run(c.name, func(b *testing.B) { benchAges(b, c.window) })
	}
}

func benchAges(b *testing.B, w watchdog.Window) {
	feed := newFakeFeed(About{Name: "prod"})
	var out countingWriter
	in, hold := io.Pipe()
	defer hold.Close()
	m := New(Options{Feed: feed, Theme: ThemeDark})
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(&out), tea.WithoutSignalHandler(), tea.WithFPS(120),
		tea.WithColorProfile(colorprofile.ANSI256), tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithWindowSize(200, 60))
	done := make(chan error, 1)
	go func() { _, err := p.Run(); done <- err }()
	seq := uint64(1 << 40)
	step := func() {
		seq++
		w.AskSeq = seq
		feed.windows <- w
		for before, still := out.n.Load(), 0; still < 3; { // until the frame is out
			time.Sleep(9 * time.Millisecond)
			if n := out.n.Load(); n == before {
				still++
			} else {
				before, still = n, 0
			}
		}
	}
	step()
	step()
	start := out.n.Load()
	frames := 0
	for b.Loop() {
		secondsLater(&w, time.Second)
		step()
		frames++
	}
	b.ReportMetric(float64(out.n.Load()-start)/float64(frames), "B/frame")
	p.Quit()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// secondsLater moves every age by d.
func secondsLater(w *watchdog.Window, d time.Duration) {
	w.Now.Mono += d
	w.Now.Wall += int64(d)
	rows := append([]watchdog.Row(nil), w.Rows...)
	for i := range rows {
		rows[i].BeatAge += d
		if rows[i].BeatAge > 30*sec && healthy(&rows[i]) {
			rows[i].BeatAge = 0
		}
		rows[i].For += d
		rows[i].Uptime += d
		if !healthy(&rows[i]) {
			rows[i].WorkAge += d
		}
	}
	w.Rows = rows
}

type countingWriter struct{ n atomic.Int64 }

func (c *countingWriter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
