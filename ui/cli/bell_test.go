package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// osc is an operating system command: a title, a notice on the desktop. A BEL may
// end it.
var osc = regexp.MustCompile("\x1b\\]([0-9]+);[^\a\x1b]*(\a|\x1b\\\\)")

// heardOn counts what a terminal rang and was told to show on the desktop.
func heardOn(p *terminaltest.PTY) (bells int, notices map[string]int) {
	raw := p.Raw()
	notices = map[string]int{}
	for _, m := range osc.FindAllSubmatch(raw, -1) {
		if n := string(m[1]); n == "9" || n == "777" {
			notices[n]++
		}
	}
	return bytes.Count(osc.ReplaceAll(raw, nil), []byte("\a")), notices
}

// TestBellsOnATerminal: one bell for each alert or group; a notice on the desktop
// where that is wanted; neither where it is not.
func TestBellsOnATerminal(t *testing.T) {
	waits(t)
	servers := newServers(t)
	screens := map[string]*terminaltest.PTY{}
	for name, alerts := range map[string]string{"default": "{}", "desktop": "{desktop: true}", "mute": "{bell: false}"} {
		config := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(config, []byte("alerts: "+alerts+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		screens[name] = terminaltest.StartPTY(t, terminaltest.Large, program(t, alone(t), "attach", "--config", config, "--nats", servers.nats, "--redis", "-"))
	}
	say := func(state string, up int) {
		t.Helper()
		if err := natsSay(servers.nats, "agent.liveness.stuck", fmt.Sprintf(`{"session_id":"stuck","state":"%s","uptime_secs":%d,"credits_remaining":null,"current_task":"batch 9"}`, state, up)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want int) {
		t.Helper()
		for name, p := range screens {
			bells, nine, notify := want, 0, 0
			switch name {
			case "desktop":
				nine, notify = want, want
			case "mute":
				bells = 0
			}
			if !sourcetest.Eventually(30*time.Second, func() bool { b, n := heardOn(p); return b >= bells && n["777"] >= notify }) {
				t.Errorf("%s: the %s screen is not told", what, name)
			}
			time.Sleep(300 * time.Millisecond) // for what must not come
			if b, n := heardOn(p); b != bells || n["9"] != nine || n["777"] != notify {
				t.Errorf("%s: the %s screen got %d bells, notices %v; want %d, and %d and %d", what, name, b, n, bells, nine, notify)
			}
		}
	}
	for _, p := range screens {
		p.Await("subscribed to agent.liveness.>")
	}
	say("running", 5)
	for _, p := range screens {
		p.Await("stuck")
	}
	expect("nothing is wrong", 0)
	for up := range 3 {
		say("stalled", 6+up)
	}
	for _, p := range screens {
		p.Await("1 NEEDS YOU")
	}
	expect("one stalls, and says so again", 1)
	if raw := string(screens["desktop"].Raw()); !strings.Contains(raw, "STALLED stuck") {
		t.Error("the notice does not say what stalled")
	}
	if !sourcetest.Soaking() { // a group takes its time
		return
	}
	fleet := startProducers(t, "grp", 8, strings.TrimPrefix(servers.nats, "nats://"), "")
	for _, p := range screens {
		p.Await("9 live")
	}
	time.Sleep(10 * time.Second)
	fleet.stop()
	expect("eight are silent together", 2)
	time.Sleep(20 * time.Second) // long enough for each of them to be told, if that were wrong
	expect("eight are silent still", 2)
}

// TestReplayRingsNoBell: what is past calls nobody.
func TestReplayRingsNoBell(t *testing.T) {
	waits(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("alerts: {desktop: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := terminaltest.StartPTY(t, terminaltest.Large, program(t, alone(t), "replay", "--config", config, "--speed", "1000"))
	p.Await("NEED YOU")
	p.Type("2")
	p.Await("STALLED")
	if bells, notices := heardOn(p); bells > 0 || len(notices) > 0 {
		t.Errorf("%d bells, notices %v", bells, notices)
	}
}
