package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Loop is the script time after which the story repeats.
const Loop = time.Minute

// Bus says where an agent publishes.
type Bus uint8

// The buses of the demo.
const (
	NATS Bus = 1 << iota
	Redis
	Both = NATS | Redis
)

// Voice is how much an agent says in a beat.
type Voice uint8

// The voices of the fleet.
const (
	Plain    Voice = iota // the five fields that every producer sends
	Guarded               // everything, like an agent with a guard inside
	Numbered              // the five fields and a generation
)

// Agent is what does not change about a simulated agent.
type Agent struct {
	ID       string
	Worker   string // agent_id
	Host     string
	PID      int
	Voice    Voice
	Buses    Bus
	Interval time.Duration // script time between two beats
	Phase    time.Duration // of its beats inside the interval
	Takes    []watchdog.Op // the commands that it carries out

	star *star // nil: one of the crowd; without an id: one of the flock
	work work
	dice dice
}

// Star reports whether the agent has a part of its own in the story. The beats
// of a star follow each of its changes at once.
func (a *Agent) Star() bool { return a.star != nil && a.star.id != "" }

// Moment is what an agent says, or would say, at one moment of script time.
// Durations are script time too.
type Moment struct {
	Buses    Bus  // that its beat reaches; 0: it is not heard
	Evicted  bool // its Redis key was evicted and is not written again
	Run      int  // execution, from 1; a new one has a new boot id
	State    string
	Uptime   time.Duration
	Credits  float64 // NaN none
	Task     string
	Idle     time.Duration // age of the last activity
	Lag      time.Duration // of its event loop
	Wait     string        // "" none
	WaitMax  time.Duration
	StallMax time.Duration // its own stall timeout; 0 it has none
	Message  string
}

// Ended reports whether the moment is the end of an execution.
func (m *Moment) Ended() bool { return m.State == "completed" || m.State == "error" }

// Script is the whole story: pure, and the same for the same seed, number of
// agents and speed.
type Script struct {
	agents   []Agent
	dice     dice
	interval time.Duration
}

const (
	stallTimeout = 10 * time.Second // of the policy

	// calmInterval is the shortest one of agents that both buses carry and that
	// shall look well: with it, silence on a bus takes longer to count (2.4
	// intervals) than blindness does (10 s), so that the time in which we go
	// blind accuses nobody.
	calmInterval = 5 * time.Second
	// briskInterval is that of agents whose trouble is not to be waited for.
	briskInterval = 2 * time.Second

	beatsASecond  = 4000 // of the crowd at most, in real time, whatever its size
	keysAtMost    = 5000 // of the crowd in Redis
	smallestFlock = 30   // agents from which on a mass silence is played
	takersAtMost  = 100  // who take commands: each costs the server a consumer
)

// NewScript writes the story for n agents (at least 1). Speed is how many
// seconds of script pass in a real one.
func NewScript(seed uint64, n int, speed float64) *Script {
	s := &Script{dice: dice(seed).name("demo")}
	s.interval = max(calmInterval, time.Duration(float64(n)*speed/beatsASecond*float64(time.Second)))
	s.agents = make([]Agent, 0, n)
	taken := make(map[string]bool, n)
	trades := jobs()
	flock := flockSize(n)
	for _, st := range cast(speed) {
		if len(s.agents) < n {
			s.agents = append(s.agents, s.starring(st, trades[st.job]))
			taken[st.id] = true
		}
	}
	for i := 0; len(s.agents) < n; i++ {
		var a Agent
		if i < flock {
			a = s.flocking(i, trades["work"])
		} else {
			a = s.crowd(i, n, trades)
		}
		if !taken[a.ID] {
			taken[a.ID] = true
			s.agents = append(s.agents, a)
		}
	}
	s.letTake()
	return s
}

// letTake says who takes commands: those who have a guard, the first ones first.
// The one that is going to block its loop has no thread that could end it.
func (s *Script) letTake() {
	takers := 0
	for i := range s.agents {
		a := &s.agents[i]
		if a.Voice != Guarded || takers >= takersAtMost {
			continue
		}
		takers++
		a.Takes = []watchdog.Op{watchdog.OpStop, watchdog.OpKill, watchdog.OpRestart, watchdog.OpDump}
		if a.work.job.name == "gateway" {
			a.Takes = []watchdog.Op{watchdog.OpStop, watchdog.OpDump}
		}
	}
}

// Agents lists everybody who plays.
func (s *Script) Agents() []Agent { return s.agents }

// Interval is the script time between two beats of the crowd.
func (s *Script) Interval() time.Duration { return s.interval }

// At is what agent i says at script time t, which is not below 0.
func (s *Script) At(i int, t time.Duration) Moment {
	a := &s.agents[i]
	m := Moment{Buses: a.Buses, State: "running"}
	if a.star != nil {
		a.star.play(a, &m, t)
		return m
	}
	a.crowdAt(&m, t)
	return m
}

// Calm is what agent i would say at script time t if it were never in trouble and
// never came to an end.
func (s *Script) Calm(i int, t time.Duration) Moment {
	a := &s.agents[i]
	m := Moment{Buses: a.Buses}
	a.working(&m, t)
	m.State = "running"
	return m
}

// starring casts one of the parts. All of them speak when the curtain rises.
func (s *Script) starring(st star, j *job) Agent {
	d := s.dice.name(st.id)
	a := Agent{ID: st.id, Voice: st.voice, Buses: st.buses, Interval: st.interval, star: &st, dice: d}
	a.work = newWork(d, j, a.Interval)
	switch {
	case !st.mortal:
		a.work.length = 0 // its story must not be cut by the end of its job
	case a.work.length > 0:
		a.work.since /= 3 // far from its end when the curtain rises
	}
	a.place(st.host)
	return a
}

// flockSize is how many fall silent together: enough to be a group among n.
func flockSize(n int) int {
	if n < smallestFlock {
		return 0
	}
	return max(8, n/40)
}

// flocking is one of those who fall silent together: their host goes.
func (s *Script) flocking(i int, j *job) Agent {
	a := Agent{ID: fmt.Sprintf("worker-%04d", 201+i), Voice: Guarded, Buses: NATS, Interval: briskInterval, star: &star{play: gone(flockFrom, flockTo)}}
	a.dice = s.dice.name(a.ID)
	a.Phase = a.dice.name("phase").span(0, a.Interval)
	a.work = newWork(a.dice, j, a.Interval)
	a.place("eu2-07")
	return a
}

// crowd is one of those who make up the numbers.
func (s *Script) crowd(i, n int, trades map[string]*job) Agent {
	d := s.dice.name("crowd").with(uint64(i))
	name := pick(d.name("trade"), []string{"batch", "batch", "batch", "crawl", "crawl", "research", "research",
		"chat", "chat", "chat", "code", "etl", "triage", "embed", "work"})
	j := trades[name]
	a := Agent{ID: crowdID(j, d, i), Interval: s.interval, Buses: Both, dice: d}
	switch share := d.name("voice").unit(); {
	case share < 0.45:
		a.Voice = Guarded
	case share < 0.55:
		a.Voice = Numbered
	}
	if d.name("buses").unit() < max(0.2, 1-float64(keysAtMost)/float64(n)) {
		a.Buses = NATS
	}
	a.Phase = d.name("phase").span(0, a.Interval)
	a.work = newWork(d, j, a.Interval)
	a.place("")
	return a
}

func crowdID(j *job, d dice, i int) string {
	id := fmt.Sprintf(j.id, i+1)
	return strings.ReplaceAll(id, "{hex}", fmt.Sprintf("%04x", d.name("hex").below(1<<16)))
}

// place gives an agent its machine and process.
func (a *Agent) place(host string) {
	if a.Host = host; host == "" {
		a.Host = pick(a.dice.name("host"), []string{"eu1-01", "eu1-02", "eu1-03", "eu2-05", "eu2-06", "us1-01", "us1-02"})
	}
	a.PID = 1000 + a.dice.name("pid").below(60000)
	a.Worker = fmt.Sprintf("%s/%d", a.Host, a.PID%90+10)
}

// crowdAt plays one of the crowd: it works, ends well or (rarely) not, and
// waits for tools and limits now and then.
func (a *Agent) crowdAt(m *Moment, t time.Duration) {
	s := a.work.at(t)
	a.work.describe(m, s)
	if a.Voice == Guarded {
		m.StallMax = 4 * a.Interval
	}
	d := a.dice.name("run").with(uint64(s.run))
	if s.ended {
		m.State = "completed"
		if d.name("fails").unit() < 0.02 {
			m.State, m.Message = "error", "exit status 1: upstream closed the stream"
		}
		return
	}
	if a.Voice != Guarded {
		return
	}
	episode := a.dice.name("episode").with(uint64(t / Loop))
	from := episode.name("from").span(0, Loop/2)
	since := t%Loop - from
	if since < 0 || since > episode.name("for").span(5*time.Second, 20*time.Second) {
		return
	}
	switch share := episode.unit(); {
	case share < 0.03:
		m.Wait, m.WaitMax, m.Task = "tool", 5*time.Minute, "tool sandbox.run, queued"
	case share < 0.045:
		m.Wait, m.WaitMax, m.Task = "rate_limit", 2*time.Minute, "model busy, next try soon"
	default:
		return
	}
	m.Idle = since
}
