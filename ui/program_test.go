package ui

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The model under a real program, in simulated time: windows drive it, keys
// steer it, and nothing is left running after Close.
func TestUnderAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := newFakeFeed(About{Name: "prod", Replay: &fakeReplay{paused: true}}) // no engine whose time goes on
		var out lockedBuffer
		in, keyboard := io.Pipe()
		m := New(Options{Feed: feed, Theme: ThemeDark})
		p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(&out), tea.WithoutSignalHandler(), tea.WithFPS(30),
			tea.WithColorProfile(colorprofile.ANSI256), tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithWindowSize(80, 24))
		done := make(chan error, 1)
		go func() { _, err := p.Run(); done <- err }()
		shows := func(text string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if !strings.Contains(out.String(), text) {
				t.Fatalf("%q never reached the terminal", text)
			}
		}
		w := sickWindow()
		w.AskSeq = 1 << 40
		feed.windows <- w
		shows("NEED YOU")
		idle := len(out.String())
		time.Sleep(time.Hour)
		if n := len(out.String()) - idle; n > 0 {
			t.Errorf("%d bytes were written in an hour without a window", n)
		}
		io.WriteString(keyboard, "i")
		shows("IF RESTARTED")
		io.WriteString(keyboard, "q")
		time.Sleep(time.Second)
		io.WriteString(keyboard, "q")
		if err := <-done; err != nil {
			t.Error(err)
		}
		m.Close()
		keyboard.Close()
		in.Close()
		if !feed.closed {
			t.Error("the feed was left open")
		}
	})
}
