package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// mailbox is where an agent gets its commands from, and leaves its dumps.
type mailbox interface {
	watchdog.CommandInbox
	PublishDump(ctx context.Context, d wire.Dump) error
}

const (
	// stopGrace is how long an agent tries to stop, in real time.
	stopGrace = 5 * time.Second
	// answerWithin bounds how long the result of a command may take to be told.
	answerWithin = 5 * time.Second
	// freshFor is how young an execution is that the end of the one before it
	// does not concern, in script time.
	freshFor = 3 * time.Second
)

// onStage runs f between two steps, with the script time, and reports whether it
// did: it does not once the play is over.
func (t *troupe) onStage(ctx context.Context, f func(at time.Duration)) bool {
	done := make(chan struct{})
	select {
	case t.asides <- func(at time.Duration) { defer close(done); f(at) }:
		<-done
		return true
	case <-ctx.Done():
		return false
	}
}

// listen takes the commands to every agent that says it takes any, until ctx ends.
func (t *troupe) listen(ctx context.Context, wg *sync.WaitGroup) {
	for n := range t.script.agents {
		a, i := &t.script.agents[n], int32(n)
		if len(a.Takes) == 0 {
			continue
		}
		box := t.overNATS
		if a.Buses&NATS == 0 {
			box = t.overRedis
		}
		wg.Go(func() {
			err := box.Receive(ctx, watchdog.ID(a.ID), a.Takes, func(ctx context.Context, d watchdog.Delivery) { t.obey(ctx, i, box, d) })
			if err != nil && ctx.Err() == nil {
				t.log.Warn("an agent of the demo takes no commands", "session", a.ID, "error", err)
			}
		})
	}
}

// obey carries one command out and tells what became of it, as a guard would.
func (t *troupe) obey(ctx context.Context, i int32, box mailbox, d watchdog.Delivery) {
	if !t.reached(ctx, i) {
		return
	}
	_ = d.Acknowledge(ctx, "") // a word on the way; the result follows
	c := d.Command()
	var did deed
	if !t.onStage(ctx, func(at time.Duration) { did = t.act(i, &c, at) }) {
		return
	}
	if did.dump != nil {
		sending, cancel := context.WithTimeout(ctx, answerWithin)
		if err := box.PublishDump(sending, *did.dump); err != nil {
			did.fate, did.detail = watchdog.FateIneffective, "the dump could not be sent: "+err.Error()
		}
		cancel()
	}
	wait := time.NewTimer(did.after)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := d.Finish(ctx, did.fate, did.detail); err != nil {
		t.log.Warn("an agent of the demo could not tell the result of a command", "session", c.Session, "error", err)
	}
}

// reached waits until an agent can hear of a command: one that is away hears of it
// when it is back. It reports false if ctx ends first.
func (t *troupe) reached(ctx context.Context, i int32) bool {
	again := time.NewTicker(beatStep)
	defer again.Stop()
	for {
		hears := false
		if !t.onStage(ctx, func(at time.Duration) {
			m := t.moment(i, at)
			hears = m.Buses != 0 || t.parts[i].ended()
		}) {
			return false
		}
		if hears {
			return true
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
}

// ended reports whether its execution was ended by what was done to it.
func (p *part) ended() bool { return p.cue != nil && p.cue.over }

// deed is what an agent did with a command.
type deed struct {
	fate   watchdog.Fate
	detail string
	after  time.Duration // real time until that is told
	dump   *wire.Dump    // to be sent; nil: none
}

// act lets an agent carry a command out.
func (t *troupe) act(i int32, c *watchdog.Command, at time.Duration) deed {
	a, p := &t.script.agents[i], &t.parts[i]
	m := t.moment(i, at)
	if why, ok := c.Meant(0, a.boot(m.Run)); !ok {
		if c.BootID == "" {
			return deed{fate: watchdog.FateRefused, detail: why}
		}
		return deed{fate: watchdog.FateLostRace, detail: why}
	}
	if m.Ended() || p.ended() {
		return deed{fate: watchdog.FateLostRace, detail: "it has ended already"}
	}
	who := cmp.Or(c.IssuedBy, "an operator")
	switch c.Op {
	case watchdog.OpStop:
		if m.Lag >= time.Second {
			return deed{fate: watchdog.FateIneffective, after: stopGrace,
				detail: "its event loop is blocked and did not hear of it within " + stopGrace.String() + "; it goes on"}
		}
		t.exit(i, m, at, nextLoop(at), "stopped by "+who)
		return deed{fate: watchdog.FateEffective, detail: "it has ended: stopped by " + who}
	case watchdog.OpKill:
		t.exit(i, m, at, nextLoop(at), "")
		return deed{fate: watchdog.FateEffective, detail: fmt.Sprintf("pid %d is gone: signal 9", a.pid(m.Run))}
	case watchdog.OpRestart:
		t.exit(i, m, at, at+restartPause, "restarted by "+who)
		begins := time.Duration(float64(restartPause)/t.speed) + 2*beatStep
		return deed{fate: watchdog.FateEffective, after: begins, detail: fmt.Sprintf("it ended, and runs again as pid %d", a.pid(m.Run+1))}
	case watchdog.OpDump:
		dump := a.dump(&m, *c, time.Now().UTC())
		return deed{fate: watchdog.FateEffective, dump: &dump, detail: fmt.Sprintf("%d bytes by %s", len(dump.Text), dump.Method)}
	}
	return deed{fate: watchdog.FateRefused, detail: "this agent does not take this command"}
}

// exit ends the execution that says m; the next one begins at back. Without a
// message it has no time for a last beat.
func (t *troupe) exit(i int32, m Moment, at, back time.Duration, message string) {
	p := &t.parts[i]
	if message != "" {
		m.State, m.Message = "error", message
		t.say(i, &m, at)
	}
	p.over = true
	if p.cue == nil {
		p.cue = &cue{}
		if !t.script.agents[i].Star() {
			t.stars = append(t.stars, i) // what it does next is said at once
		}
	}
	p.cue.end(&m, back)
}

// ending is what an agent may read in the record of an execution's end.
type ending struct {
	ID      string `json:"session_id"`
	Outcome string `json:"outcome"`
}

// hearEnd tells an agent that its end was written without it. It may not know of
// that for a while.
func (t *troupe) hearEnd(ctx context.Context, msg *nats.Msg) {
	var e ending
	if err := json.Unmarshal(msg.Data, &e); err != nil || !strings.HasPrefix(msg.Subject, "agent.terminal."+e.ID+".") {
		return
	}
	i, known := t.byID[e.ID]
	if !known || e.Outcome != "lost" && e.Outcome != "expired" {
		return
	}
	t.onStage(ctx, func(at time.Duration) {
		p := &t.parts[i]
		if e.Outcome == "lost" && at-p.since < freshFor {
			return // it is the one before that was overtaken
		}
		p.settled, p.expired, p.late = p.run, e.Outcome == "expired", 0
	})
}

// isOver lets an execution whose end was written go on for a while, late, and
// then ends it; it reports whether it has ended now.
func (t *troupe) isOver(i int32, m *Moment, at time.Duration) bool {
	p := &t.parts[i]
	if p.settled == 0 || p.settled != m.Run || m.Buses == 0 || p.over {
		return false
	}
	switch {
	case p.late == 0:
		p.late = at
	case at-p.late < lateFor:
	case p.expired:
		t.exit(i, *m, at, nextLoop(at), "")
		return true
	default:
		t.exit(i, *m, at, at+restartPause, "")
		return true
	}
	return false
}
