package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// restore takes up what an earlier supervisor knew.
func (s *Supervisor) restore(state State) {
	s.boot = machineBoot()
	removeSockets(state.Sockets)
	passed := time.Duration(0)
	if state.Boot != "" && state.Boot == s.boot {
		passed = max(sinceBoot()-state.SinceBoot, 0)
	}
	s.fleetMu.Lock()
	s.fleet.Restore(state.Fleet, s.mono(), passed)
	s.fleetMu.Unlock()
	for id, saved := range state.Sessions {
		if state.Boot != s.boot && saved.Run != nil {
			// Its processes went with the machine; numbers and starts mean others.
			saved.Run = &RunState{BootID: saved.Run.BootID}
		}
		u := s.byID[id]
		if u == nil {
			if saved.Run != nil || len(saved.Executions) > 0 {
				s.absent[id] = saved
			}
			continue
		}
		u.machine.restarts = saved.Restarts
		if slices.Equal(saved.Argv, u.conf.Command) { // the failures of one command say nothing of another
			u.machine.chain = saved.Chain
		}
		u.machine.chain.Held = u.machine.chain.Held && !s.opts.ByHand
		u.machine.stopped = saved.Stopped && !s.opts.ByHand
		u.keeper.restore(saved)
		u.left = saved.Run
		u.bootID, u.generation = saved.BootID, saved.number()
	}
	for _, u := range s.units {
		u.keep()
	}
}

// number is the generation of the last run: who orders something of it means
// that one. 0: it is not known yet.
func (saved *SessionState) number() watchdog.Generation {
	for _, e := range saved.Executions {
		if e.BootID == saved.BootID {
			return e.Generation
		}
	}
	return saved.Generation
}

// removeSockets removes what a killed supervisor made among the temporary files,
// and nothing else that may stand there by now.
func removeSockets(dir string) {
	if filepath.Dir(dir) != filepath.Clean(os.TempDir()) || !strings.HasPrefix(filepath.Base(dir), socketsPrefix) {
		return
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return
	}
	sockets, _ := filepath.Glob(filepath.Join(dir, "n*.sock"))
	for _, path := range sockets {
		_ = os.Remove(path)
	}
	_ = os.Remove(dir)
}

func (k *keeper) restore(saved SessionState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = saved.Generation
	for _, e := range saved.Executions {
		k.last = max(k.last, e.Generation)
		if e.Outcome == watchdog.OutcomeNone && (saved.Run == nil || saved.Run.BootID != e.BootID) {
			e.Outcome, e.Reason, e.Ended = watchdog.OutcomeLost, "its supervisor was killed before it was started", time.Now()
		}
		k.queue = append(k.queue, &e)
	}
}

// save keeps what the next supervisor has to know.
func (s *Supervisor) save() {
	s.saveMu.Lock()
	defer s.saveMu.Unlock()
	now := s.mono()
	s.fleetMu.Lock()
	state := State{Boot: s.boot, SinceBoot: sinceBoot(), Fleet: s.fleet.State(now), Sessions: map[watchdog.ID]SessionState{}}
	s.fleetMu.Unlock()
	if s.ownsDir {
		state.Sockets = s.dir
	}
	for id, saved := range s.absent {
		state.Sessions[id] = saved
	}
	for _, u := range s.units {
		saved := *u.saved.Load()
		saved.Executions, saved.Generation = u.keeper.state()
		state.Sessions[u.id] = saved
	}
	s.kept(s.opts.Store.Save(state))
}

// unkeptAgain is how often it is said that the state is still not kept: on a
// full disk every step of every session fails to be.
const unkeptAgain = time.Minute

// kept says once that the state cannot be kept, and that it can be again.
func (s *Supervisor) kept(err error) {
	switch {
	case err != nil && time.Since(s.unkept) >= unkeptAgain:
		s.unkept = time.Now()
		s.log.Error("the supervisor's state is not kept", "error", err)
	case err == nil && !s.unkept.IsZero():
		s.unkept = time.Time{}
		s.log.Info("the supervisor's state is kept again")
	}
}

// keep takes the unit's part of the state; that of the ledger is the keeper's.
func (u *unit) keep() {
	m := u.machine
	st := &SessionState{Argv: u.conf.Command, Dir: u.conf.Dir, Chain: m.chain, Stopped: m.stopped, Restarts: m.restarts,
		BootID: u.bootID, Run: u.left}
	if m.phase == phaseRunning || m.phase == phaseEnding {
		st.Run = &RunState{BootID: u.bootID}
		if c := u.child.Load(); c != nil {
			st.Run.PID, st.Run.Start, st.Run.Group = c.pid, c.start, c.group.path()
		}
	}
	u.saved.Store(st)
}

// clear ends what is left of a run whose supervisor was killed, and settles it
// as lost.
func (s *Supervisor) clear(ctx context.Context, id watchdog.ID, k *keeper, left RunState, grace time.Duration) {
	found := s.endLeftovers(ctx, left, grace)
	if ctx.Err() != nil {
		return
	}
	reason := "its supervisor was killed; nothing of it was found at the next start"
	if found > 0 {
		reason = fmt.Sprintf("its supervisor was killed; %d of its processes were found at the next start and ended", found)
	}
	s.log.Warn("a session was left by an earlier supervisor", "session", id, "boot_id", left.BootID, "pid", left.PID, "found", found)
	k.end(left.BootID, watchdog.OutcomeLost, reason, time.Now())
}

// endLeftovers ends them and tells how many there were.
func (s *Supervisor) endLeftovers(ctx context.Context, left RunState, grace time.Duration) int {
	found := map[member]bool{}
	group := leftGroup(left.Group)
	defer group.close()
	begun := time.Now()
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		rest := s.table.leftovers(left.PID, left.Start, left.BootID, group.pids())
		if len(rest) == 0 {
			return len(found)
		}
		sig := syscall.SIGTERM
		if time.Since(begun) > grace {
			sig = syscall.SIGKILL
			group.kill()
		}
		for _, m := range rest {
			if !found[m] || sig == syscall.SIGKILL {
				s.table.signal(m, sig)
			}
			found[m] = true
		}
		if time.Since(begun) > grace+killPatience {
			s.log.Error("processes of an earlier supervisor survive SIGKILL", "pids", rest)
			return len(found)
		}
		select {
		case <-ctx.Done():
			return len(found)
		case <-time.After(pause):
		}
	}
}

// clearAbsent does the same for a session that is no longer configured.
func (s *Supervisor) clearAbsent(ctx context.Context, id watchdog.ID, saved SessionState) {
	k := newKeeper(s, id)
	k.restore(saved)
	if saved.Run != nil {
		s.clear(ctx, id, k, *saved.Run, new(config.Config).DefaultSession().StopGrace)
	}
	forget := func() {
		s.saveMu.Lock()
		delete(s.absent, id)
		s.saveMu.Unlock()
		s.save()
	}
	k.changed = func() {
		if k.idle() {
			forget()
		}
	}
	k.run(ctx)
}
