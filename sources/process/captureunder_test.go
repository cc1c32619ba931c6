package process

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// TestStalledSessionsAreDumpedAlive runs stuck programs, unchanged, as sessions of
// one supervisor: each is seen to stall, each gets the dump that its runtime
// allows, and each goes on as the same process. One that found itself wedged
// exits 75, is dumped from its output, and is started again.
func TestStalledSessionsAreDumpedAlive(t *testing.T) {
	python := sourcetest.RealBinary(t, "python3")
	sourcetest.RealBinary(t, "eu-stack")
	type wanted struct{ method, shows string }
	met := func(w wanted, got Capture) bool {
		return got.Method == w.method && strings.Contains(string(got.Text), w.shows)
	}
	want := map[watchdog.ID]wanted{}
	var sessions []config.Session
	add := func(id string, w wanted, command ...string) *config.Session {
		s := new(config.Config).DefaultSession()
		s.ID, s.Command, s.StallTimeout, s.StopGrace = id, command, 2*time.Second, 5*time.Second
		s.Dump.Samples, s.Dump.Timeout = 1, captureRoom
		s.Dump.Budget = 2 * captureRoom
		sessions = append(sessions, s)
		want[watchdog.ID(id)] = w
		return &sessions[len(sessions)-1]
	}
	add("asyncio", wanted{"SIGUSR1", "in call_tool"}, python, testProgram(t, "agent.py"))
	add("gil", wanted{"SIGUSR1", "gil.py"}, python, testProgram(t, "gil.py"))
	add("deadlock", wanted{"jcmd", "Found one Java-level deadlock"}, sourcetest.RealBinary(t, "java"), testProgram(t, "Agent.java"))
	add("spin", wanted{"inspector", "scanTokens"}, sourcetest.RealBinary(t, "node"), "--inspect=127.0.0.1:0", testProgram(t, "agent.js"))
	add("queue", wanted{"eu-stack", "TID "}, sourcetest.RealBinary(t, "ruby"), testProgram(t, "agent.rb"))
	add("dispatcher", wanted{"pprof", "main.(*Dispatcher).loop"}, compiled(t, "goagent.go.txt"), "pprof", t.TempDir()+"/addr")
	add("shell", wanted{"eu-stack", "nanosleep"}, "sh", testProgram(t, "sleeper.sh"))
	add("gateway", wanted{"output", "rebuild_index"}, python, testProgram(t, "gateway.py")).StallTimeout = time.Hour

	var (
		mu    sync.Mutex
		taken = map[watchdog.ID]Capture{}
	)
	store := NewDumpStore(t.TempDir())
	s := supervise(t, new(witness), func(o *Options) {
		o.Capturer = NewLadder(LadderOptions{Store: store})
		o.Guard.Burst = 100
		o.OnCapture = func(got Capture) {
			mu.Lock()
			defer mu.Unlock()
			if !met(want[got.ID], taken[got.ID]) { // the newest, until it is the one
				taken[got.ID] = got
			}
		}
	}, sessions...)
	missing := func() (ids []watchdog.ID) {
		mu.Lock()
		defer mu.Unlock()
		for id, w := range want {
			if !met(w, taken[id]) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	done := func() bool { return len(missing()) == 0 }
	for range 6 {
		if sourcetest.Eventually(captureRoom/3, done) {
			break
		}
		// One may have stalled before it had said a word, or before what is to be
		// seen had come about, and again while that dump was taken: it gets no
		// other by itself.
		for _, id := range missing() {
			t.Logf("%s is asked for again", id)
			_, _ = s.Dump(t.Context(), Target{ID: id})
		}
	}
	if ids := missing(); len(ids) > 0 {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			w := want[id]
			t.Errorf("%s: by %q, want %q with %q; steps:\n%s", id, taken[id].Method, w.method, w.shows, describeSteps(taken[id]))
		}
		return
	}
	// What a dump made a program say was work, for a moment.
	sourcetest.Eventually(captureRoom/3, func() bool {
		return !slices.ContainsFunc(s.Sessions(), func(st Status) bool { return st.ID != "gateway" && !st.Stalled })
	})
	for _, status := range s.Sessions() {
		kept, err := store.List(status.ID)
		if err != nil || len(kept) == 0 {
			t.Errorf("%s: %d captures are kept: %v", status.ID, len(kept), err)
		}
		switch {
		case status.ID == "gateway":
			if status.Restarts == 0 {
				t.Errorf("gateway: it was not started again: %+v", status)
			}
		case status.Runs != 1 || !status.Stalled:
			t.Errorf("%s: %d runs, stalled %v, %s", status.ID, status.Runs, status.Stalled, status.Detail)
		}
	}
}
