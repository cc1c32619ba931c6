package demo

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// job is a kind of work that agents do: how they are called, what stands in
// current_task, how long a step takes and what it costs.
type job struct {
	name    string
	id      string // format of the id, with the number of the agent
	pace    [2]time.Duration
	length  [2]time.Duration // of one execution; a service goes on for ever
	service bool
	burn    [2]float64 // credits a minute; 0, 0: no budget
	tasks   []string   // see job.task
}

// jobs are the trades of the fleet. A star of the cast names one as well.
func jobs() map[string]*job {
	all := map[string]*job{
		"batch": {
			id:   "batch-job-%04d",
			pace: seconds(1.5, 4), length: minutes(4, 15), burn: [2]float64{0.05, 0.2},
			tasks: []string{"Processing chunk {step}/{of}"},
		},
		"crawl": {
			id: "crawler-%04d", service: true,
			pace: seconds(1.5, 5), burn: [2]float64{0.01, 0.06},
			tasks: []string{"tool web.fetch {site}", "tool web.fetch {site}/archive", "parsing {site}, {n} links", "deduplicating {n} pages"},
		},
		"research": {
			id:   "research-%03d",
			pace: seconds(2, 6), length: minutes(6, 20), burn: [2]float64{0.15, 0.6},
			tasks: []string{"tool web.search \"{topic}\"", "reading source {step}/{of}: {site}", "comparing notes on {topic}", "drafting section {step}/{of}"},
		},
		"embed": {
			id: "embedder-%02d", service: true,
			pace: seconds(2, 4), burn: [2]float64{0.08, 0.15},
			tasks: []string{"embedding batch {count}"},
		},
		"chat": {
			id:   "user:%d:chat-eu-{hex}",
			pace: seconds(1.5, 5), length: minutes(3, 9), burn: [2]float64{0.02, 0.12},
			tasks: []string{"reading the thread, {n} messages", "tool crm.lookup customer {n}", "tool web.fetch {site}", "drafting reply {step}"},
		},
		"code": {
			id:   "coder-%03d",
			pace: seconds(2, 6), length: minutes(5, 18), burn: [2]float64{0.2, 0.9},
			tasks: []string{"go test ./internal/{module}", "editing {module}/{module}.go", "tool shell.run make {module}", "reviewing diff {step}/{of}"},
		},
		"etl": {
			id:   "etl-%03d",
			pace: seconds(1.5, 4), length: minutes(4, 12),
			tasks: []string{"loading orders part {step}/{of}", "loading refunds part {step}/{of}"},
		},
		"triage": {
			id: "triage-%03d", service: true,
			pace: seconds(2, 5), burn: [2]float64{0.05, 0.2},
			tasks: []string{"ticket #{n}: reading", "ticket #{n}: tool kb.search", "ticket #{n}: drafting answer"},
		},
		"work": {
			id: "worker-%04d", service: true,
			pace:  seconds(1.5, 4),
			tasks: []string{"Processing item {count}", "tool store.write {count}"},
		},
		"gateway": {
			id: "gateway-%02d", service: true,
			pace:  seconds(1, 3),
			tasks: []string{"routing request {count}", "rebuilding index {count}"},
		},
	}
	for name, j := range all {
		j.name = name
	}
	return all
}

func seconds(from, to float64) [2]time.Duration {
	return [2]time.Duration{time.Duration(from * float64(time.Second)), time.Duration(to * float64(time.Second))}
}

func minutes(from, to float64) [2]time.Duration { return seconds(from*60, to*60) }

var sites = [...]string{"docs.example.org", "news.example.com", "shop.example.net", "wiki.example.org", "api.example.com", "papers.example.edu"}
var topics = [...]string{"battery recycling", "tidal power", "grain prices", "rail freight", "heat pumps", "open data law"}
var modules = [...]string{"parser", "ledger", "router", "search", "billing", "cache"}

// task is what the agent works on in its step, out of steps.
func (j *job) task(d dice, step, of int) string {
	at := d.with(uint64(step))
	text := pick(at.name("kind"), j.tasks)
	out := make([]byte, 0, 64)
	for {
		before, rest, found := strings.Cut(text, "{")
		out = append(out, before...)
		if !found {
			return string(out)
		}
		name, after, _ := strings.Cut(rest, "}")
		out = appendDetail(out, name, d, at, step, of)
		text = after
	}
}

// appendDetail fills in one name of a task: d are the dice of the execution,
// at those of the step.
func appendDetail(out []byte, name string, d, at dice, step, of int) []byte {
	number := func(n int) []byte { return strconv.AppendInt(out, int64(n), 10) }
	switch name {
	case "step":
		return number(step)
	case "of":
		return number(of)
	case "count":
		return number(1000 + d.below(9000) + step)
	case "n":
		return number(20 + at.name("n").below(1980))
	case "site":
		return append(out, pick(at.name("site"), sites[:])...)
	case "topic":
		return append(out, pick(d.name("topic"), topics[:])...)
	case "module":
		return append(out, pick(at.name("module"), modules[:])...)
	}
	return append(out, name...)
}

// work is the working life of an agent without trouble.
type work struct {
	job    *job
	dice   dice
	pace   time.Duration // of a step
	steps  int           // of a job that counts them
	length time.Duration // of one execution; 0 for ever
	rest   time.Duration // between two executions
	since  time.Duration // script time at which the first one began, below 0
	budget float64       // at the start of each; NaN none
	burn   float64       // a minute
}

// newWork throws the dice for one agent. A rest is long enough for an end to
// be said even by agents that beat seldom.
func newWork(d dice, j *job, interval time.Duration) work {
	w := work{job: j, dice: d, budget: math.NaN()}
	w.pace = d.name("pace").span(j.pace[0], j.pace[1])
	if j.burn[1] > 0 {
		w.burn = d.name("burn").between(j.burn[0], j.burn[1])
	}
	if j.service {
		w.since = -d.name("since").span(20*time.Minute, 9*time.Hour)
		if w.burn > 0 {
			w.budget = w.burn * 60 * d.name("budget").between(10, 30)
		}
		return w
	}
	w.length = d.name("length").span(j.length[0], j.length[1])
	w.steps = max(1, int(w.length/w.pace))
	w.rest = d.name("rest").span(10*time.Second, 25*time.Second) + 5*interval/2
	w.since = -d.name("since").span(time.Minute, w.length)
	if w.burn > 0 {
		w.budget = w.burn*(w.length.Minutes()+60*d.name("budget").between(1, 4)) + 0.5 // far from an alert
	}
	return w
}

// shift is where the work stands at a moment.
type shift struct {
	run   int           // execution, from 1
	up    time.Duration // since it began
	ended bool          // it has come to its end
}

func (w *work) at(t time.Duration) shift {
	up := t - w.since
	if w.length == 0 {
		return shift{run: 1, up: up}
	}
	turn := w.length + w.rest
	s := shift{run: 1 + int(up/turn), up: up % turn}
	if s.up >= w.length {
		s.up, s.ended = w.length, true
	}
	return s
}

// describe fills in what an agent says of its work: task, credits, and the age
// of its last activity.
func (w *work) describe(m *Moment, s shift) {
	d := w.dice.name("run").with(uint64(s.run))
	step := int(s.up / w.pace)
	if w.steps > 0 {
		step = 1 + step%w.steps
	}
	if s.ended {
		step = w.steps
	}
	m.Run, m.Uptime = s.run, s.up
	m.Task = w.job.task(d, step, w.steps)
	m.Idle = s.up % (700 * time.Millisecond) // tokens and tool calls keep coming
	m.Credits = w.credits(s.up)
}

// credits are rounded down to what a billing system shows.
func (w *work) credits(up time.Duration) float64 {
	if math.IsNaN(w.budget) {
		return w.budget
	}
	return max(0, math.Floor((w.budget-w.burn*up.Minutes())*100)/100)
}
