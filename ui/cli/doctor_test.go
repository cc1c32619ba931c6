package cli_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/ui/cli"
	"github.com/sessionwatch/sessionwatch/ui/terminal/terminaltest"
)

// The doctor walks the registry's checklist: who decides ends, whether somebody
// reaps, what the hash of a session says, and what became of releases.
func TestDoctorWalksTheRegistrysChecklist(t *testing.T) {
	n, err := embedded.StartNATS(embedded.NATSOptions{JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	at := newServers(t)
	at.nats = n.ClientURL()
	t.Chdir(t.TempDir()) // the path of a socket is limited to about 100 bytes
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	_ = port.Close()
	config := "registry: {interval: 1s, ttl: 3s, reap_interval: 1s, release: [sh, -c, 'echo no such lock; exit 3']}\n"
	if err := os.WriteFile("c.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	common := []string{"--config", "c.yaml", "--nats", at.nats, "--redis", at.redis, "--data-dir", "d"}
	doctor := func(args ...string) string {
		var out, stderr strings.Builder
		env, _ := inProcess(t, &out, &stderr, "HOME="+t.TempDir(), "TERM=xterm")
		cli.Main(append(append([]string{"doctor", "--wait", "300ms"}, common...), args...), env)
		return out.String() + stderr.String()
	}
	expect := func(text string, patterns ...string) {
		t.Helper()
		for _, p := range patterns {
			if !regexp.MustCompile(`(?m)^` + p).MatchString(text) {
				t.Errorf("the doctor does not say %q:\n%s", p, text)
			}
		}
	}
	expect(doctor("--session", "abc-1234"), `ok +ledger on Redis +no authority is named`, `ok +reaper +it never ran`, `BAD +session abc-1234 +there is no hash`)

	var stderr shared
	env, interrupt := inProcess(t, io.Discard, &stderr, "HOME="+t.TempDir())
	ended := make(chan int, 1)
	go func() { ended <- cli.Main(append([]string{"serve", "--listen", address}, common...), env) }()
	beat := func() bool {
		token, err := os.ReadFile(filepath.Join("d", "token"))
		if err != nil {
			return false
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/heartbeat", strings.NewReader(`{"session_id":"abc-1234"}`))
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	}
	terminaltest.Poll(t, beat, func() string { return "no heartbeat was taken" })
	text := ""
	terminaltest.Poll(t, func() bool {
		text = doctor("--serve", "d/serve.sock", "--session", "abc-1234")
		return strings.Contains(text, "exit code 3")
	}, func() string { return text })
	expect(text, `ok +ledger on NATS +the authority is jetstream`, `ok +ledger on Redis +the authority is jetstream`, `ok +ledger streams +as they must be`, `ok +reaper +last run \d+(s|ms) ago, every 1s`,
		`ok +session abc-1234 +status reaped, last_seen \d+s ago, ttl 3s`, `ok +serve +serve@`, `ok +serve ledger +decided by`, `ok +serve reaper`,
		`BAD +release +abc-1234: exit code 3, \S+ ago: no such lock`)
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("serve: exit code %d, %s", code, stderr.String())
	}
	expect(doctor(), `ok +serve +none runs here`)
}
