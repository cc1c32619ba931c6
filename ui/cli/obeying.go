package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// supervisorOps are the commands that a supervisor carries out.
func supervisorOps() []watchdog.Op {
	return []watchdog.Op{watchdog.OpStop, watchdog.OpKill, watchdog.OpRestart, watchdog.OpDump}
}

// obey carries a command out on a session that is supervised here, and says what
// became of it. It never touches another execution than the one that is meant.
// A dump is sent by back; nil: it is read where it was taken.
func (s *supervising) obey(ctx context.Context, c watchdog.Command, back dumpSender) (f watchdog.Fate, detail string, g watchdog.Generation) {
	st, err := s.Session(c.Session)
	if err != nil {
		return watchdog.FateRefused, err.Error(), c.Generation
	}
	if why, ok := c.Meant(st.Generation, st.BootID); !ok {
		return watchdog.FateLostRace, why, c.Generation
	}
	target := process.Target{ID: c.Session, Generation: st.Generation}
	began := time.Now()
	switch c.Op {
	case watchdog.OpStop:
		st, err = s.Stop(ctx, target)
	case watchdog.OpKill:
		st, err = s.Kill(ctx, target)
	case watchdog.OpRestart:
		if st, err = s.Restart(ctx, target); err == nil && st.PID == 0 {
			return watchdog.FateIneffective, "it was ended, and nothing runs: " + st.Detail, c.Generation
		}
	case watchdog.OpDump:
		return s.obeyDump(ctx, target, c.ID, back)
	default:
		return watchdog.FateRefused, "a supervisor does not take this command", c.Generation
	}
	switch {
	case errors.Is(err, process.ErrOtherGeneration), errors.Is(err, process.ErrNotRunning):
		return watchdog.FateLostRace, err.Error(), c.Generation
	case errors.Is(err, process.ErrSurvives):
		return watchdog.FateIneffective, fmt.Sprintf("%s; left: %v", err, st.Survivors), c.Generation
	case err != nil:
		return watchdog.FateTimedOut, "its end was not verified: " + err.Error(), c.Generation
	case c.Op == watchdog.OpRestart:
		return watchdog.FateEffective, fmt.Sprintf("%s runs as pid %d after %s", generation(st.Generation), st.PID, spell(time.Since(began))), target.Generation
	}
	return watchdog.FateEffective, fmt.Sprintf("%s after %s", endOf(&st), spell(time.Since(began))), target.Generation
}

// endOf tells how the last run of a session ended.
func endOf(st *process.Status) string {
	if st.LastExit.Signal != 0 {
		return fmt.Sprintf("signal %d", st.LastExit.Signal)
	}
	return fmt.Sprintf("exit status %d", st.LastExit.Code)
}

func (s *supervising) obeyDump(ctx context.Context, t process.Target, command string, back dumpSender) (watchdog.Fate, string, watchdog.Generation) {
	c, err := s.Dump(ctx, t)
	switch {
	case errors.Is(err, process.ErrOtherGeneration), errors.Is(err, process.ErrNotRunning):
		return watchdog.FateLostRace, err.Error(), t.Generation
	case err != nil:
		return watchdog.FateRefused, err.Error(), t.Generation
	case c.Method == "":
		why := "nothing was had"
		for _, step := range c.Steps {
			why += "; " + step.Method + ": " + step.Detail
		}
		return watchdog.FateIneffective, why, t.Generation
	}
	detail := fmt.Sprintf("%s, %d bytes, by %s", c.Kept, len(c.Text), c.Method)
	if c.Culprit != "" {
		detail += ", " + c.Culprit
	}
	if back != nil {
		if err := sendDump(ctx, s.dumps, back, c, command); err != nil {
			s.log.Warn("a dump could not be sent to who asked for it", "session", t.ID, "command", command, "kept", c.Kept, "error", err)
			detail += "; it stands here alone, for it could not be sent: " + err.Error()
		}
	}
	return watchdog.FateEffective, detail, t.Generation
}

const hereWay = "here"

// here is the way of commands to sessions that this process supervises.
type here struct {
	children func() *supervising // nil: nothing is supervised
	by       string
	clock    watchdog.Clock
}

// WayName is the word for people.
func (h here) WayName() string { return hereWay }

// Carries reports whether a session is supervised here.
func (h here) Carries(id watchdog.ID) bool {
	children := h.children()
	if children == nil {
		return false
	}
	_, err := children.Session(id)
	return err == nil
}

// Carry carries a command out.
func (h here) Carry(ctx context.Context, c watchdog.Command, heard func(watchdog.Answer)) (watchdog.Answer, error) {
	a := watchdog.Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: watchdog.FateAcknowledged, By: h.by, At: h.now()}
	heard(a)
	a.Fate, a.Detail, a.Generation = h.children().obey(ctx, c, nil)
	a.At = h.now()
	return a, nil
}

// Conclude has nobody to tell.
func (h here) Conclude(_ context.Context, a watchdog.Answer) (watchdog.Answer, error) { return a, nil }

func (h here) now() time.Time { return time.Unix(0, h.clock.Now().Wall).UTC() }

// receive obeys the commands that come over a bus for every session that is
// supervised here, until ctx ends and what was begun is answered.
func (s *supervising) receive(ctx context.Context, inbox watchdog.CommandInbox) {
	back, _ := inbox.(dumpSender)
	take := func(ctx context.Context, d watchdog.Delivery) { s.takeDelivery(ctx, d, back) }
	var running sync.WaitGroup
	if bus, ok := inbox.(dumpKeeping); ok {
		running.Go(func() { s.taken.carry(ctx, bus, s.dumps, s.over) })
	}
	for _, st := range s.Sessions() {
		running.Go(func() {
			err := inbox.Receive(ctx, st.ID, supervisorOps(), take)
			if err != nil && ctx.Err() == nil {
				s.log.Warn("commands are not received", "session", st.ID, "error", err)
			}
		})
	}
	running.Wait()
}

// takeDelivery carries one command out and answers it. Its sender hears in
// between that this goes on.
func (s *supervising) takeDelivery(ctx context.Context, d watchdog.Delivery, back dumpSender) {
	c := d.Command()
	_ = d.Acknowledge(ctx, "") // who did not hear it sends again
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(obeyWord)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				_ = d.Acknowledge(ctx, "it goes on")
			}
		}
	}()
	f, detail, _ := s.obey(context.WithoutCancel(ctx), c, back) // whoever ends us ends the child
	close(done)
	answering, cancel := context.WithTimeout(context.WithoutCancel(ctx), obeyAnswer)
	defer cancel()
	a, err := d.Finish(answering, f, detail)
	if err != nil {
		s.log.Warn("the result of a command could not be told", "session", c.Session, "command", c.ID, "fate", f.String(), "error", err)
		return
	}
	s.log.Info("a command was carried out", "session", c.Session, "op", string(c.Op), "by", c.IssuedBy, "fate", a.Fate.String(), "detail", a.Detail)
}

// How often a sender hears that a long command goes on, and how long its result
// may take to be told, which a process that ends waits for.
const (
	obeyWord   = 20 * time.Second
	obeyAnswer = 5 * time.Second
)
