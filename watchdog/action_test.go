package watchdog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// acts lets a rig's tracker act, over a bus and with a ledger.
func (r *rig) acts() *rig {
	r.tr.SetActs(Acts{Able: true, Bus: true, Settles: true})
	return r
}

// order asks for an action and gives its effects.
func (r *rig) order(id string, op Op, s string, g Generation, boot string) []Effect {
	r.t.Helper()
	return r.tr.Apply(Ordered{Command: Command{ID: id, Op: op, Session: ID(s), Generation: g, BootID: boot, IssuedBy: "ops1"}, At: r.at.Mono})
}

func (r *rig) answer(id, s string, g Generation, f Fate, detail string) []Effect {
	r.t.Helper()
	return r.tr.Apply(Answered{Answer: Answer{Command: id, Session: ID(s), Generation: g, Fate: f, Detail: detail, By: "run@a/1"}, Way: "nats", At: r.at.Mono})
}

func (r *rig) wantFate(id string, f Fate, words ...string) Action {
	r.t.Helper()
	a, ok := r.tr.actionOf(id)
	if !ok {
		r.t.Fatalf("no action %s is known", id)
	}
	if a.Fate != f {
		r.t.Fatalf("%s %s #%d is %v (%s), want %v", a.Op, a.Session, a.Generation, a.Fate, a.Detail, f)
	}
	for _, w := range words {
		if !strings.Contains(a.Detail, w) {
			r.t.Fatalf("%v is told as %q, without %q", f, a.Detail, w)
		}
	}
	return a
}

// guarded is a beat of a guard or a supervisor.
func guarded(g Generation, boot string, takes ...Op) func(*Beat) {
	return func(b *Beat) {
		b.Generation, b.BootID, b.Seq = g, []byte(boot), 0
		if takes != nil {
			b.Takes, b.TakesSaid = OpSetOf(takes...), true
		}
	}
}

func deliversOf(effects []Effect) int {
	n := 0
	for _, e := range effects {
		if _, ok := e.(Deliver); ok {
			n++
		}
	}
	return n
}

// beating sends a beat each second.
func (r *rig) beating(id string, up *int64, change ...func(*Beat)) func() {
	return func() {
		*up++
		b := beat(id, *up, change...)
		b.Seq = *up
		r.send(b)
	}
}

func TestStopTakesEffectOnceItsEndIsWritten(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	up := int64(10)
	each := r.beating("a", &up, guarded(2, "boot", OpStop))
	r.run(5*time.Second, each)
	if n := deliversOf(r.order("c1", OpStop, "a", 2, "boot")); n != 1 {
		t.Fatalf("a stop was delivered %d times, want once", n)
	}
	r.wantFate("c1", FateRequested)
	r.answer("c1", "a", 2, FateAcknowledged, "")
	r.run(2*time.Second, each)
	r.wantFate("c1", FateAcknowledged)
	r.tr.Apply(TerminalSeen{ID: "a", Generation: 2, Outcome: OutcomeStopped, SettledBy: BySupervisor, At: r.at.Mono})
	effects := r.tr.Advance(r.at)
	if !slices.ContainsFunc(effects, func(e Effect) bool { c, ok := e.(Conclude); return ok && c.Answer.Fate == FateEffective }) {
		t.Fatalf("its end was seen, and no result is to be written: %v", effects)
	}
	r.answer("c1", "a", 2, FateEffective, "exit status 0 after 1.2s")
	r.wantFate("c1", FateEffective, "exit status 0")
	if r.answer("c1", "a", 2, FateIneffective, "x"); true {
		r.wantFate("c1", FateEffective) // a fate is final
	}
}

func TestOneThatIgnoresAStopIsIneffective(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	up := int64(10)
	each := r.beating("a", &up, guarded(2, "boot", OpStop))
	r.run(5*time.Second, each)
	r.order("c1", OpStop, "a", 2, "boot")
	r.answer("c1", "a", 2, FateAcknowledged, "")
	r.run(effectWithin-time.Second, each)
	r.wantFate("c1", FateAcknowledged)
	r.answer("c1", "a", 2, FateAcknowledged, "it goes on") // a long grace
	r.run(effectWithin-time.Second, each)
	r.wantFate("c1", FateAcknowledged)
	r.run(3*time.Second, each)
	r.wantFate("c1", FateAcknowledged) // until the result stands
	r.run(concludeWithin+time.Second, each)
	if a := r.wantFate("c1", FateIneffective, "still beats"); a.Next != "kill" && a.Next != "expire" {
		t.Errorf("the next step offered is %q, want kill or expire", a.Next)
	}
	alerts := func() []Alert { return r.tr.Look(Ask{Alerts: 10}).Alerts.List }
	if list := alerts(); len(list) != 1 || !strings.HasPrefix(list[0].Text, "STOP NOT EFFECTIVE a #2: ") || !strings.HasSuffix(list[0].Text, "Next: X expire.") {
		t.Errorf("alerts are %+v, want one of the stop", list)
	}
	r.order("c2", OpExpire, "a", 2, "boot")
	r.answer("c2", "a", 2, FateEffective, "its end is written")
	if list := alerts(); len(list) != 0 {
		t.Errorf("it took effect in the end, and alerts are %+v", list)
	}
}

func TestActionsThatCannotBeAreRefusedBeforeAnythingIsSent(t *testing.T) {
	five := func(r *rig) { r.send(beat("a", 10)) }
	full := func(takes ...Op) func(*rig) {
		return func(r *rig) { r.send(beat("a", 10, guarded(2, "boot", takes...))) }
	}
	for name, tt := range map[string]struct {
		acts  Acts
		setup func(*rig)
		op    Op
		g     Generation
		boot  string
		fate  Fate
		word  string
	}{
		"restart of a five-field producer": {Acts{Able: true, Bus: true, Settles: true}, five, OpRestart, 0, "", FateRefused, "nobody supervises it"},
		"stop of a five-field producer":    {Acts{Able: true, Bus: true, Settles: true}, five, OpStop, 0, "", FateRefused, "takes no commands"},
		"restart of a guard without one":   {Acts{Able: true, Bus: true, Settles: true}, full(OpStop, OpDump), OpRestart, 2, "boot", FateRefused, "nobody supervises it"},
		"read-only":                        {Acts{ReadOnly: true}, full(OpStop), OpStop, 2, "boot", FateRefused, "read-only"},
		"no bus":                           {Acts{Able: true, Settles: true}, full(OpStop), OpStop, 2, "boot", FateRefused, "no bus"},
		"no ledger":                        {Acts{Able: true, Bus: true}, full(OpStop), OpExpire, 2, "boot", FateRefused, "no ledger"},
		"no such session":                  {Acts{Able: true, Bus: true, Settles: true}, func(*rig) {}, OpStop, 2, "boot", FateRefused, "no such session"},
		"generation 1 while 2 runs":        {Acts{Able: true, Bus: true, Settles: true}, full(OpStop), OpStop, 1, "", FateLostRace, "#2 is current"},
		"another boot": {Acts{Able: true, Bus: true, Settles: true}, func(r *rig) { r.send(beat("a", 10, guarded(0, "boot2", OpStop))) }, OpStop, 0, "boot",
			FateLostRace, "another run"},
		"one that has ended": {Acts{Able: true, Bus: true, Settles: true}, func(r *rig) {
			r.send(beat("a", 10, guarded(2, "boot", OpStop)))
			r.tr.Apply(TerminalSeen{ID: "a", Generation: 2, Outcome: OutcomeCompleted, SettledBy: ByAgent, At: r.at.Mono})
		}, OpStop, 2, "boot", FateLostRace, "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Policy{}, SourceNATS)
			r.tr.SetActs(tt.acts)
			tt.setup(r)
			effects := r.order("c1", tt.op, "a", tt.g, tt.boot)
			if n := deliversOf(effects); n != 0 {
				t.Errorf("it was delivered %d times", n)
			}
			r.wantFate("c1", tt.fate, tt.word)
			if !slices.ContainsFunc(effects, func(e Effect) bool { f, ok := e.(Fated); return ok && f.Fate == tt.fate }) {
				t.Errorf("nobody can audit the refusal: %v", effects)
			}
		})
	}
}

func TestTwoStopsAreOneCommand(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	r.send(beat("a", 10, guarded(2, "boot", OpStop)))
	r.order("c1", OpStop, "a", 2, "boot")
	if n := deliversOf(r.order("c2", OpStop, "a", 2, "boot")); n != 0 {
		t.Errorf("the second was delivered %d times", n)
	}
	if a := r.wantFate("c2", FateRequested); a.ID != "c1" {
		t.Errorf("the second is %s, want the first", a.ID)
	}
	if w := r.tr.Look(Ask{}); len(w.Actions) != 1 {
		t.Errorf("%d actions are shown, want 1", len(w.Actions))
	}
}

func TestStopThatAnEndOvertakesHasLostTheRace(t *testing.T) {
	for outcome, fate := range map[Outcome]Fate{OutcomeCompleted: FateLostRace, OutcomeLost: FateLostRace, OutcomeStopped: FateEffective} {
		r := newRig(t, Policy{}, SourceNATS).acts()
		r.send(beat("a", 10, guarded(2, "boot", OpStop)))
		r.order("c1", OpStop, "a", 2, "boot")
		r.tr.Apply(TerminalSeen{ID: "a", Generation: 2, Outcome: outcome, SettledBy: ByAgent, At: r.at.Mono})
		r.run(concludeWithin+time.Second, nil)
		r.wantFate("c1", fate, outcome.String())
	}
}

func TestStopThatANewExecutionOvertakesTouchesItNot(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	r.send(beat("a", 10, guarded(2, "boot", OpStop)))
	r.order("c1", OpStop, "a", 2, "boot")
	r.run(2*time.Second, nil)
	r.send(beat("a", 0, guarded(3, "boot3", OpStop)))
	r.run(concludeWithin+time.Second, nil)
	r.wantFate("c1", FateLostRace, "#3 is current")
}

func TestCommandThatNobodyTakes(t *testing.T) {
	t.Run("it beats, and never said that it takes commands", func(t *testing.T) {
		r := newRig(t, Policy{}, SourceNATS).acts()
		up := int64(10)
		each := r.beating("a", &up, guarded(2, "boot"))
		r.run(5*time.Second, each)
		r.order("c1", OpStop, "a", 2, "boot")
		r.answer("c1", "a", 2, FateRequested, "kept")
		r.run(hearWithin+concludeWithin+2*time.Second, each)
		if a := r.wantFate("c1", FateUndeliverable, "no receiver"); a.Next != "expire" {
			t.Errorf("the next step offered is %q, want expire", a.Next)
		}
	})
	t.Run("it takes them, and is slow", func(t *testing.T) {
		r := newRig(t, Policy{}, SourceNATS).acts()
		up := int64(10)
		each := r.beating("a", &up, guarded(2, "boot", OpStop))
		r.run(5*time.Second, each)
		r.order("c1", OpStop, "a", 2, "boot")
		r.answer("c1", "a", 2, FateRequested, "kept")
		r.run(CommandTTL-time.Minute, each)
		r.wantFate("c1", FateRequested)
		r.run(time.Minute+concludeWithin+time.Second, each)
		r.wantFate("c1", FateUndeliverable, "still beats")
	})
	t.Run("it is away", func(t *testing.T) {
		r := newRig(t, Policy{}, SourceNATS).acts()
		r.send(beat("a", 10, guarded(2, "boot", OpStop)))
		r.order("c1", OpStop, "a", 2, "boot")
		r.answer("c1", "a", 2, FateRequested, "kept")
		r.run(CommandTTL-time.Second, nil)
		r.wantFate("c1", FateRequested)
		r.run(concludeWithin+2*time.Second, nil)
		r.wantFate("c1", FateTimedOut)
	})
}

func TestActionsAreBoundedAndOpenOnesStay(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	r.send(beat("a", 10, guarded(2, "boot", OpStop)))
	r.order("open", OpStop, "a", 2, "boot")
	for i := range 3 * actionsKept {
		r.order("x"+formatNumber(Generation(i)), OpStop, "nobody", 1, "")
	}
	r.wantFate("open", FateRequested)
	if n := len(r.tr.actions.list); n > actionsKept {
		t.Errorf("%d actions are kept, want %d at most", n, actionsKept)
	}
	if n := len(r.tr.actions.byID); n > actionsKept {
		t.Errorf("%d ids are kept", n)
	}
}

// way is a fake way of commands.
type way struct {
	carry    func(ctx context.Context, c Command, heard func(Answer)) (Answer, error)
	conclude func(Answer) (Answer, error)
}

func (w way) WayName() string { return "nats" }
func (w way) Carries(ID) bool { return true }
func (w way) Carry(ctx context.Context, c Command, heard func(Answer)) (Answer, error) {
	return w.carry(ctx, c, heard)
}

func (w way) Conclude(_ context.Context, a Answer) (Answer, error) {
	if w.conclude == nil {
		return a, nil
	}
	return w.conclude(a)
}

// operated runs an engine with an operator in simulated time, which the caller's
// test bubble owns.
func operated(t *testing.T, cfg OperatorConfig) (*Engine, func() []Action) {
	t.Helper()
	clock := bubbleClock{time.Now()}
	var engine *Engine
	var mu sync.Mutex
	var audited []Action
	cfg.Clock, cfg.Name = clock, "serve@a/1"
	cfg.Post = func(ev Event) { engine.Post(ev) }
	cfg.Audit = func(a Action) {
		mu.Lock()
		defer mu.Unlock()
		audited = append(audited, a)
	}
	o := NewOperator(cfg)
	engine = NewEngine(EngineConfig{Clock: clock, Effects: o.Effects, Acts: Acts{Able: true, Bus: true, Settles: cfg.Settle != nil}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	running.Go(func() { _ = o.Run(ctx) })
	running.Go(func() {
		for ctx.Err() == nil {
			now := clock.Now().Mono
			engine.Post(RoundTrip{Source: SourceNATS, Sent: now, At: now})
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	b := beat("a", 10, guarded(2, "boot", OpStop, OpKill, OpRestart, OpDump))
	b.Received = clock.Now().Mono
	engine.Beats([]Beat{b})
	return engine, func() []Action {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(audited)
	}
}

func fateOf(t *testing.T, e *Engine, id string) Action {
	t.Helper()
	w, err := e.Look(t.Context(), Ask{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range w.Actions {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("no action %s in the window", id)
	return Action{}
}

// A session in its back-off has its end already; a stop takes its restart away,
// and that is what was asked for.
func TestStopOfARestartThatIsPendingIsEffective(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		carried := func(_ context.Context, c Command, _ func(Answer)) (Answer, error) {
			return Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: FateEffective, Detail: "exit status 1", By: "serve@a/1"}, nil
		}
		engine, _ := operated(t, OperatorConfig{Ways: []CommandWay{way{carry: carried}}, Settle: func(_ context.Context, r Record) (Record, error) {
			r.Outcome, r.SettledBy, r.Nonce = OutcomeError, BySupervisor, "another's"
			return r, nil
		}})
		now := bubbleClock{time.Now()}.Now().Mono
		engine.Post(Supervised{ID: "a", Generation: 2, Phase: SupervisorRestarting, At: now})
		engine.Post(TerminalSeen{ID: "a", Generation: 2, Outcome: OutcomeError, SettledBy: BySupervisor, At: now})
		asked, err := engine.Do(t.Context(), Command{Op: OpStop, Session: "a", Generation: 2, IssuedBy: "ops1"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if a := fateOf(t, engine, asked.ID); a.Fate != FateEffective || a.Detail != "exit status 1" {
			t.Errorf("it is told as %v: %s", a.Fate, a.Detail)
		}
	})
}

func TestOperatorTellsWhatBecameOfACommand(t *testing.T) {
	settled := func(outcome Outcome, by SettledBy) func(context.Context, Record) (Record, error) {
		return func(_ context.Context, r Record) (Record, error) {
			if outcome != OutcomeNone {
				r.Outcome, r.SettledBy, r.Nonce = outcome, by, "another's"
			}
			return r, nil
		}
	}
	says := func(f Fate) func(context.Context, Command, func(Answer)) (Answer, error) {
		return func(_ context.Context, c Command, heard func(Answer)) (Answer, error) {
			heard(Answer{Command: c.ID, Session: c.Session, Fate: FateAcknowledged, By: "run@b/2"})
			return Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: f, Detail: "exit status 0", By: "run@b/2"}, nil
		}
	}
	fails := func(err error) func(context.Context, Command, func(Answer)) (Answer, error) {
		return func(context.Context, Command, func(Answer)) (Answer, error) { return Answer{}, err }
	}
	for name, tt := range map[string]struct {
		op     Op
		carry  func(context.Context, Command, func(Answer)) (Answer, error)
		settle func(context.Context, Record) (Record, error)
		fate   Fate
		word   string
	}{
		"stopped by its supervisor":            {OpStop, says(FateEffective), settled(OutcomeStopped, BySupervisor), FateEffective, "exit status 0"},
		"stopped, and its end is ours":         {OpStop, says(FateEffective), settled(OutcomeNone, ""), FateEffective, "exit status 0"},
		"told to stop, and completed":          {OpStop, says(FateEffective), settled(OutcomeCompleted, ByAgent), FateLostRace, "completed by agent"},
		"stopped, and the ledger is away":      {OpStop, says(FateEffective), func(context.Context, Record) (Record, error) { return Record{}, ErrAuthorityAway }, FateEffective, "not written yet"},
		"ignored":                              {OpStop, says(FateIneffective), settled(OutcomeNone, ""), FateIneffective, "exit status 0"},
		"restart, and nobody listens":          {OpRestart, fails(ErrNobody), settled(OutcomeNone, ""), FateRefused, "nobody supervises it"},
		"dump, and nobody listens":             {OpDump, fails(ErrNobody), settled(OutcomeNone, ""), FateUndeliverable, "nobody takes commands"},
		"a bus that does not let us":           {OpStop, fails(errors.New("may not publish")), settled(OutcomeNone, ""), FateRefused, "may not publish"},
		"expired":                              {OpExpire, nil, settled(OutcomeNone, ""), FateEffective, "not signalled; released: ok"},
		"expired, and it was settled already":  {OpExpire, nil, settled(OutcomeLost, BySweeper), FateLostRace, "lost by sweeper"},
		"expired, and a foreign record stands": {OpExpire, nil, func(context.Context, Record) (Record, error) { return Record{}, ErrForeignRecord }, FateRefused, "nothing was written"},
		"a panic": {OpStop, func(context.Context, Command, func(Answer)) (Answer, error) { panic("x") }, settled(OutcomeNone, ""), FateTimedOut,
			"not known"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine, audited := operated(t, OperatorConfig{Ways: []CommandWay{way{carry: tt.carry}}, Settle: tt.settle,
					Released: func(context.Context, Record) string { return "released: ok" }})
				a, err := engine.Do(t.Context(), Command{Op: tt.op, Session: "a", Generation: 2, IssuedBy: "ops1"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := fateOf(t, engine, a.ID); got.Fate != tt.fate || !strings.Contains(got.Detail, tt.word) {
					t.Errorf("%v: %q; want %v with %q", got.Fate, got.Detail, tt.fate, tt.word)
				}
				list := audited()
				if len(list) < 2 || list[0].Fate != FateRequested || list[len(list)-1].Fate != tt.fate {
					t.Errorf("the audit has %v", list)
				}
			})
		})
	}
}

func TestExpireWaitsForALedgerThatIsAwayForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		engine, _ := operated(t, OperatorConfig{Settle: func(_ context.Context, r Record) (Record, error) {
			if tries++; time.Since(began) < 7*time.Second {
				return Record{}, ErrAuthorityAway
			}
			return r, nil
		}})
		a, err := engine.Do(t.Context(), Command{Op: OpExpire, Session: "a", Generation: 2})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := fateOf(t, engine, a.ID); got.Fate != FateAcknowledged {
			t.Errorf("after 5 s it is %v", got.Fate)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := fateOf(t, engine, a.ID); got.Fate != FateEffective || tries < 2 {
			t.Errorf("after 10 s it is %v, after %d tries", got.Fate, tries)
		}
	})
}

func TestOfManyCommandsEachHasOneFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := map[string]Answer{}
		var mu sync.Mutex
		once := func(a Answer) (Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			if stands, ok := results[a.Command]; ok {
				return stands, nil
			}
			results[a.Command] = a
			return a, nil
		}
		n := 0
		engine, audited := operated(t, OperatorConfig{Ways: []CommandWay{way{conclude: once, carry: func(ctx context.Context, c Command, heard func(Answer)) (Answer, error) {
			mu.Lock()
			n++
			kind := n % 3
			mu.Unlock()
			switch kind {
			case 0: // its receiver is away for a day
				<-ctx.Done()
				return Answer{}, ctx.Err()
			case 1: // taken, and never finished
				heard(Answer{Command: c.ID, Session: c.Session, Fate: FateAcknowledged})
				<-ctx.Done()
				return Answer{}, ctx.Err()
			}
			return once(Answer{Command: c.ID, Session: c.Session, Fate: FateEffective})
		}}}})
		var ids []string
		for i := range 500 {
			id := "s" + formatNumber(Generation(i))
			b := beat(id, 10, guarded(1, "boot", OpStop, OpDump))
			b.Received = engine.clock.Now().Mono
			engine.Beats([]Beat{b})
			a, err := engine.Do(t.Context(), Command{Op: OpDump, Session: ID(id), Generation: 1})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID)
		}
		time.Sleep(time.Hour) // what is final by then stays so
		synctest.Wait()
		finals := map[string]int{}
		for _, a := range audited() {
			if a.Fate.Final() {
				finals[a.ID]++
			}
		}
		for _, id := range ids {
			if finals[id] != 1 {
				t.Fatalf("%s has %d final fates", id, finals[id])
			}
			a, _ := engine.tracker.actionOf(id)
			if stands, ok := results[id]; !ok || stands.Fate != a.Fate {
				t.Fatalf("%s is %v here, and its result is %v", id, a.Fate, stands.Fate)
			}
		}
	})
}

func TestSupervisorOfAnExpiredSessionIsReachedStill(t *testing.T) {
	r := newRig(t, Policy{}, SourceNATS).acts()
	up := int64(10)
	each := r.beating("a", &up, guarded(2, "boot", OpStop, OpKill, OpRestart, OpDump))
	r.run(3*time.Second, each)
	r.tr.Apply(TerminalSeen{ID: "a", Generation: 2, Outcome: OutcomeExpired, SettledBy: ByOperator, At: r.at.Mono})
	r.run(time.Second, each)
	if n := deliversOf(r.order("c1", OpRestart, "a", 2, "boot")); n != 1 {
		t.Fatalf("a restart after an expire was delivered %d times, want once", n)
	}
	r.run(2*time.Second, each)
	r.wantFate("c1", FateRequested)
	r.answer("c1", "a", 2, FateEffective, "#3 runs as pid 5")
	r.wantFate("c1", FateEffective)

	r.order("c2", OpKill, "a", 2, "boot")
	r.run(hearWithin+concludeWithin+2*time.Second, nil)
	r.wantFate("c2", FateUndeliverable, "has ended")
}

func TestStopReachesASupervisorThatIsAboutToStartAgain(t *testing.T) {
	for outcome, delivered := range map[Outcome]int{OutcomeError: 1, OutcomeCompleted: 0, OutcomeStopped: 0, OutcomeLost: 1} {
		r := newRig(t, Policy{}, SourceNATS).acts()
		r.send(beat("a", 10, guarded(2, "boot", OpStop, OpKill, OpRestart, OpDump)))
		r.tr.Apply(TerminalSeen{ID: "a", Generation: 2, Outcome: outcome, SettledBy: BySupervisor, At: r.at.Mono})
		if n := deliversOf(r.order("c1", OpStop, "a", 2, "boot")); n != delivered {
			t.Errorf("after %v a stop is delivered %d times, want %d", outcome, n, delivered)
		}
	}
}
