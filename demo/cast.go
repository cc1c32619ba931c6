package demo

import (
	"fmt"
	"time"
)

// star is an agent with a part in the story.
type star struct {
	id       string
	host     string
	job      string
	voice    Voice
	buses    Bus
	interval time.Duration
	mortal   bool // its job ends and begins again, as in the crowd
	play     func(a *Agent, m *Moment, t time.Duration)
}

// The flock falls silent within these times of each loop.
const (
	flockFrom = 36 * time.Second
	flockTo   = 54 * time.Second
)

// ownStall is the stall timeout of the agent that accuses itself.
const ownStall = 8 * time.Second

// remoteInterval is the real time between two beats of the agents that Redis
// alone carries. It is long enough for the observer to notice that it is blind
// (10 s) before it could take them for silent.
const remoteInterval = 10 * time.Second

// cast lists the parts. The first nine show one verdict each that can be
// observed, so that a small demo shows as many as it has agents.
func cast(speed float64) []star {
	remote := time.Duration(float64(remoteInterval) * speed)
	return []star{
		{"indexer", "eu1-02", "embed", Guarded, Both, calmInterval, false, hang(1, 50)},
		{"gateway-eu1", "eu1-01", "gateway", Guarded, Both, briskInterval, false, wedge(3, 40)},
		{"team.a.job-1", "us1-01", "batch", Guarded, NATS, briskInterval, false, lost(3*time.Second, 42*time.Second, 42*time.Second)},
		{"crawler-0031", "eu1-03", "crawl", Guarded, Both, briskInterval / 2, false, evicted(2.4, 45)},
		{"approver-billing", "eu1-02", "triage", Guarded, Both, calmInterval, false, approval(56, 52, 8*time.Hour, "approve refund #1182")},
		{"research-88", "us1-02", "research", Guarded, Redis, remote, true, steady()},
		{"batch-job-def456", "eu1-01", "batch", Plain, Both, briskInterval, false, standstill(45)},
		{"report-weekly", "eu1-03", "batch", Guarded, Both, calmInterval, false, ends(40, 12, "completed", "")},
		{"etl-nightly", "eu1-02", "etl", Guarded, Both, briskInterval, false, ends(33, 9, "error", "exit status 1: schema mismatch in orders.parquet")},

		{"batch-job-0001", "eu1-01", "batch", Plain, Both, calmInterval, true, steady()},
		{"user:42:chat-eu-1f9c", "eu2-05", "chat", Guarded, Both, briskInterval, false, confesses(4, 44, "tool web.fetch docs.example.org")},
		{"ingest-eu2", "eu2-06", "work", Guarded, Both, briskInterval / 2, false, halfHeard(28, 52)},
		{"research-89", "us1-02", "research", Guarded, Redis, remote, true, steady()},
		{"mailer-digest", "eu1-03", "triage", Guarded, Both, calmInterval, false, pausing(5, 25, "rate_limit", time.Minute, "model busy, next try soon")},
		{"summarizer-12", "us1-01", "research", Guarded, Both, calmInterval, false, pausing(14, 34, "tool", 2*time.Minute, "tool sandbox.run, queued")},
		{"approver-legal", "eu1-02", "triage", Guarded, Both, calmInterval, false, approval(1, 40, 5*time.Second, "approve contract 7731")},
		{"support-triage", "eu2-05", "triage", Guarded, Both, calmInterval, false, overspends(45, 30)},
		{"planner-7", "us1-01", "research", Plain, Both, calmInterval, false, freeWords()},
		{"indexer-blue", "eu1-02", "embed", Numbered, Both, calmInterval, true, steady()},
		{"vector-sync", "eu2-06", "embed", Guarded, NATS, briskInterval, false, lost(10*time.Second, 28*time.Second, 36*time.Second)},
		{"research-90", "us1-02", "research", Guarded, Redis, remote, true, steady()},
	}
}

// script is seconds of script time.
func script(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// act is where a part stands: how long ago its trouble of this loop began.
// Stars do not all move at once: each trouble comes up to 0.7 s late, by the
// dice. The trouble may reach over the end of a loop.
func (a *Agent) act(t, from, to time.Duration) (since time.Duration, on bool) {
	loop := int64(t / Loop)
	if t%Loop < from {
		loop--
	}
	begin := a.begins(loop, from)
	if to <= from {
		to += Loop
	}
	since = t - begin
	return since, since >= 0 && since < to-from
}

// begins is when the trouble of a loop begins.
func (a *Agent) begins(loop int64, from time.Duration) time.Duration {
	return time.Duration(loop)*Loop + from + a.dice.name("late").with(uint64(loop+1)).span(0, 700*time.Millisecond)
}

// working is the agent without its trouble.
func (a *Agent) working(m *Moment, t time.Duration) {
	s := a.work.at(t)
	a.work.describe(m, s)
	if s.ended {
		m.State = "completed"
	}
	if a.Interval >= stallTimeout && a.Voice == Guarded {
		m.StallMax = 4 * a.Interval // it must not look stalled between two beats
	}
}

// frozen is an agent that stopped working some time ago and still lives.
func (a *Agent) frozen(m *Moment, t, since time.Duration) {
	a.working(m, t-since)
	m.State = "running"
	m.Uptime += since
	m.Idle += since
}

// steady works on.
func steady() func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) { a.working(m, t) }
}

// hang stops working and does not know it: it says what its last activity was,
// and the observer counts.
func hang(from, to float64) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		if since, on := a.act(t, script(from), script(to)); on {
			a.frozen(m, t, since)
			return
		}
		a.working(m, t)
	}
}

// confesses hangs as well, but has a watchdog of its own that says so. It does
// not refresh its Redis key then.
func confesses(from, to float64, task string) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		m.StallMax = ownStall
		hung, on := a.act(t, script(from)-ownStall+Loop, script(to))
		if !on {
			a.working(m, t)
			return
		}
		a.frozen(m, t, hung)
		m.Task = task
		if m.Idle >= ownStall {
			m.State = "stalled"
			m.Buses &^= Redis
		}
	}
}

// wedge blocks its event loop; the beats come from another thread.
func wedge(from, to float64) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		since, on := a.act(t, script(from), script(to))
		if !on {
			a.working(m, t)
			m.Lag = a.dice.with(uint64(t/time.Second)).span(0, 9*time.Millisecond)
			return
		}
		a.frozen(m, t, since)
		m.Task, m.Lag = "rebuilding index 4711", since
	}
}

// lost is away for so long that its execution is settled. From late on it is heard
// again and does not know that; from next on another execution of it runs.
func lost(from, late, next time.Duration) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		a.working(m, t)
		loop := int64(t / Loop)
		if t%Loop < from {
			loop--
		}
		begin, length := a.begins(loop, from), next-from
		up := t - a.begins(loop-1, from) - length
		m.Run = int(loop) + 1
		switch {
		case t >= begin+length:
			m.Run, up = m.Run+1, t-begin-length
		case t >= begin && t < begin+late-from:
			m.Buses = 0
		}
		if m.Run > 1 {
			m.Uptime, m.Idle, m.Credits = up, min(m.Idle, up), a.work.credits(up)
		}
	}
}

// gone is not heard for a while: the way to it. Its executions go on.
func gone(from, to time.Duration) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		a.working(m, t)
		if _, on := a.act(t, from, to); on {
			m.Buses = 0
		}
	}
}

// evicted goes on over NATS while Redis gave its key up.
func evicted(from, to float64) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		a.working(m, t)
		if _, on := a.act(t, script(from), script(to)); on {
			m.Buses &^= Redis
			m.Evicted = true
		}
	}
}

// halfHeard goes on over Redis while its NATS connection is lost.
func halfHeard(from, to float64) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		a.working(m, t)
		if _, on := a.act(t, script(from), script(to)); on {
			m.Buses &^= NATS
		}
	}
}

// approval asks a person, for longer than it said if the maximum is short.
func approval(from, to float64, longest time.Duration, task string) func(*Agent, *Moment, time.Duration) {
	const before = 6*time.Hour + 2*time.Minute // how long a long one has been waiting
	return func(a *Agent, m *Moment, t time.Duration) {
		since, on := a.act(t, script(from), script(to))
		if on {
			a.frozen(m, t, since)
			m.Task, m.Wait, m.WaitMax = task, "human", longest
		} else {
			a.working(m, t)
		}
		if longest <= before {
			return
		}
		m.Uptime += before // whether it waits or not: an uptime never steps back
		if on {
			m.Idle += before
		}
	}
}

// pausing declares a wait and keeps to it.
func pausing(from, to float64, what string, longest time.Duration, task string) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		since, on := a.act(t, script(from), script(to))
		if !on {
			a.working(m, t)
			return
		}
		a.frozen(m, t, since)
		m.Task, m.Wait, m.WaitMax = task, what, longest
	}
}

// standstill beats and shows nothing new until a moment of each loop, and then
// goes on where it stopped.
func standstill(until float64) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		a.working(m, t)
		m.State, m.Run, m.Uptime = "running", 1, 142*time.Second+t
		const perStep = 3 * time.Second
		done := int(t/Loop)*int((Loop-script(until))/perStep) + int(max(0, t%Loop-script(until))/perStep)
		m.Task = fmt.Sprintf("Processing chunk %d/%d", 47+done%150, 200)
		m.Credits = max(0, 8.43-0.02*float64(done%150))
	}
}

// ends comes to its end in each loop and begins again as a new execution.
func ends(begin, end float64, state, message string) func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		up, on := a.act(t, script(begin), script(end))
		length := script(end) - script(begin) + Loop
		run := 1 + int((t+Loop-script(begin))/Loop)
		if !on && t%Loop >= script(begin) {
			run-- // the new one is a moment late
		}
		left := min(up, length)
		if up < 0 {
			left = length
		}
		a.working(m, t)
		m.Run, m.Uptime, m.State = run, left, "running"
		const total = 200
		step := int(float64(total) * float64(left) / float64(length))
		m.Task = fmt.Sprintf("Processing chunk %d/%d", max(1, step), total)
		if a.work.budget > 0 {
			m.Credits = a.work.credits(left)
		}
		if !on {
			m.State, m.Message = state, message
		}
	}
}

// overspends burns its budget up in each loop; its guard warns and ends it.
func overspends(begin, end float64) func(*Agent, *Moment, time.Duration) {
	play := ends(begin, end, "error", "budget exhausted: 10.00 of 10.00 credits spent")
	return func(a *Agent, m *Moment, t time.Duration) {
		play(a, m, t)
		length := script(end) - script(begin) + Loop
		spent := min(1, float64(m.Uptime)/float64(length))
		m.Credits = float64(int((1-spent)*1000)) / 100
		m.Task = fmt.Sprintf("ticket #%d: drafting answer", 4000+int(m.Uptime/(3*time.Second)))
		if !m.Ended() && spent >= 0.8 {
			m.Message = "budget: over 80 % of 10.00 credits spent"
		}
	}
}

// freeWords publishes states that are words of its own.
func freeWords() func(*Agent, *Moment, time.Duration) {
	return func(a *Agent, m *Moment, t time.Duration) {
		a.working(m, t)
		if !m.Ended() {
			m.State = pick(a.dice.name("word").with(uint64(t/(4*time.Second))), []string{"planning", "acting", "reflecting"})
		}
	}
}
