package process

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int64
		want  string
		cut   bool
	}{
		{"", 8, "", false},
		{"12345678", 8, "12345678", false},
		{"123456789", 8, "123456\n[... 1 bytes left out ...]\n89", true},
		{strings.Repeat("a", 50) + "z", 4, "aaa\n[... 47 bytes left out ...]\nz", true},
		{"abc", 0, "\n[... 3 bytes left out ...]\n", true},
	} {
		got, cut := clip([]byte(c.text), c.limit)
		if string(got) != c.want || cut != c.cut {
			t.Errorf("%.12q in %d: %q, %v; want %q", c.text, c.limit, got, cut, c.want)
		}
	}
	// What comes in many writes is what comes in one.
	whole := bytes.Repeat([]byte("0123456789"), 5000)
	for _, limit := range []int64{100, 4096, 20_000, 49_999, 50_000} {
		w := &clipWriter{limit: limit}
		for rest := whole; len(rest) > 0; {
			n := min(len(rest), 777)
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		inParts, _ := w.text()
		atOnce, _ := clip(whole, limit)
		if !bytes.Equal(inParts, atOnce) {
			t.Errorf("limit %d: %d bytes in parts, %d at once", limit, len(inParts), len(atOnce))
		}
	}
}

func TestLastDumpStart(t *testing.T) {
	python := "Thread 0x00007f3790d946c0 (most recent call first):\n  File \"a.py\", line 4 in wait\n"
	goText := "SIGQUIT: quit\nPC=0x47\n\ngoroutine 1 [chan send]:\nmain.main()\n\t/srv/main.go:5 +0x1\n"
	logs := func(n int) string { return strings.Repeat("INFO request done\n", n) }
	for _, c := range []struct{ name, text, want string }{ // want: what begins there; empty: no dump
		{"nothing", "", ""},
		{"logs", logs(100), ""},
		{"python", logs(3) + python + "bye\n", "Thread 0x"},
		{"crlf", logs(1) + strings.ReplaceAll(python, "\n", "\r\n"), "Thread 0x"},
		{"the last of two", python + logs(80) + goText, "SIGQUIT"},
		{"a panic", logs(2) + "panic: oh\n\ngoroutine 7 [running]:\nmain.f(0x1)\n\t/srv/m.go:1 +0x1\n", "panic: oh"},
		{"a traceback", logs(2) + "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\nValueError: x\n", "Traceback"},
		{"a word about threads", "Thread pool exhausted\nProcess 7 died\n", ""},
	} {
		at := lastDumpStart([]byte(c.text))
		if (at < 0) != (c.want == "") || at >= 0 && !strings.HasPrefix(c.text[at:], c.want) {
			t.Errorf("%s: at %d, want %q", c.name, at, c.want)
		}
	}
	for line, want := range map[int]int{-1: -1, 0: -1, 1: 0, 2: 2, 3: 5, 4: -1} {
		if got := lineStart([]byte("a\nbc\nd"), line); got != want {
			t.Errorf("line %d at %d, want %d", line, got, want)
		}
	}
}

func TestParseListener(t *testing.T) {
	for line, want := range map[string]string{
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0":         "127.0.0.1:8080",
		"   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1":                                       "0.0.0.0:80",
		"   2: 00000000000000000000000001000000:240D 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1": "[::1]:9229",
		"   3: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4711 1":                                       "", // a connection
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":                                        "",
		"   4: 0100007:1F90 00000000:0000 0A 0 0 0 0 0 4711":                                                                                      "", "   5: 0100007F 0 0A 0 0 0 0 0 0 4711": "", "   6: 0100007F:zz 0 0A 0 0 0 0 0 0 4711": "", "": "",
	} {
		address, inode, ok := parseListener(line)
		if ok != (want != "") || ok && (address.String() != want || inode != "4711") {
			t.Errorf("%s: %v, %s, %v; want %q", line, &address, inode, ok, want)
		}
	}
}

func FuzzParseListener(f *testing.F) {
	f.Add("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1")
	f.Fuzz(func(t *testing.T, line string) {
		if a, _, ok := parseListener(line); ok && len(a.IP) != net.IPv4len && len(a.IP) != net.IPv6len {
			t.Errorf("%q: %v", line, a)
		}
	})
}

func TestListenersOfOurselves(t *testing.T) {
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("no /proc here")
	}
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		addresses, err := listeners(os.Getpid())
		want := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
		if err != nil || !strings.Contains(strings.Join(addresses, " "), want) {
			t.Errorf("%s is not among %v: %v", want, addresses, err)
		}
		_ = l.Close()
	}
}

func TestFileContains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	// The text lies across the border of two reads.
	text := append(bytes.Repeat([]byte{'x'}, 256<<10-5), "net/http/pprof.Index"...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]bool{pprofHandler: true, "xnet/": true, "net/http/pprof.Cmdline": false} {
		if got, err := fileContains(path, what); err != nil || got != want {
			t.Errorf("%q: %v, %v", what, got, err)
		}
	}
	if _, err := fileContains(path+".none", "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestToolEnvironment(t *testing.T) {
	got := toolEnvironment([]string{"PATH=/bin", "NATS_URL=nats://u:p@h", "REDIS_URL=x", "SESSIONWATCH_CONFIG=y", "DEBUGINFOD_URLS=https://d", "LANG=C"})
	if want := "PATH=/bin LANG=C"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
