//go:build linux

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// The faults of screens, with the program on a terminal.

// fault 41: a hang-up ends it within a second, whatever the servers do, and
// leaves nothing that runs.
func TestHangUpEndsTheScreen(t *testing.T) {
	_, natsAt := realNATS(t)
	mute := muteServer(t)
	for name, c := range map[string]struct {
		nats string
		end  func(*terminaltest.PTY)
		want string
	}{
		"SIGHUP, server there":        {natsAt, func(p *terminaltest.PTY) { p.Signal(syscall.SIGHUP) }, "connected"},
		"SIGHUP, server hangs":        {mute, func(p *terminaltest.PTY) { p.Signal(syscall.SIGHUP) }, "choose"},
		"terminal gone, server there": {natsAt, (*terminaltest.PTY).HangUp, "connected"},
		"terminal gone, server hangs": {mute, (*terminaltest.PTY).HangUp, "choose"},
	} {
		t.Run(name, func(t *testing.T) {
			p := terminaltest.StartPTY(t, terminaltest.Normal, program(t, alone(t), "attach", "--nats", "nats://"+c.nats, "--redis", "redis://"+mute))
			p.Await(c.want)
			began := time.Now()
			c.end(p)
			p.Ended()
			if took := time.Since(began); took > time.Second*slack {
				t.Errorf("it ended after %v", took)
			}
		})
	}
}

// hostileTexts are JSON strings whose text would do something to a terminal. Each
// holds PWN inside what must go as a whole, or a sequence of its own.
var hostileTexts = []struct{ json, bytes string }{
	{`\u001b]52;c;PWN\u0007`, "\x1b]52"}, {`\u001b]8;;http://PWN\u001b\\`, "\x1b]8"}, {`\u001b]0;PWN\u0007`, "\x1b]0;PWN"},
	{`\u001b[6n`, ""}, {`\u001b[>c`, "\x1b[>c"}, {`\u001b[21t`, "\x1b[21t"}, {`\u001b[?9876h`, "\x1b[?9876h"}, {`\u001b[77;77H`, "\x1b[77;77H"},
	{`\u001bP+q5057\u001b\\`, "\x1bP"}, {`\u001b_PWN\u001b\\`, "\x1b_"}, {`\u001b^PWN\u001b\\`, "\x1b^"}, {`\u001bXPWN\u001b\\`, "\x1bX"}, {`\u001bc`, "\x1bc"},
	{`\u009b31;99m`, "\x1b[31;99m"}, {`\u009d0;PWN\u009c`, "\u009d"}, {`\u0090PWN\u009c`, "\u0090"}, {`\u0084\u0085\u008d`, "\u008d"},
	{"\x1b]0;PWN\a", "\x1b]0;PWN"}, // raw, so no JSON
	{"\x9b31m", "\x9b"}, {`\u202eevil\u2066`, "\u202e"}, {`a\u0008\u007f\u0000\u000e`, "\x0e"},
	{`\u001b]0;PWN never ends`, "\x1b]0;PWN"},
}

// fault 42: hostile bytes in every text of a beat, by NATS and by Redis, and in
// ids: none of them, and nothing like them, reaches the terminal.
func TestHostilePayloadsReachNoTerminal(t *testing.T) {
	_, natsAt := realNATS(t)
	_, redisAt := realRedis(t)
	p := terminaltest.StartPTY(t, terminaltest.Huge, program(t, alone(t), "attach", "--nats", "nats://"+natsAt, "--redis", "redis://"+redisAt))
	p.Await("connected, subscribed to agent.liveness.>")
	for i, h := range hostileTexts {
		for _, bus := range []string{"n", "r"} {
			id := fmt.Sprintf("%s%02d", bus, i)
			body := fmt.Sprintf(`{"session_id":"%s","state":"run%s","uptime_secs":1,"credits_remaining":null,"current_task":"task %s",`+
				`"host":"h%s","agent_id":"a%s","message":"m%s","waiting_for":"w%s"}`, id, h.json, h.json, h.json, h.json, h.json, h.json)
			var err error
			if bus == "n" {
				err = natsSay("nats://"+natsAt, "agent.liveness."+id, body)
			} else {
				err = redisSay("redis://"+redisAt, "agent:liveness:"+id, body)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		// Ids that are refused are shown too.
		_ = redisSay("redis://"+redisAt, "agent:liveness:\x1b]0;PWN\x07"+strconv.Itoa(i), `{"session_id":"x","state":"running"}`)
		_ = natsSay("nats://"+natsAt, "agent.liveness.\x1b]0;PWN\x07", `{"session_id":"\u001b]0;PWN\u0007","state":"running"}`)
	}
	p.Await(strconv.Itoa(2*(len(hostileTexts)-1)) + " live") // one is no JSON
	for range 2 * len(hostileTexts) {                        // the pane explains each of them
		p.Type("j")
		time.Sleep(15 * time.Millisecond)
	}
	p.Type("i")
	p.Await("rule")
	p.Type("\x1b")
	time.Sleep(100 * time.Millisecond)
	p.Type("q")
	p.Ended()
	raw := p.Raw()
	if bytes.Contains(raw, []byte("PWN")) {
		t.Error("text from inside a control sequence was shown")
	}
	for _, h := range hostileTexts {
		if h.bytes != "" && bytes.Contains(raw, []byte(h.bytes)) {
			t.Errorf("%q reached the terminal", h.bytes)
		}
	}
	for _, problem := range foreign(raw) {
		t.Error(problem)
	}
}

// foreign lists what a terminal was sent and a screen of ours never says.
func foreign(raw []byte) []string {
	var out []string
	own := map[string]bool{}
	for _, s := range []string{
		"\x1b[?2026$p", "\x1b[?2027$p", "\x1b]11;?\x07", "\x1b[22;0t", "\x1b[23;0t", "\x1b[?u", "\x1b[?5W", "\x1b(B", "\x1b7", "\x1b8", "\x1b=", "\x1b>", "\x1bM", "\x1b\\",
	} {
		own[s] = true
	}
	asked := 0
	var state byte
	for rest := raw; len(rest) > 0; {
		seq, _, n, next := ansi.DecodeSequence(rest, state, nil)
		state = next
		rest = rest[n:]
		s := string(seq)
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case s == "" || own[s]:
		case s == "\x1b[6n":
			asked++
		case strings.HasPrefix(s, "\x1b[") && strings.IndexByte("mHABCDEFGdfJKXPLM@STbhlruW`", s[len(s)-1]) >= 0:
		case strings.HasPrefix(s, "\x1b]0;") || strings.HasPrefix(s, "\x1b]2;"):
		case s == "\r" || s == "\n" || s == "\t" || s == "\b":
		case r == utf8.RuneError && size == 1:
			out = append(out, fmt.Sprintf("not UTF-8: %q", s))
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2066:
			out = append(out, fmt.Sprintf("a foreign control: %q", s))
		}
	}
	if asked > 1 {
		out = append(out, fmt.Sprintf("the cursor was asked for %d times, we do so once", asked))
	}
	return out
}

// fault 45: what is pasted, or was typed before anybody could have read the
// screen, does nothing but move.
func TestPastedAndEarlyKeysDoNothing(t *testing.T) {
	_, natsAt := realNATS(t)
	p := terminaltest.StartPTY(t, terminaltest.Normal, program(t, alone(t), "attach", "--nats", "nats://"+natsAt, "--redis", "-"))
	p.Type("qqqqdqq\r") // before the first frame
	p.Await("connected")
	if err := natsSay("nats://"+natsAt, "agent.liveness.a", `{"session_id":"a","state":"running","uptime_secs":1,"credits_remaining":null,"current_task":null}`); err != nil {
		t.Fatal(err)
	}
	p.Await("1 live")
	for _, paste := range []string{"q", "q\r", ":quit\r", "d\ry\r", "\x1b[Aq"} {
		p.Type("\x1b[200~" + paste + "\x1b[201~") // a terminal that says so
		time.Sleep(50 * time.Millisecond)
	}
	p.Type("y\rqqq:quit\r") // one that does not
	time.Sleep(100 * time.Millisecond)
	p.Type("?")
	p.Await("help")
	p.Type("\x1b")
	p.Await("1 live")
	time.Sleep(100 * time.Millisecond)
	p.Type("q")
	if code, _ := p.Ended(); code != 0 {
		t.Errorf("exit code %d after q", code)
	}
}

// fault 46: a fleet at work costs what its ages cost to draw, and an empty one
// next to nothing.
func TestIdleScreenStandsStill(t *testing.T) {
	measures(t)
	for _, c := range []struct {
		name string
		n    int
		size terminaltest.Size
	}{
		{"nobody beats", 0, terminaltest.Large}, {"40 beat, 120x40", 40, terminaltest.Large}, {"100 beat, 200x60", 100, terminaltest.Huge},
	} {
		t.Run(c.name, func(t *testing.T) {
			waits(t)
			_, natsAt := realNATS(t)
			p := terminaltest.StartPTY(t, c.size, program(t, alone(t), "attach", "--nats", "nats://"+natsAt, "--redis", "-"))
			p.Await("connected")
			if c.n > 0 {
				startProducers(t, "idle", c.n, natsAt, "")
				p.Await(strconv.Itoa(c.n) + " live")
			}
			time.Sleep(3 * time.Second)
			length := amount(5*time.Second, time.Minute)
			bytesBefore, cpuBefore := len(p.Raw()), cpuOf(t, p.PID())
			time.Sleep(length)
			perSecond := float64(len(p.Raw())-bytesBefore) / length.Seconds()
			share := 100 * (cpuOf(t, p.PID()) - cpuBefore).Seconds() / length.Seconds()
			if perSecond > 10*1000 {
				t.Errorf("%.0f bytes a second", perSecond)
			}
			sourcetest.Figure(t, "46", "idle screen, "+c.name, "bytes and CPU of the changes alone; CPU <= 1 %", fmt.Sprintf("%.0f B/s, %.2f %% CPU", perSecond, share))
		})
	}
}

// cpuOf is the processor time of all threads of a process.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		if err != nil {
			continue // a thread that has ended
		}
		ns, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}
