package process

import (
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// member names one process for as long as the machine is up: its number may be
// given again, but not with the same start.
type member struct {
	pid   int
	start uint64
}

// maxKnown bounds what is remembered of one run: a fork bomb is found by its
// group.
const maxKnown = 10_000

// strangeZombie is how long an ended child of ours that belongs to no run may
// wait for whoever started it before we reap it as an orphan.
const strangeZombie = 2 * time.Second

// execTime is how long a young process may show none of its environment, or a
// part, because it is about to run another program. Until then it cannot be told
// that it is of no run.
const execTime = 2 * time.Second

var errNoEnvironment = errors.New("no environment is shown of it")

// processTable finds what belongs to each run, wherever it went: by process
// group and session, by ancestry, by what was its descendant when it was last
// looked at, and by the mark in the environment of orphans that became our own
// children. It reaps those orphans, one by one and only those.
type processTable struct {
	self    int // our pid
	session int // our own session: what is in it was started by other code
	adopts  bool

	mu       sync.Mutex
	runs     map[int]map[member]bool // root: descendants that were seen
	sessions map[int]bool            // of what was seen of runs, as long as anything is in them
	marks    map[member]string       // of orphans
	strange  map[member]time.Time    // ended children of ours that belong to no run: since when
	all      []processStat           // of the newest look
	looked   time.Time               // when it began
	unsure   bool                    // the last look met an orphan that cannot be told yet
	usage    map[member]uint64       // CPU ticks at the last sample
	sampled  time.Time
}

func newProcessTable() *processTable {
	return &processTable{
		self: os.Getpid(), session: sessionOf(), adopts: adoptOrphans(true),
		runs: map[int]map[member]bool{}, sessions: map[int]bool{}, marks: map[member]string{},
		strange: map[member]time.Time{}, usage: map[member]uint64{},
	}
}

// close gives orphans back to the system, once those that ended are reaped.
func (t *processTable) close() {
	for begun := time.Now(); time.Since(begun) < 2*strangeZombie; time.Sleep(slowLook) {
		t.sample(nil)
		if len(t.strange) == 0 {
			break
		}
	}
	if t.adopts {
		adoptOrphans(false)
	}
}

// own tells that root is a child that somebody waits for.
func (t *processTable) own(root int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[root] = map[member]bool{}
}

// disown tells that root was reaped.
func (t *processTable) disown(root int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, root)
}

// members gives the live processes of a run, its leader among them if it lives;
// those in grouped are known to belong to it. sure is false if there are others
// that cannot be told yet.
func (t *processTable) members(root int, mark string, grouped []int) (out []member, sure bool) {
	asked := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.look(asked)
	if err != nil {
		return nil, true
	}
	t.unsure = false
	for _, p := range t.runOf(root, mark, all, grouped) {
		if !p.ended() {
			out = append(out, member{p.pid, p.start})
		}
	}
	t.reapOrphans(all)
	return out, !t.unsure
}

// look lists all processes as they are at asked or later. It is called under the
// lock: looks do not overlap, because an older one would forget what a newer one
// has seen, and those who waited for the same one share it.
func (t *processTable) look(asked time.Time) ([]processStat, error) {
	if t.looked.After(asked) {
		return t.all, nil
	}
	began := time.Now()
	all, err := listProcesses()
	if err != nil {
		return nil, err
	}
	t.all, t.looked = all, began
	return all, nil
}

// runOf gives what belongs to a run out of all processes, and remembers it.
func (t *processTable) runOf(root int, mark string, all []processStat, grouped []int) []processStat {
	known := t.runs[root]
	children := map[int][]processStat{}
	var queue []processStat
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		switch {
		case p.pid == t.self:
		case p.pid == root, p.group == root, p.session == root, known[member{p.pid, p.start}], slices.Contains(grouped, p.pid), t.marked(p, mark):
			queue = append(queue, p)
		}
	}
	seen := map[int]bool{}
	var out []processStat
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if seen[p.pid] || p.pid == t.self {
			continue
		}
		seen[p.pid] = true
		out = append(out, p)
		queue = append(queue, children[p.pid]...)
		if p.session != t.session {
			t.sessions[p.session] = true
		}
		if known != nil && len(known) < maxKnown {
			known[member{p.pid, p.start}] = true
		}
	}
	return out
}

// marked reports whether an orphan carries the mark of a run in its environment.
// One that left its group, its parent and its environment between two looks is
// not found: it cannot be told from what other code of ours started.
func (t *processTable) marked(p processStat, mark string) bool {
	if mark == "" || p.session == t.session || t.isRoot(p.pid) || p.ended() {
		return false
	}
	if t.adopts && p.parent != t.self || !t.adopts && p.parent != 1 {
		return false
	}
	key := member{p.pid, p.start}
	its, ok := t.marks[key]
	if !ok {
		var err error
		its, err = markOf(p.pid)
		if err != nil && !errors.Is(err, errNoEnvironment) {
			return false
		}
		if its == "" && ageOf(p.start) < execTime {
			// Our own program is a child that is being started.
			t.unsure = t.unsure || !runsOurs(p.pid)
			return false
		}
		t.marks[key] = its
	}
	return its == mark
}

func (t *processTable) isRoot(pid int) bool {
	_, ok := t.runs[pid]
	return ok
}

// reapOrphans takes the exit status of ended children that nobody else waits
// for: those of our runs at once, others once they were left lying for a while.
// A child in our own session is never touched; other code started it.
func (t *processTable) reapOrphans(all []processStat) {
	if !t.adopts {
		return
	}
	lying := map[member]time.Time{}
	live := map[member]bool{}
	peopled := map[int]bool{}
	for _, p := range all {
		key := member{p.pid, p.start}
		live[key], peopled[p.session] = true, true
		if p.state != 'Z' || p.parent != t.self || p.session == t.session || t.isRoot(p.pid) {
			continue
		}
		if t.sessions[p.session] || t.isRoot(p.session) || t.marks[key] != "" {
			reap(p.pid)
			continue
		}
		since, ok := t.strange[key]
		switch {
		case !ok:
			lying[key] = time.Now()
		case time.Since(since) < strangeZombie:
			lying[key] = since
		default:
			reap(p.pid)
		}
	}
	t.strange = lying
	for session := range t.sessions {
		if !peopled[session] {
			delete(t.sessions, session)
		}
	}
	for key := range t.marks {
		if !live[key] {
			delete(t.marks, key)
		}
	}
	for _, known := range t.runs {
		for key := range known {
			if !live[key] {
				delete(known, key)
			}
		}
	}
}

// belongs reports whether pid is a live member of the run, for a message that
// came from it.
func (t *processTable) belongs(pid, root int, mark string) bool {
	if pid <= 1 || root <= 1 {
		return false
	}
	for up, steps := pid, 0; up > 1 && steps < 64; steps++ {
		if up == root {
			return true
		}
		p, err := statOf(up)
		if err != nil {
			break
		}
		if p.group == root || p.session == root {
			return true
		}
		up = p.parent
	}
	its, err := markOf(pid)
	return err == nil && its != "" && its == mark
}

// signal signals one process, and only that.
func (t *processTable) signal(m member, sig syscall.Signal) {
	if m.pid <= 1 || m.pid == t.self {
		return
	}
	signalMember(m, sig)
}

// usageOf is what a run used: CPU as a share of one core since the last sample.
type usageOf struct {
	cpu       float64 // NaN: no earlier sample
	rss       int64   // bytes
	processes int
	members   []watchdog.Member // at most watchdog.MembersTold, the leader first
}

// run names a run to a sample.
type run struct {
	root    int
	mark    string
	grouped []int
}

// sample looks at all runs at once, and remembers what belongs to each.
func (t *processTable) sample(runs []run) map[int]usageOf {
	asked := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	all, err := t.look(asked)
	if err != nil {
		return nil
	}
	now := time.Now()
	since := now.Sub(t.sampled)
	first := t.sampled.IsZero()
	used := map[member]uint64{}
	out := map[int]usageOf{}
	for _, r := range runs {
		if !t.isRoot(r.root) {
			continue
		}
		var u usageOf
		var ticks uint64
		for _, p := range t.runOf(r.root, r.mark, all, r.grouped) {
			if p.ended() {
				continue
			}
			key := member{p.pid, p.start}
			total := p.user + p.system
			ticks += total - min(t.usage[key], total)
			used[key] = total
			u.rss += rssOf(p.pid)
			u.processes++
			u.name(p, r.root)
		}
		u.cpu = cpuShare(ticks, since, first)
		out[r.root] = u
	}
	t.usage, t.sampled = used, now
	t.reapOrphans(all)
	return out
}

// leftovers gives what is left of a run of a supervisor that was killed: its
// leader, if number and start are its own, what is still in its session, and
// what carries its mark.
func (t *processTable) leftovers(root int, start uint64, mark string, grouped []int) []member {
	all, err := listProcesses()
	if err != nil {
		return nil
	}
	// A number that another process has by now names no session any more.
	reused := slices.ContainsFunc(all, func(p processStat) bool { return p.pid == root && p.start != start })
	var out []member
	for _, p := range all {
		if p.ended() || p.pid == t.self || p.session == t.session || p.session == 0 || p.start < start {
			continue
		}
		its, err := markOf(p.pid)
		inSession := !reused && root > 1 && (p.session == root || p.group == root)
		switch {
		case p.pid == root && p.start == start, slices.Contains(grouped, p.pid),
			err == nil && mark != "" && its == mark,
			inSession && (err != nil || its == ""):
			out = append(out, member{p.pid, p.start})
		}
	}
	return out
}
