package process

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func statLine(pid int, comm string, state byte, parent, group, session int, start uint64) string {
	return fmt.Sprintf("%d (%s) %c %d %d %d 0 -1 4194304 1 0 0 0 7 5 0 0 20 0 3 0 %d 1000 10 18446744073709551615\n", pid, comm, state, parent, group, session, start)
}

func TestParseStat(t *testing.T) {
	for _, comm := range []string{"python3", "", "a b", ") R 1 (", "((", "x)\n", "\x1b[2J"} {
		got, err := parseStat([]byte(statLine(42, comm, 'S', 7, 8, 9, 1234)))
		want := processStat{pid: 42, parent: 7, group: 8, session: 9, start: 1234, state: 'S', threads: 3, user: 7, system: 5, comm: comm}
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", comm, got, err)
		}
	}
	for _, line := range []string{"", "42", "42 (x", "x (y) S 1 1 1", "42 (x) S 1 1", "42 (x) S a 1 1 0 -1 0 1 0 0 0 7 5 0 0 20 0 3 0 9", ") 1 (", "(x)"} {
		if got, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q was read as %+v", line, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine(1, "init", 'S', 0, 1, 1, 3)))
	f.Add([]byte("1 (a) b) R"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, err := parseStat(line); err == nil && len(p.comm) > len(line) {
			t.Errorf("a name out of nothing: %q", p.comm)
		}
	})
}

func TestTreeOf(t *testing.T) {
	p := func(pid, parent, group, session int, start uint64) processStat {
		return processStat{pid: pid, parent: parent, group: group, session: session, start: start, state: 'S'}
	}
	all := []processStat{
		p(1, 0, 1, 1, 1),
		p(100, 1, 100, 100, 50),    // the root
		p(103, 100, 100, 100, 53),  // its younger child
		p(102, 100, 100, 100, 52),  // its older child
		p(104, 102, 104, 104, 54),  // a grandchild in a session of its own
		p(105, 1, 100, 100, 55),    // its parent is gone, its group is not
		p(106, 105, 106, 106, 56),  // below that
		p(200, 1, 200, 200, 60),    // somebody else's
		p(107, 104, 107, 107, 57),  // deep
		p(108, 108, 108, 108, 108), // claims to be its own parent
	}
	pids := func(tree []processStat) (out []int) {
		for _, m := range tree {
			out = append(out, m.pid)
		}
		return out
	}
	if diff := cmp.Diff([]int{100, 102, 103, 104, 107, 105, 106}, pids(treeOf(100, all))); diff != "" {
		t.Error(diff)
	}
	if got := pids(treeOf(100, all[2:])); len(got) != 6 {
		t.Errorf("a tree without its root: %v", got)
	}
	if got := treeOf(300, all); len(got) != 0 {
		t.Errorf("a tree of nobody: %v", got)
	}
	if got := pids(treeOf(108, all)); len(got) != 1 {
		t.Errorf("its own parent: %v", got)
	}
	for _, pid := range []int{-1, 0, 1} {
		if tree, err := readTree(pid); err == nil {
			t.Errorf("process %d gave a tree of %d", pid, len(tree))
		}
	}
}

func TestReadSignals(t *testing.T) {
	got, err := parseSignals("Name:\tx\nSigBlk:\t0000000000000004\nSigIgn:\t0000000001001000\nSigCgt:\t0000000000000202\n")
	if err != nil || got != (signalSets{caught: 0x202, ignored: 0x1001000, blocked: 4}) {
		t.Fatalf("%+v, %v", got, err)
	}
	for n, want := range map[int]bool{1: false, 2: true, 10: true, 0: false, 65: false, -3: false} {
		if has(got.caught, n) != want {
			t.Errorf("signal %d caught: %v", n, !want)
		}
	}
	for _, status := range []string{"", "SigCgt:\t0\n", "SigBlk:\t0\nSigIgn:\t0\nSigCgt:\tzz\n"} {
		if _, err := parseSignals(status); err == nil {
			t.Errorf("%q was read", status)
		}
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc here")
	}
	own, err := readSignals(os.Getpid())
	if err != nil || !has(own.caught, 3) {
		t.Errorf("a Go program catches SIGQUIT; read %+v, %v", own, err)
	}
}

// TestChooseTarget: whatever starts the program, the program is dumped.
func TestChooseTarget(t *testing.T) {
	c := func(pid, parent int, runtime runtimeKind, wrapper bool, exe, script string) candidate {
		depth := map[int]int{1: 0, 10: 1, 11: 2, 12: 3}[parent]
		return candidate{processStat: processStat{pid: pid, parent: parent, start: uint64(pid), comm: exe}, runtime: runtime, wrapper: wrapper, exe: "/usr/bin/" + exe, script: script, depth: depth}
	}
	for _, test := range []struct {
		name, target string
		tree         []candidate
		want         int // 0: an error
	}{
		{"alone", "", []candidate{c(10, 1, runtimeGo, false, "agent", "")}, 10},
		{"shell alone", "", []candidate{c(10, 1, runtimeShell, true, "sh", "")}, 10},
		{"shell, python", "", []candidate{c(10, 1, runtimeShell, true, "sh", ""), c(11, 10, runtimePython, false, "python3", "a.py")}, 11},
		{"shell, shell, python", "", []candidate{c(10, 1, runtimeShell, true, "sh", ""), c(11, 10, runtimeShell, true, "bash", ""), c(12, 11, runtimePython, false, "python3", "a.py")}, 12},
		{"npx, shell, node", "", []candidate{c(10, 1, runtimeNode, true, "node", "npx"), c(11, 10, runtimeShell, true, "sh", ""), c(12, 11, runtimeNode, false, "node", "a.js")}, 12},
		{"shell, sleep and python", "", []candidate{c(10, 1, runtimeShell, true, "sh", ""), c(11, 10, runtimeNative, false, "sleep", ""), c(12, 10, runtimePython, false, "python3", "a.py")}, 12},
		{"c with a helper in python", "", []candidate{c(10, 1, runtimeNative, false, "agent", ""), c(11, 10, runtimePython, false, "python3", "a.py")}, 10},
		{"python with a helper in python", "", []candidate{c(10, 1, runtimePython, false, "python3", "a.py"), c(11, 10, runtimePython, false, "python3", "b.py")}, 10},
		{"named by script", "b.py", []candidate{c(10, 1, runtimePython, false, "python3", "/srv/a.py"), c(11, 10, runtimePython, false, "python3", "/srv/b.py")}, 11},
		{"named by program", "ffmpeg", []candidate{c(10, 1, runtimePython, false, "python3", "a.py"), c(11, 10, runtimeNative, false, "ffmpeg", "in.mp4")}, 11},
		{"named, uppermost first", "python3", []candidate{c(10, 1, runtimePython, false, "python3", "a.py"), c(11, 10, runtimePython, false, "python3", "b.py")}, 10},
		{"named, not there", "nginx", []candidate{c(10, 1, runtimePython, false, "python3", "a.py")}, 0},
		{"all ended", "", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := likeliest(test.tree, test.target)
			if got.pid != test.want || (err != nil) != (test.want == 0) {
				t.Errorf("chose %d, want %d: %v", got.pid, test.want, err)
			}
			if err != nil && test.tree != nil && !strings.Contains(err.Error(), `"a.py"`) {
				t.Errorf("it does not say what there is: %v", err)
			}
		})
	}
}

func TestRuntimeNames(t *testing.T) {
	for exe, want := range map[string]runtimeKind{
		"/usr/bin/python3.11": runtimePython, "/x/pypy3.10": runtimePython, "/usr/bin/ruby3.1": runtimeRuby, "/opt/jdk/bin/java": runtimeJava,
		"/usr/bin/node": runtimeNode, "/usr/bin/php8.2": runtimePHP, "/usr/bin/bash": runtimeShell, "/bin/dash": runtimeShell, "/srv/agent": runtimeNative,
	} {
		if got := (candidate{exe: exe}).recognise("/proc/self/none"); got != want {
			t.Errorf("%s runs %s, want %s", exe, got, want)
		}
	}
	for _, c := range []candidate{
		{exe: "/usr/bin/node", runtime: runtimeNode, args: []string{"npm exec server"}},
		{exe: "/usr/bin/node", runtime: runtimeNode, args: []string{"node", "/usr/bin/npx"}, script: "/usr/bin/npx"},
		{exe: "/usr/bin/timeout", runtime: runtimeNative, args: []string{"timeout", "60", "x"}},
		{exe: "/usr/local/go/bin/go", runtime: runtimeGo, script: "run"},
	} {
		if !c.launches() {
			t.Errorf("%s %v is not seen as a launcher", c.exe, c.args)
		}
	}
	for _, c := range []candidate{
		{exe: "/usr/bin/node", runtime: runtimeNode, args: []string{"node", "server.js"}, script: "server.js"},
		{exe: "/srv/npx", runtime: runtimeNative, args: []string{"npx"}},
		{exe: "/usr/local/go/bin/go", runtime: runtimeGo, script: "build"},
	} {
		if c.launches() {
			t.Errorf("%s %v is seen as a launcher", c.exe, c.args)
		}
	}
}
