package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// Whoever asks too much of a serve is told so, and for how long to wait; after
// that a heartbeat counts again, and its session was never in doubt.
func TestServeTellsWhoAsksTooMuch(t *testing.T) {
	measures(t)
	dir, address := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", sourcetest.FreePort(t))
	cmd := program(t, alone(t), "serve", "--data-dir", dir, "--listen", address, "--nats", "-", "--redis", "-")
	var says shared
	cmd.Stdout, cmd.Stderr = &says, &says
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, says.String())
		}
	})
	token := ""
	if !sourcetest.Eventually(20*time.Second, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "token"))
		token = strings.TrimSpace(string(text))
		return err == nil && token != ""
	}) {
		t.Fatalf("no token:\n%s", says.String())
	}
	beat := func() (int, string, http.Header, error) {
		req, err := http.NewRequest(http.MethodPost, "http://"+address+"/heartbeat", strings.NewReader(`{"session_id":"a","timestamp":1718823042.331}`))
		if err != nil {
			return 0, "", nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.StatusCode, string(body), res.Header, err
	}
	answered := func(want int) bool {
		return sourcetest.Eventually(20*time.Second, func() bool { code, _, _, err := beat(); return err == nil && code == want })
	}
	if !answered(http.StatusNoContent) {
		t.Fatalf("no heartbeat is taken:\n%s", says.String())
	}
	// A crowd at one address asks until it is told off.
	var crowd sync.WaitGroup
	quit := make(chan struct{})
	for range 8 {
		crowd.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				if res, err := http.Get("http://" + address + "/health"); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	var told http.Header
	body := ""
	limited := sourcetest.Eventually(60*time.Second, func() bool {
		code, text, header, err := beat()
		told, body = header, text
		return err == nil && code == http.StatusTooManyRequests
	})
	close(quit)
	crowd.Wait()
	if !limited {
		t.Fatal("nobody is told off")
	}
	wait, err := strconv.Atoi(told.Get("Retry-After"))
	var says429 struct{ Error string }
	if err != nil || wait < 1 || json.Unmarshal([]byte(body), &says429) != nil || !strings.Contains(says429.Error, "less often") {
		t.Errorf("a 429 says %q, Retry-After %q", body, told.Get("Retry-After"))
	}
	time.Sleep(time.Duration(wait) * time.Second)
	if code, text, _, err := beat(); code != http.StatusNoContent || err != nil {
		t.Errorf("after %d s it is answered %d %s, %v", wait, code, text, err)
	}
	ls := program(t, alone(t), "ls", "--json", "--data-dir", dir, "--serve", filepath.Join(dir, "serve.sock"))
	out, err := ls.Output()
	var rows []struct {
		ID      string `json:"session_id"`
		Verdict string
	}
	if err != nil || json.Unmarshal(out, &rows) != nil || len(rows) != 1 || rows[0].ID != "a" || rows[0].Verdict != "running" {
		t.Errorf("it is shown as %s, %v", out, err)
	}
}
