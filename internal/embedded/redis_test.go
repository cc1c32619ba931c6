package embedded

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// say sends one inline command and returns the first line of the answer.
func say(t *testing.T, addr, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	words := strings.Fields(command)
	fmt.Fprintf(conn, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(w), w)
	}
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestRedisExpiresKeysInRealTime(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r, err := StartRedis(RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, set := range []string{"SET stays v PX 600000", "SET k v PX 300"} {
		if got := say(t, r.Addr(), set); got != "+OK" {
			t.Fatalf("%s answered %q", set, got)
		}
	}
	if got := say(t, r.Addr(), "EXISTS stays"); got != ":1" {
		t.Fatalf("a key of ten minutes is gone at once: %q", got)
	}
	for deadline := time.Now().Add(time.Minute); say(t, r.Addr(), "EXISTS k") != ":0"; {
		if time.Now().After(deadline) {
			t.Fatal("a key of 300 ms is still there after a minute")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestRedisRefusesATakenPort(t *testing.T) {
	r, err := StartRedis(RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, port, _ := net.SplitHostPort(r.Addr())
	var n int
	fmt.Sscan(port, &n)
	if _, err := StartRedis(RedisOptions{Port: n}); err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Fatalf("second server on one port: %v", err)
	}
	if _, err := StartRedis(RedisOptions{Port: 70000}); err == nil {
		t.Fatal("port 70000 was accepted")
	}
	if !strings.HasPrefix(r.URL(), "redis://127.0.0.1:") {
		t.Fatalf("URL %q is not on loopback", r.URL())
	}
	r.Close()
	r.Close()
}

// Clients ask on while the server ends: one of them waits, the others ask for
// INFO, which must not take the process down.
func TestRedisClosesUnderItsClients(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for range 40 {
		r, err := StartRedis(RedisOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		for i := range 8 {
			conn, err := net.Dial("tcp", r.Addr())
			if err != nil {
				t.Fatal(err)
			}
			command := "*1\r\n$4\r\nINFO\r\n"
			if i == 0 {
				command = "*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n"
			}
			clients.Go(func() {
				defer conn.Close()
				in := make([]byte, 4096)
				for {
					if _, err := conn.Write([]byte(command)); err != nil {
						return
					}
					if _, err := conn.Read(in); err != nil {
						return
					}
				}
			})
		}
		say(t, r.Addr(), "PING")
		r.Close()
		clients.Wait()
	}
}
