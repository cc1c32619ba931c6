package cli_test

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// stuckAgent beats twice a second until the test ends; what it says of itself may
// be changed.
func stuckAgent(t *testing.T, say func(body string) error) (state *atomic.Value) {
	t.Helper()
	state = &atomic.Value{}
	state.Store("stalled")
	quit := make(chan struct{})
	var over sync.WaitGroup
	began := time.Now()
	over.Go(func() {
		for {
			_ = say(fmt.Sprintf(`{"session_id":"stuck","state":"%s","uptime_secs":%d,"credits_remaining":null,"current_task":"batch 9"}`,
				state.Load(), int(time.Since(began).Seconds()))) // the next one tells
			select {
			case <-quit:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(quit); over.Wait() })
	return state
}

// TestColleaguesAnswerAlerts: what one says of an alert, the other sees, with who
// and why, on each place where notes are kept, and through a serve; what is new asks
// anew; the rest is kept while nobody looks. Who may only read sees it all.
func TestColleaguesAnswerAlerts(t *testing.T) {
	waits(t)
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for name, place := range map[string]func(t *testing.T) (say func(string) error, args []string){
		"NATS": func(t *testing.T) (func(string) error, []string) {
			port := sourcetest.FreePort(t)
			sourcetest.StartProcess(t, sourcetest.RealBinary(t, "nats-server"), port, "-a", "127.0.0.1", "-p", strconv.Itoa(port), "-js", "-sd", t.TempDir())
			url := fmt.Sprintf("nats://127.0.0.1:%d", port)
			return func(body string) error { return natsSay(url, "agent.liveness.stuck", body) }, []string{"--nats", url, "--redis", "-"}
		},
		"Redis alone": func(t *testing.T) (func(string) error, []string) {
			_, at := realRedis(t)
			return func(body string) error { return redisSay("redis://"+at, "agent:liveness:stuck", body) }, []string{"--nats", "-", "--redis", "redis://" + at}
		},
		"a serve": func(t *testing.T) (func(string) error, []string) {
			servers := newServers(t)
			start, _, socket := aServe(t, "--nats", servers.nats, "--redis", servers.redis)
			start()
			return func(body string) error { return natsSay(servers.nats, "agent.liveness.stuck", body) }, []string{"--serve", socket}
		},
	} {
		t.Run(name, func(t *testing.T) {
			waits(t)
			say, args := place(t)
			state := stuckAgent(t, say)
			look := func(more ...string) *terminaltest.PTY {
				p := terminaltest.StartPTY(t, terminaltest.Large, program(t, alone(t), append(append([]string{"attach"}, args...), more...)...))
				p.Await("stuck")
				p.Type("2")
				return p
			}
			leave := func(p *terminaltest.PTY) {
				p.Type("\x03")
				p.Type("\x03")
				p.Ended()
			}
			answer := func(p *terminaltest.PTY, key, asks string, lines ...string) {
				p.Type(key)
				for i, line := range lines {
					p.Await(asks)
					p.TypeApart(20*time.Millisecond, append(strings.Split(line, ""), "\r")...)
					if i == 0 && len(lines) > 1 {
						asks = "until when?"
					} else {
						asks = "why?"
					}
				}
			}
			one, two := look(), look()
			one.Await("nobody has answered")
			answer(one, "a", "ACKNOWLEDGE", "vendor called")
			two.Await("acknowledged by " + me.Username)
			two.Await("vendor called")

			answer(two, "z", "SNOOZE", "30m waits for vendor")
			one.Await("snoozed until")
			one.Await("waits for vendor")
			leave(two)

			state.Store("running")
			one.Await("no alert stands")
			state.Store("stalled")
			one.Await("nobody has answered")

			two = look("--read-only")
			two.Await("nobody has answered")
			answer(one, "M", "MUTE", "", "2h", "deploy 4711")
			for _, p := range []*terminaltest.PTY{one, two} {
				p.Await("stuck muted to")
				p.Await("deploy 4711")
			}
			two.Type("a")
			two.Await("acknowledging: off")

			leave(one)
			leave(two)
			again := look()
			again.Await("deploy 4711")
			again.Await("muted to")
		})
	}
}
