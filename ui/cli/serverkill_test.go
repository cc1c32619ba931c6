//go:build linux && !race

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// killConfig is patient with a machine that does other things as well, and
// quick enough to see what dies between two kills of a server end.
const killConfig = `policy: {heartbeat_interval: 1s, redis_ttl: 4s, lost_after: 6s, sweep_interval: 2s, sweep_timeout: 10s, brake_hold: 10s}
registry: {interval: 2s, ttl: 10s, reap_interval: 1s}
`

// census is the truth: who lives, and which executions are over.
type census struct {
	mu      sync.Mutex
	alive   map[string]int       // generation of each that lives
	died    map[string]time.Time // when each did that does not live
	over    []life
	shut    [2]map[life]bool // that each serve showed as lost
	back    time.Time        // when a server came back last
	accused int              // samples in which somebody who lives was called silent or worse
	first   string           // the first of them
	revived []string
}

// life is one execution.
type life struct {
	id         string
	generation int
}

// seen is a row of `ls --json`.
type seen struct {
	ID         string `json:"session_id"`
	Generation int
	Verdict    string
	BeatAge    *float64 `json:"beat_age_secs"`
}

// since reports whether a beat came since a moment.
func (s *seen) since(at time.Time) bool {
	return s.BeatAge != nil && *s.BeatAge < time.Since(at).Seconds()
}

func (c *census) dies(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = append(c.over, life{id, c.alive[id]})
	c.died[id] = time.Now()
	delete(c.alive, id)
}

func (c *census) lives(id string, generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alive[id] = generation
	delete(c.died, id)
}

func (c *census) serverBack() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = time.Now()
	return c.back
}

// judge holds what a serve shows against the truth; empty: it is right. The
// second serve keeps no registry, so that nobody tells it of those who beat by
// HTTP alone.
func (c *census) judge(serve int, rows []seen) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var wrong []string
	found := 0
	for _, row := range rows {
		at, dead := c.died[row.ID] // zero: it lives
		if c.back.After(at) {
			at = c.back
		}
		generation, alive := c.alive[row.ID]
		untold := serve > 0 && strings.HasPrefix(row.ID, "http")
		switch {
		case alive && row.Generation == generation && (row.Verdict == "running" && row.since(c.back) || untold && row.Verdict == "unknown"):
			found++
		case dead && (untold || row.Verdict == "silent" || row.Verdict == "lost" || time.Since(at) < 4*time.Second):
			found++
		default:
			age := "no beat"
			if row.BeatAge != nil {
				age = fmt.Sprintf("%.1f s old", *row.BeatAge)
			}
			wrong = append(wrong, fmt.Sprintf("%s #%d %s, %s", row.ID, row.Generation, row.Verdict, age))
		}
	}
	if missing := len(c.alive) + len(c.died) - found - len(wrong); missing > 0 {
		wrong = append(wrong, fmt.Sprintf("%d are not shown", missing))
	}
	if len(wrong) > 5 {
		wrong = append(wrong[:5], fmt.Sprintf("and %d more", len(wrong)-5))
	}
	return strings.Join(wrong, ", ")
}

// sample looks for what must not be seen at any moment.
func (c *census) sample(serve int, rows []seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	accused := false
	for _, row := range rows {
		l := life{row.ID, row.Generation}
		switch {
		case row.Verdict == "lost":
			c.shut[serve][l] = true
		case c.shut[serve][l]:
			c.revived = append(c.revived, fmt.Sprintf("serve %d: %s #%d %s", serve+1, row.ID, row.Generation, row.Verdict))
		}
		if g, alive := c.alive[row.ID]; alive && g == row.Generation && row.Verdict != "running" && row.Verdict != "unknown" && row.Verdict != "quiet" {
			accused = true
			if c.first == "" {
				c.first = fmt.Sprintf("serve %d, %s: %s #%d %s", serve+1, time.Now().Format("15:04:05.0"), row.ID, row.Generation, row.Verdict)
			}
		}
	}
	if accused {
		c.accused++
	}
}

func (f *fleet) rows(i int) ([]seen, error) {
	out, err := f.ask(i, "ls", "--json")
	if err != nil {
		return nil, err
	}
	var rows []seen
	return rows, json.Unmarshal([]byte(out), &rows)
}

// beatsHTTP beats once a second until quit is closed, whatever is answered.
func (f *fleet) beatsHTTP(id string, quit <-chan struct{}) {
	token, err := os.ReadFile(filepath.Join(f.dirs[0], "token"))
	if err != nil {
		f.t.Error(err)
		return
	}
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	for {
		body := fmt.Sprintf(`{"session_id":%q,"timestamp":%d.0}`, id, time.Now().Unix())
		req, err := http.NewRequest(http.MethodPost, "http://"+f.listen[0]+"/heartbeat", strings.NewReader(body))
		if err != nil {
			f.t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		req.Header.Set("Content-Type", "application/json")
		if res, err := client.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusGone {
				f.t.Errorf("%s lives and is told that it is gone", id)
			}
		}
		select {
		case <-quit:
			return
		case <-time.After(time.Second):
		}
	}
}

// mortal is somebody who can be made to stop, and perhaps to come again.
type mortal struct {
	id   string
	stop func()
	next func() (stop func()) // a new execution; nil: there is none
}

// NATS and Redis killed again and again, one, the other and both, under 1,000
// sessions of which some stop for ever and some come again: each execution that
// is over has one record, none of the living has one, what is lost stays so, and
// each view is right, by beats that came since, 5 s after the server is back.
func TestKilledServersLoseNoEnd(t *testing.T) {
	waits(t)
	kills, victims, n := amount(1, 20), amount(3, 27), 1000
	f := fleetOf(t, killConfig, fmt.Sprintf("127.0.0.1:%d", sourcetest.FreePort(t)))
	c := &census{alive: map[string]int{}, died: map[string]time.Time{}, shut: [2]map[life]bool{{}, {}}}
	mortals := f.populate(c, n, victims, amount(1, 3))
	f.rightWithin(c, 30*time.Second) // everybody is numbered
	sampled := f.sampleAll(c)

	var worst time.Duration
	var gone []mortal
	rounds := 0
	for i := range kills {
		for _, servers := range [][]*sourcetest.Process{{f.natsServer}, {f.redisServer}} {
			if i%5 == 4 { // both at once, and what a second look shows
				servers = []*sourcetest.Process{f.natsServer, f.redisServer}
			}
			due := (rounds + 1) * len(mortals) / (2 * kills)
			dying := mortals[len(gone):due]
			half := len(dying) / 2
			c.end(&gone, dying[:half])
			for _, s := range servers {
				s.Kill(t)
			}
			time.Sleep(time.Duration(rounds%4) * time.Second)
			c.end(&gone, dying[half:])
			for _, s := range servers {
				s.Restart(t)
			}
			worst = max(worst, f.rightWithin(c, 5*time.Second*slack))
			if j := len(gone) - 4; rounds%3 == 0 && j >= 0 {
				c.again(&gone[j])
			}
			time.Sleep(2 * time.Second)
			rounds++
		}
	}
	f.eventually("whoever is over has its record", func() bool { return f.recorded(c) })
	time.Sleep(3 * time.Second) // nothing more comes
	f.rightWithin(c, 5*time.Second)
	samples := sampled()
	f.agree(c)
	sourcetest.Figure(t, "12, 13, 17, 22", fmt.Sprintf("nats-server and redis-server killed %d times each, 2 serves, %d sessions, 1 s beats, %d executions over", kills, len(c.alive)+len(c.died), len(c.over)),
		"one record of each that is over, none of the living; nobody revived; both views right 5 s after the server is back",
		fmt.Sprintf("%d records, the same in Redis; %d revived; right after %.1f s at worst; %d of %d samples accuse somebody who lives",
			len(f.ends()), len(c.revived), worst.Seconds(), c.accused, samples))
	if c.accused > 0 {
		t.Logf("accused first: %s", c.first)
	}
}

// populate starts everybody: n who beat by NATS and Redis, some by HTTP alone.
func (f *fleet) populate(c *census, n, victims, byHTTP int) (mortals []mortal) {
	lives := func(id string) { c.lives(id, 1) }
	startProducers(f.t, "steady", n-victims, f.nats, f.redis)
	for i := range n - victims {
		lives(fmt.Sprintf("steady-%05d", i))
	}
	for i := range victims {
		name := fmt.Sprintf("mortal%02d", i)
		id := name + "-00000"
		lives(id)
		start := func() func() { return startProducers(f.t, name, 1, f.nats, f.redis).stop }
		mortals = append(mortals, mortal{id, start(), start})
	}
	for i := range 2 * byHTTP {
		id, quit := fmt.Sprintf("http%02d", i), make(chan struct{})
		lives(id)
		var beating sync.WaitGroup
		beating.Go(func() { f.beatsHTTP(id, quit) })
		stop := sync.OnceFunc(func() { close(quit); beating.Wait() })
		f.t.Cleanup(stop)
		if i < byHTTP {
			mortals = slices.Insert(mortals, min(i*10, len(mortals)), mortal{id, stop, nil})
		}
	}
	return mortals
}

func (c *census) end(gone *[]mortal, dying []mortal) {
	for _, m := range dying {
		c.dies(m.id)
		m.stop()
		*gone = append(*gone, m)
	}
}

// again starts a new execution of somebody who is dead.
func (c *census) again(m *mortal) {
	if m.next == nil {
		return
	}
	m.stop = m.next()
	c.lives(m.id, 2)
	m.next = nil
}

// rightWithin waits until both serves show what is, and tells how long it took
// since now.
func (f *fleet) rightWithin(c *census, limit time.Duration) time.Duration {
	f.t.Helper()
	began := c.serverBack()
	wrong, was := [2]string{"nothing", "nothing"}, [2]string{}
	for {
		took := time.Since(began)
		for i := range f.serves {
			rows, err := f.rows(i)
			if wrong[i] = c.judge(i, rows); err != nil {
				wrong[i] = err.Error()
			}
		}
		if wrong == [2]string{} {
			if took > 4*time.Second {
				f.t.Logf("right only after %v, looked at for %v; before, serve 1 showed %q, serve 2 %q", took, time.Since(began)-took, was[0], was[1])
			}
			return took
		}
		was = wrong
		if took > limit {
			f.t.Errorf("the view is not right after %v: serve 1 shows %s; serve 2 shows %s", limit, wrong[0], wrong[1])
			return took
		}
	}
}

// sampleAll looks at both serves all the time; the function that it gives ends
// that, and tells how often it looked.
func (f *fleet) sampleAll(c *census) (stop func() int) {
	quit := make(chan struct{})
	var sampling sync.WaitGroup
	n := 0
	sampling.Go(func() {
		for {
			for i := range f.serves {
				if rows, err := f.rows(i); err == nil {
					c.sample(i, rows)
					n++
				}
			}
			select {
			case <-quit:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	end := sync.OnceFunc(func() { close(quit); sampling.Wait() })
	f.t.Cleanup(end)
	return func() int {
		end()
		return n
	}
}

func (f *fleet) recorded(c *census) bool {
	all := f.ends()
	for _, l := range c.over {
		if all[fmt.Sprintf("%s.%d", l.id, l.generation)] == "" {
			return false
		}
	}
	return true
}

// agree holds the stores against the truth and against each other.
func (f *fleet) agree(c *census) {
	f.t.Helper()
	all := f.ends()
	for _, l := range c.over {
		f.lostOnce(all, l.id, l.generation)
		if strings.HasPrefix(l.id, "http") {
			f.eventually("the hash of "+l.id+" says reaped", func() bool { return f.hashStatus(l.id) == "reaped" })
		}
	}
	for id, g := range c.alive {
		if text, ended := all[fmt.Sprintf("%s.%d", id, g)]; ended {
			f.t.Errorf("%s lives and was settled: %.300s", id, text)
		}
		if status := f.hashStatus(id); strings.HasPrefix(id, "http") && status != "alive" {
			f.t.Errorf("the hash of %s, which lives, says %q", id, status)
		}
	}
	if len(all) != len(c.over) {
		f.t.Errorf("%d records of %d executions that are over", len(all), len(c.over))
	}
	if len(c.revived) > 0 {
		f.t.Errorf("%d times somebody was revived: %q", len(c.revived), c.revived[:min(len(c.revived), 5)])
	}
}

func (f *fleet) hashStatus(id string) string {
	if !strings.HasPrefix(id, "http") {
		return ""
	}
	c := ofRedis{dialBare(f.t, f.redis)}
	defer c.Close()
	return c.do("HGET", "session:"+id, "status")
}
