package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestOptionsNameWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	empty := filepath.Join(dir, "empty")
	for path, text := range map[string]string{junk: "no PEM here", empty: "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"scheme":            {Options{URL: "http://x"}, "redis.url cannot be read"},
		"password in URL":   {Options{URL: "redis://:hun/ter2@host:6379"}, "percent-encode"},
		"password file":     {Options{PasswordFile: filepath.Join(dir, "none")}, "redis.password_file cannot be read"},
		"empty password":    {Options{PasswordFile: empty}, "is empty"},
		"CA file":           {Options{TLS: TLSOptions{CAFile: filepath.Join(dir, "none")}}, "redis.tls.ca_file cannot be read"},
		"CA junk":           {Options{TLS: TLSOptions{CAFile: junk}}, "holds no PEM certificate"},
		"half a pair":       {Options{TLS: TLSOptions{CertFile: junk}}, "belong together"},
		"bad pair":          {Options{TLS: TLSOptions{CertFile: junk, KeyFile: junk}}, "cannot be used"},
		"interval":          {Options{PollInterval: -1}, "is not above 0"},
		"interval over TTL": {Options{PollInterval: time.Minute}, "must be under the TTL"},
		"sentinel alone":    {Options{MasterName: "m"}, "must list the sentinels"},
		"both":              {Options{MasterName: "m", Cluster: true, Addrs: []string{"a:1"}}, "exclude each other"},
		"several":           {Options{Addrs: []string{"a:1", "b:1"}}, "say cluster: true"},
		"address":           {Options{Addrs: []string{"a"}, Cluster: true}, `"a" is not host:port`},
		"database":          {Options{Cluster: true, DB: 3}, "database 0 only"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.options.resolve()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one that says %q", err, c.want)
			}
			if strings.Contains(err.Error(), "ter2") {
				t.Errorf("a part of the password is in %q", err)
			}
		})
	}
}

func TestAddressForPeople(t *testing.T) {
	for want, o := range map[string]Options{
		"redis://localhost:6379":        {},
		"redis://h:7/2":                 {URL: "redis://user:secret@h:7/2"},
		"rediss://h:6379":               {URL: "rediss://:secret@h"},
		"unix:///run/redis.sock":        {URL: "unix:///run/redis.sock"},
		"cluster a:1,b:2":               {Cluster: true, Addrs: []string{"a:1", "b:2"}, Password: "secret"},
		"sentinel mymaster at a:1":      {MasterName: "mymaster", Addrs: []string{"a:1"}},
		"redis://[2001:db8::1]:6379":    {URL: "redis://[2001:db8::1]"},
		"rediss://override.example:333": {URL: "rediss://h", Addrs: []string{"override.example:333"}},
	} {
		target, err := o.resolve()
		if err != nil {
			t.Errorf("%s: %v", want, err)
		} else if target.display != want {
			t.Errorf("address %q, want %q", target.display, want)
		}
	}
}

func TestTransportWarning(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{}, ""},
		{Options{URL: "redis://:pw@127.0.0.1"}, ""},
		{Options{URL: "redis://far.example"}, "no TLS"},
		{Options{URL: "redis://:pw@far.example"}, "no TLS: the password crosses the network in the clear"},
		{Options{URL: "rediss://:pw@far.example"}, ""},
	} {
		target, err := c.options.resolve()
		if err != nil {
			t.Fatal(err)
		}
		if got := target.transportWarning(); got != c.want {
			t.Errorf("%s: warning %q, want %q", c.options.URL, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err   error
		words string
		kind  failureKind
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused", failedLink},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, "no such host", failedLink},
		{&net.DNSError{Err: "server misbehaving"}, "name look-up failed", failedLink},
		{context.DeadlineExceeded, "timed out", failedLink},
		{os.NewSyscallError("connect", syscall.EHOSTUNREACH), "unreachable", failedLink},
		{fmt.Errorf("a: %w", io.EOF), "connection lost", failedLink},
		{redisText("NOPERM this user has no permissions to run the 'scan' command"), "no permission: SCAN: this user has no permissions to run the 'scan' command", failedDenied},
		{fmt.Errorf("failed to authenticate: %w", redisText("WRONGPASS invalid username-password pair or user is disabled.")), "authentication refused", failedServer},
		{redisText("NOAUTH Authentication required."), "authentication required", failedServer},
		{redisText("ERR invalid password"), "authentication refused", failedServer},
		{redisText("LOADING Redis is loading the dataset in memory"), "the server is loading its data", failedServer},
		{redisText("ERR max number of clients reached"), "the server has too many clients", failedServer},
		{redisText("ERR evil \x1b]52;c;x\x07text"), "ERR evil text", failedServer},
	} {
		if got := explain(c.err, "SCAN"); got.words != c.words || got.kind != c.kind {
			t.Errorf("%v: %q (%d), want %q (%d)", c.err, got.words, got.kind, c.words, c.kind)
		}
	}
}

func TestAgeOf(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		kind watchdog.AgeKind
		age  time.Duration
	}{
		{60 * time.Second, watchdog.AgeEstimated, 0},
		{45 * time.Second, watchdog.AgeEstimated, 15 * time.Second},
		{time.Millisecond, watchdog.AgeEstimated, time.Minute - time.Millisecond},
		{0, watchdog.AgeUnknown, 0},
		{-1, watchdog.AgeUnknown, 0}, // no TTL
		{-2, watchdog.AgeUnknown, 0}, // no key
		{61 * time.Second, watchdog.AgeUnknown, 0},
	} {
		if kind, age := ageOf(c.left, time.Minute); kind != c.kind || age != c.age {
			t.Errorf("%v left: %v %v, want %v %v", c.left, kind, age, c.kind, c.age)
		}
	}
}

// The values are those of CLUSTER KEYSLOT.
func TestSlots(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "x{foo}bar": 12182, "foo{}{bar}": 8363, "{": 4092,
	} {
		if got := slotOf(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
	if slotOf("{agent:liveness:a}:lease") != slotOf("agent:liveness:a") {
		t.Error("the ledger's keys do not share the slot of the liveness key")
	}
}

func TestScanBudget(t *testing.T) {
	marks := make([]scanMark, 1)
	for name, c := range map[string]struct {
		scanner  scanner
		interval time.Duration
		want     int
	}{
		"first cycle":       {scanner{marks: marks, size: 1e6}, 2 * time.Second, math.MaxInt},
		"size is hidden":    {scanner{marks: marks, complete: true, size: -1, extra: -5}, 2 * time.Second, math.MaxInt},
		"small":             {scanner{marks: marks, complete: true, size: 5000, extra: 7, known: 7}, 2 * time.Second, 7},
		"large":             {scanner{marks: marks, complete: true, size: 100_000, extra: 7, known: 7}, 2 * time.Second, 7},
		"large, new keys":   {scanner{marks: marks, complete: true, size: 100_000, extra: 8, known: 7}, 2 * time.Second, math.MaxInt},
		"large, rare polls": {scanner{marks: marks, complete: true, size: 100_000}, 40 * time.Second, 101},
		"large, fewer":      {scanner{marks: marks, complete: true, size: 90_000, extra: 3, known: 7}, 2 * time.Second, 7},
	} {
		if got := c.scanner.budget(c.interval); got != c.want {
			t.Errorf("%s: %d SCANs, want %d", name, got, c.want)
		}
	}
}

func TestBackoffStaysInItsBounds(t *testing.T) {
	for attempt := 1; attempt < 2000; attempt++ {
		if d := backoff(attempt); d < backoffMin*9/10 || d > backoffMax {
			t.Fatalf("back-off of attempt %d is %v", attempt, d)
		}
	}
}

func TestTableForgets(t *testing.T) {
	table := newKeyTable(true)
	for i := range 10 {
		table.add(fmt.Sprint("k", i), entry{hash: uint64(i), beat: true})
	}
	for _, i := range []int32{0, 9, 4} {
		table.entries[i].missed, table.entries[i].goneAt = 2, time.Duration(i)
	}
	if n := table.alive(); n != 7 {
		t.Errorf("%d alive, want 7", n)
	}
	table.forgetGone(5)
	if table.len() != 8 || table.has("k0") || table.has("k4") || !table.has("k9") {
		t.Errorf("the wrong keys were forgotten: %v", table.index)
	}
	for key, i := range table.index {
		if table.key(i) != key || fmt.Sprint("k", table.entries[i].hash) != key {
			t.Errorf("%s stands at %d, where %s is", key, i, table.key(i))
		}
	}
	last := uint16(0)
	for _, i := range table.order() {
		if s := table.entries[i].slot; s < last {
			t.Error("not in the order of slots")
		} else {
			last = s
		}
	}
}

func TestFacts(t *testing.T) {
	read := func(info string) facts {
		f := facts{uptime: -1, maxMemory: -1, evicted: -1, keys: -1}
		f.read(info)
		return f
	}
	f := read("# Server\r\nrun_id:abc\r\nuptime_in_seconds:10\r\n# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:volatile-ttl\r\naof_enabled:1\r\nrole:master\r\nevicted_keys:0\r\nmaxmemory_policy\r\n")
	if len(f.warnings()) != 1 || !strings.Contains(f.warnings()[0], "volatile-ttl") {
		t.Errorf("warnings %q", f.warnings())
	}
	quiet := read("clients:1\r\n")
	if len(quiet.warnings()) != 0 {
		t.Errorf("a server that says nothing is accused: %q", quiet.warnings())
	}
	same := f
	for want, change := range map[string]func(*facts){
		"":                                  func(*facts) {},
		"restarted":                         func(f *facts) { f.runID, f.uptime = "def", 1 },
		"another server answers":            func(f *facts) { f.runID, f.uptime = "def", 5000 },
		"role changed from master to slave": func(f *facts) { f.role = "slave" },
		"reconnected":                       func(f *facts) { f.connections++ },
	} {
		now := same
		change(&now)
		if got := now.changed(f); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	if got := quiet.changed(f); got != "" {
		t.Errorf("a server that hides itself is said to have %s", got)
	}
}

func TestReplyValues(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		want  []string // "-" is a missing one
		err   error
	}{
		"usual":      {"*3\r\n$1\r\na\r\n$-1\r\n$3\r\nb\r\n\r\n", []string{"a", "-", "b\r\n"}, nil},
		"empty":      {"*1\r\n$0\r\n\r\n", []string{""}, nil},
		"RESP3 null": {"*2\r\n_\r\n$1\r\nx\r\n", []string{"-", "x"}, nil},
		"error":      {"-NOPERM no\r\n", nil, redisText("NOPERM no")},
		"short":      {"*2\r\n$1\r\na\r\n", []string{"a"}, errReplyBroken},
		"cut":        {"*1\r\n$10\r\nabc", nil, errReplyBroken},
		"count":      {"*9\r\n", nil, errReplyBroken},
		"no number":  {"*x\r\n", nil, errReplyBroken},
		"nothing":    {"", nil, errReplyBroken},
	} {
		t.Run(name, func(t *testing.T) {
			want := max(len(c.want), 1)
			if errors.Is(c.err, errReplyBroken) {
				want = 2
			}
			if name == "cut" {
				want = 1
			}
			var got []string
			r := replyBuffer{bytes: []byte(c.reply)}
			err := r.values(want, func(i int, v []byte) {
				if i != len(got) {
					t.Errorf("value %d came as number %d", i, len(got))
				}
				if v == nil {
					v = []byte("-")
				}
				got = append(got, string(v))
			})
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplyBufferIsBounded(t *testing.T) {
	r := replyBuffer{}
	r.reset(100)
	if _, err := io.CopyN(&r, bytes.NewReader(make([]byte, 60)), 60); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(&r, bytes.NewReader(make([]byte, 60)), 60); !errors.Is(err, errReplyTooLarge) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Write(make([]byte, 41)); !errors.Is(err, errReplyTooLarge) {
		t.Errorf("error %v", err)
	}
	if n, err := io.CopyN(&r, strings.NewReader("abc"), 10); n != 3 || err == nil {
		t.Errorf("a cut value gave %d bytes, %v", n, err)
	}
}

func FuzzReplyValues(f *testing.F) {
	f.Add([]byte("*3\r\n$1\r\na\r\n$-1\r\n$3\r\nb\r\n\r\n"), 3)
	f.Add([]byte("*1\r\n$9223372036854775807\r\n"), 1)
	f.Add([]byte("-ERR\r\n"), 1)
	f.Fuzz(func(t *testing.T, reply []byte, want int) {
		if want < 0 || want > 1000 {
			return
		}
		r := replyBuffer{bytes: reply}
		n := 0
		err := r.values(want, func(i int, v []byte) {
			if i != n || len(v) > len(reply) {
				t.Fatalf("value %d of %d bytes", i, len(v))
			}
			n++
		})
		if err == nil && n != want {
			t.Fatalf("%d values of %d, and no error", n, want)
		}
	})
}
