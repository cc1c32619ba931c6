package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// freeFleet holds nothing until it is told to.
type freeFleet struct{ until time.Duration }

func (f *freeFleet) allow(now time.Duration) (bool, time.Duration, string) {
	return now >= f.until, f.until, "a test holds them"
}
func (*freeFleet) failed() {}
func (*freeFleet) fine()   {}

// stage is a machine with the world that it believes in: what it wants done is
// written down, and done as far as a test needs it.
type stage struct {
	*machine
	now   time.Duration
	fleet *freeFleet
}

func newStage(change func(*plan)) *stage {
	p := plan{rules: watchdog.RestartRules{Policy: watchdog.RestartOnFailure},
		limits: watchdog.RestartLimits{Burst: 3, Window: time.Minute, BackoffMin: time.Second, BackoffMax: time.Minute},
		grace:  10 * time.Second, stall: 5 * time.Minute, action: config.StallAlert, maxWait: 24 * time.Hour, budget: 20 * time.Second}
	if change != nil {
		change(&p)
	}
	s := &stage{fleet: &freeFleet{}, now: time.Hour}
	s.machine = newMachine(p, s.fleet, func() float64 { return 0 })
	return s
}

var stepNames = map[stepKind]string{stepNumber: "number", stepSpawn: "spawn", stepTerm: "term", stepKill: "kill", stepAbandon: "abandon",
	stepDump: "dump", stepDropDump: "drop", stepSettle: "settle", stepBeat: "beat"}

// did gives what was decided since the last time, on one line.
func (s *stage) did() string {
	var words []string
	for _, st := range s.take() {
		word := stepNames[st.do]
		switch {
		case st.do == stepBeat && st.outcome != watchdog.OutcomeNone:
			continue // the end beat goes with the settlement
		case st.do == stepSettle:
			word += ":" + st.outcome.String()
		case st.do == stepDump && st.maybe:
			continue // TestWhoFailsIsSearchedForADump
		case st.do == stepKeep:
			continue // TestAStopOutlivesItsSupervisor
		case st.do == stepDump:
			word += ":" + string(st.reason)
			if st.ending {
				word += "!"
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestWhoFailsIsSearchedForADump: what a panic or a fatal error wrote is a dump,
// but nobody knows that there is one.
func TestWhoFailsIsSearchedForADump(t *testing.T) {
	for _, c := range []struct {
		exit          watchdog.Exit
		search, maybe bool
	}{
		{watchdog.Exit{Code: 0}, false, false},
		{watchdog.Exit{Code: watchdog.ExitConfig}, false, false},
		{watchdog.Exit{Code: watchdog.ExitRestart}, true, false},
		{watchdog.Exit{Code: 2}, true, true},
		{watchdog.Exit{Code: 134, Signal: 6}, true, true},
	} {
		s := newStage(nil).run()
		s.take()
		s.exited(c.exit, s.now)
		search, maybe := false, false
		for _, st := range s.take() {
			if st.do == stepDump {
				search, maybe = true, st.maybe
			}
		}
		if search != c.search || maybe != c.maybe {
			t.Errorf("%+v: searched %v, maybe %v", c.exit, search, maybe)
		}
	}
}

// passes lets time pass, deadline by deadline.
func (s *stage) passes(d time.Duration) {
	for end := s.now + d; ; {
		next := s.wake()
		if next > end {
			s.now = end
			return
		}
		s.now = max(s.now, next)
		s.tick(s.now)
	}
}

func (s *stage) run() *stage {
	s.start(s.now)
	s.numbered(s.now)
	s.did()
	return s
}

func (s *stage) ends(e watchdog.Exit) {
	s.exited(e, s.now)
	s.gone(nil, s.now)
}

func (s *stage) want(t *testing.T, want string, ph phase) {
	t.Helper()
	if got := s.did(); got != want || s.phase != ph {
		t.Fatalf("decided %q in phase %d (%s), want %q in phase %d", got, s.phase, s.reason, want, ph)
	}
}

func TestTheLifeOfASession(t *testing.T) {
	for _, c := range []struct {
		name string
		plan func(*plan)
		play func(t *testing.T, s *stage)
	}{
		{"a start without a number goes on after a moment", nil, func(t *testing.T, s *stage) {
			s.start(s.now)
			s.want(t, "number", phaseNumbering)
			s.passes(numberPatience)
			s.want(t, "spawn", phaseRunning)
			s.numbered(s.now)
			s.want(t, "", phaseRunning)
		}},
		{"completed", nil, func(t *testing.T, s *stage) {
			s.run().exited(watchdog.Exit{}, s.now)
			s.want(t, "term", phaseEnding)
			s.gone(nil, s.now)
			s.want(t, "settle:completed", phaseIdle)
		}},
		{"a failure is restarted after its back-off", nil, func(t *testing.T, s *stage) {
			s.run().ends(watchdog.Exit{Code: 1})
			s.want(t, "term settle:error", phaseWaiting)
			s.passes(time.Second - 1)
			s.want(t, "", phaseWaiting)
			s.passes(1)
			s.want(t, "number", phaseNumbering)
		}},
		{"75 is restarted although never, with the dump that it wrote", func(p *plan) { p.rules.Policy = watchdog.RestartNever }, func(t *testing.T, s *stage) {
			s.run().ends(watchdog.Exit{Code: 75})
			s.want(t, "dump:exit term settle:error", phaseWaiting)
		}},
		{"78 is not restarted although always", func(p *plan) { p.rules.Policy = watchdog.RestartAlways }, func(t *testing.T, s *stage) {
			s.run().ends(watchdog.Exit{Code: 78})
			s.want(t, "term settle:error", phaseIdle)
		}},
		{"a cycle of 31 s is held at the third", nil, func(t *testing.T, s *stage) {
			for range 3 {
				if s.phase == phaseIdle {
					s.run()
				}
				s.passes(31 * time.Second)
				s.numbered(s.now)
				s.passes(31*time.Second - (s.now - s.started))
				s.ends(watchdog.Exit{Code: 1})
				s.passes(5 * time.Second)
				s.numbered(s.now)
			}
			s.did()
			s.want(t, "", phaseHeld)
			s.passes(24 * time.Hour)
			s.want(t, "", phaseHeld)
			s.start(s.now)
			s.want(t, "number", phaseNumbering)
		}},
		{"stop: SIGTERM, grace, SIGKILL", nil, func(t *testing.T, s *stage) {
			s.run().stop(s.now, false)
			s.want(t, "term", phaseEnding)
			s.passes(10*time.Second - 1)
			s.want(t, "", phaseEnding)
			s.passes(1)
			s.want(t, "kill", phaseEnding)
			s.ends(watchdog.Exit{Code: 137, Signal: 9})
			s.want(t, "settle:stopped", phaseIdle)
		}},
		{"a leader that exits on SIGTERM does not cancel the SIGKILL of the rest", nil, func(t *testing.T, s *stage) {
			s.run().stop(s.now, false)
			s.exited(watchdog.Exit{}, s.now)
			s.want(t, "term", phaseEnding)
			s.passes(10 * time.Second)
			s.want(t, "kill", phaseEnding)
			s.passes(killPatience)
			s.want(t, "abandon kill", phaseEnding)
			s.gone([]int{4711}, s.now)
			s.want(t, "settle:stopped", phaseIdle)
			if !strings.Contains(s.reason, "4711") {
				t.Errorf("the survivor is not named: %s", s.reason)
			}
		}},
		{"what survives SIGKILL is not said to have stopped", nil, func(t *testing.T, s *stage) {
			s.run().stop(s.now, true)
			s.passes(time.Minute)
			if got := s.did(); s.phase != phaseEnding || !s.stuck || strings.Contains(got, "settle") {
				t.Errorf("decided %q in phase %d, stuck %v", got, s.phase, s.stuck)
			}
			s.ends(watchdog.Exit{Code: 137, Signal: 9})
			if s.phase != phaseIdle || s.stuck {
				t.Errorf("phase %d, stuck %v after its end", s.phase, s.stuck)
			}
		}},
		{"kill goes before the grace", nil, func(t *testing.T, s *stage) {
			s.run().stop(s.now, false)
			s.stop(s.now, true)
			s.want(t, "term kill", phaseEnding)
		}},
		{"stop during the back-off wins", nil, func(t *testing.T, s *stage) {
			s.run().ends(watchdog.Exit{Code: 1})
			s.did()
			s.stop(s.now, false)
			s.passes(time.Hour)
			s.want(t, "", phaseIdle)
		}},
		{"stop before the number is settled", nil, func(t *testing.T, s *stage) {
			s.start(s.now)
			s.did()
			s.stop(s.now, false)
			s.want(t, "settle:stopped", phaseIdle)
			s.numbered(s.now)
			s.passes(time.Hour)
			s.want(t, "", phaseIdle)
		}},
		{"two restarts at once are one", nil, func(t *testing.T, s *stage) {
			s.run().restart(s.now)
			s.restart(s.now)
			s.want(t, "term", phaseEnding)
			s.ends(watchdog.Exit{})
			s.restart(s.now)
			s.want(t, "settle:stopped number", phaseNumbering)
			s.numbered(s.now)
			s.want(t, "spawn", phaseRunning)
			if s.restarts != 1 {
				t.Errorf("%d restarts", s.restarts)
			}
		}},
		{"a stop after a restart wins", nil, func(t *testing.T, s *stage) {
			s.run().restart(s.now)
			s.stop(s.now, false)
			s.ends(watchdog.Exit{})
			s.want(t, "term settle:stopped", phaseIdle)
		}},
		{"a start after a stop wins", nil, func(t *testing.T, s *stage) {
			s.run().stop(s.now, false)
			s.start(s.now)
			s.ends(watchdog.Exit{})
			s.want(t, "term settle:stopped number", phaseNumbering)
		}},
		{"an end of its own before our stop is its own", nil, func(t *testing.T, s *stage) {
			s.run().exited(watchdog.Exit{Code: 3}, s.now)
			s.stop(s.now, false)
			s.gone(nil, s.now)
			s.want(t, "term settle:error", phaseIdle)
		}},
		{"a held fleet lets nothing start", nil, func(t *testing.T, s *stage) {
			s.fleet.until = s.now + 2*time.Minute
			s.run().ends(watchdog.Exit{Code: 1})
			s.did()
			s.passes(2*time.Minute - 1)
			s.want(t, "", phaseWaiting)
			s.passes(1)
			s.want(t, "number", phaseNumbering)
		}},
		{"leftovers go before the start", nil, func(t *testing.T, s *stage) {
			s.clearing()
			s.start(s.now)
			s.want(t, "", phaseClearing)
			s.cleared(s.now)
			s.want(t, "number", phaseNumbering)
		}},
		{"what does not start is restarted like a failure", nil, func(t *testing.T, s *stage) {
			s.run().spawnFailed(s.now, "no such file")
			s.want(t, "settle:error", phaseWaiting)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.play(t, newStage(c.plan)) })
	}
}

func TestAStall(t *testing.T) {
	act := func(a config.StallAction) func(*plan) { return func(p *plan) { p.action = a } }
	first := func(p *plan) { p.first = true }
	for _, c := range []struct {
		name string
		plan func(*plan)
		play func(t *testing.T, s *stage)
	}{
		{"alert: a dump and no more", nil, func(t *testing.T, s *stage) {
			s.passes(5*time.Minute - 1)
			s.want(t, "", phaseRunning)
			s.passes(1)
			s.want(t, "beat dump:stalled", phaseRunning)
			s.dumped(s.now)
			s.passes(time.Hour)
			s.want(t, "", phaseRunning)
		}},
		{"recovery is told at once", nil, func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.dumped(s.now)
			s.passes(2 * dumpEcho)
			s.did()
			s.wrote(s.now, s.now)
			s.want(t, "beat", phaseRunning)
			s.passes(5 * time.Minute)
			s.want(t, "beat dump:stalled", phaseRunning)
		}},
		{"the dump's own output is no recovery", nil, func(t *testing.T, s *stage) {
			s.wrote(s.now, s.now)
			s.passes(5 * time.Minute)
			s.did()
			s.wrote(s.now, s.now)
			s.dumped(s.now)
			s.wrote(s.now+dumpEcho-1, s.now+2*dumpEcho)
			s.want(t, "", phaseRunning)
		}},
		{"a first word while the dump is taken is recovery", nil, func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.did()
			s.wrote(s.now, s.now)
			s.want(t, "beat", phaseRunning)
			s.dumped(s.now)
			s.passes(5 * time.Minute)
			s.want(t, "beat dump:stalled", phaseRunning)
		}},
		{"output that came before the dump counts late", nil, func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.did()
			s.wrote(s.now-1, s.now)
			s.want(t, "beat", phaseRunning)
		}},
		{"restart: dump first, then the end, then a new run", act(config.StallRestart), func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.want(t, "beat dump:stalled!", phaseRunning)
			s.dumped(s.now)
			s.want(t, "term", phaseEnding)
			s.ends(watchdog.Exit{Code: 143, Signal: 15})
			s.want(t, "settle:stopped", phaseWaiting)
		}},
		{"stop: dump first, then the end for good", act(config.StallStop), func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.dumped(s.now)
			s.ends(watchdog.Exit{Code: 143, Signal: 15})
			s.want(t, "beat dump:stalled! term settle:stopped", phaseIdle)
		}},
		{"a dump that never ends holds nothing up", act(config.StallRestart), func(t *testing.T, s *stage) {
			s.passes(5*time.Minute + 20*time.Second)
			s.want(t, "beat dump:stalled! drop term", phaseEnding)
		}},
		{"recovery while the dump is taken saves it", act(config.StallRestart), func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.did()
			s.worked(s.now, s.now)
			s.dumped(s.now)
			s.want(t, "beat", phaseRunning)
		}},
		{"without dumps the action comes at once", func(p *plan) { p.action, p.budget = config.StallRestart, 0 }, func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.want(t, "beat term", phaseEnding)
		}},
		{"an operator's restart: dump first, that the run survives", first, func(t *testing.T, s *stage) {
			s.restart(s.now)
			s.want(t, "dump:restart beat", phaseRunning)
			if s.restart(s.now); s.did() != "" {
				t.Error("two restarts are two dumps")
			}
			s.dumped(s.now)
			s.want(t, "term", phaseEnding)
			s.ends(watchdog.Exit{Code: 143, Signal: 15})
			s.want(t, "settle:stopped number", phaseNumbering)
		}},
		{"its dump has a limit of its own", first, func(t *testing.T, s *stage) {
			s.restart(s.now)
			s.passes(restartDump)
			s.want(t, "dump:restart beat drop term", phaseEnding)
		}},
		{"it waits for a dump that is being taken", first, func(t *testing.T, s *stage) {
			s.dumpAsked(s.now)
			s.restart(s.now)
			s.want(t, "dump:asked beat", phaseRunning)
			s.dumped(s.now)
			s.want(t, "term", phaseEnding)
		}},
		{"neither work nor a stall takes it back", first, func(t *testing.T, s *stage) {
			s.passes(5*time.Minute - time.Second)
			s.restart(s.now)
			s.passes(2 * time.Second)
			s.worked(s.now, s.now)
			s.dumped(s.now)
			s.want(t, "dump:restart beat beat beat term", phaseEnding)
			s.ends(watchdog.Exit{})
			s.want(t, "settle:stopped number", phaseNumbering)
		}},
		{"a stop takes it back, and does not wait", first, func(t *testing.T, s *stage) {
			s.restart(s.now)
			s.stop(s.now, false)
			s.want(t, "dump:restart beat drop term", phaseEnding)
			s.ends(watchdog.Exit{})
			s.want(t, "settle:stopped", phaseIdle)
		}},
		{"who dies in its dump is started again", first, func(t *testing.T, s *stage) {
			s.restart(s.now)
			s.ends(watchdog.Exit{Code: 134, Signal: 6})
			s.want(t, "dump:restart beat drop term settle:error number", phaseNumbering)
		}},
		{"without dumps a restart ends it at once", func(p *plan) { p.budget = 0 }, func(t *testing.T, s *stage) {
			s.restart(s.now)
			s.want(t, "term", phaseEnding)
		}},
		{"a stop does not wait for the dump", act(config.StallRestart), func(t *testing.T, s *stage) {
			s.passes(5 * time.Minute)
			s.stop(s.now, false)
			s.want(t, "beat dump:stalled! drop term", phaseEnding)
			s.ends(watchdog.Exit{})
			s.want(t, "settle:stopped", phaseIdle)
		}},
		{"a declared wait has its own clock", nil, func(t *testing.T, s *stage) {
			s.waits(watchdog.WaitHuman, time.Hour, s.now)
			s.want(t, "beat", phaseRunning)
			s.passes(time.Minute)
			s.wrote(s.now, s.now) // "waiting for approval"
			s.passes(64*time.Minute - 1)
			s.want(t, "", phaseRunning)
			s.passes(1)
			s.want(t, "beat dump:stalled", phaseRunning)
		}},
		{"work ends a wait", nil, func(t *testing.T, s *stage) {
			s.waits(watchdog.WaitHuman, time.Hour, s.now)
			s.worked(s.now, s.now)
			s.did()
			s.passes(5 * time.Minute)
			s.want(t, "beat dump:stalled", phaseRunning)
		}},
		{"a wedge is acted on at once, and log lines do not take it back", act(config.StallRestart), func(t *testing.T, s *stage) {
			s.saysWedged(s.now)
			s.saysWedged(s.now)
			s.wrote(s.now, s.now)
			s.want(t, "beat dump:wedged!", phaseRunning)
			s.worked(s.now, s.now)
			s.want(t, "beat", phaseRunning)
		}},
		{"what we could not see accuses nobody", nil, func(t *testing.T, s *stage) {
			s.passes(4 * time.Minute)
			s.now += 10 * time.Minute // stopped, with SIGSTOP
			s.late(10*time.Minute, s.now)
			s.tick(s.now)
			s.passes(time.Minute - 1)
			s.want(t, "", phaseRunning)
			s.passes(1)
			s.want(t, "beat dump:stalled", phaseRunning)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.play(t, newStage(c.plan).run()) })
	}
}

// Whatever happens in whatever order: never two children, every run that began
// settled exactly once and only after its end, nothing after a stop.
func TestNoOrderOfEventsMakesTwoChildrenOrLosesAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStage(func(p *plan) {
			p.action = rapid.SampledFrom([]config.StallAction{config.StallAlert, config.StallRestart, config.StallStop}).Draw(t, "action")
			p.rules.Policy = watchdog.RestartPolicy(rapid.IntRange(0, 2).Draw(t, "policy"))
			p.first = rapid.Bool().Draw(t, "a dump first")
		})
		living, leader, numbered, settled := 0, false, 0, 0
		stopped := false
		look := func() {
			for _, st := range s.take() {
				switch st.do {
				case stepNumber:
					if stopped {
						t.Fatal("started after a stop")
					}
					numbered++
				case stepSpawn:
					if living++; living > 1 {
						t.Fatal("two children")
					}
					leader = true
				case stepSettle:
					if settled++; settled > numbered {
						t.Fatal("settled twice")
					}
					if leader {
						t.Fatal("settled while its leader lives")
					}
				case stepTerm, stepKill, stepAbandon, stepDump, stepDropDump, stepBeat, stepKeep:
				}
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			case 0:
				stopped = false
				s.start(s.now)
			case 1:
				s.stop(s.now, rapid.Bool().Draw(t, "kill"))
				stopped = true
			case 2:
				stopped = false
				s.restart(s.now)
			case 3:
				s.numbered(s.now)
			case 4:
				if leader {
					leader = false
					s.exited(watchdog.Exit{Code: rapid.SampledFrom([]int{0, 1, 75, 78}).Draw(t, "code")}, s.now)
				}
			case 5:
				if living > 0 && !leader {
					living--
					s.gone(nil, s.now)
				}
			case 6:
				s.passes(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "passes")))
			case 7:
				s.dumped(s.now)
			case 8:
				s.wrote(s.now, s.now)
			case 9:
				s.saysWedged(s.now)
			case 10:
				s.waits(watchdog.WaitTool, time.Minute, s.now)
			case 11:
				s.dumpAsked(s.now)
			}
			look()
			open := 0
			if s.phase == phaseNumbering || s.phase == phaseRunning || s.phase == phaseEnding {
				open = 1
			}
			if numbered-settled != open {
				t.Fatal(fmt.Sprintf("%d began and %d were settled in phase %d", numbered, settled, s.phase))
			}
		}
	})
}
