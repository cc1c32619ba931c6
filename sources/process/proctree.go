package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// processStat is one line of /proc/PID/stat: who a process is and where it
// stands in its tree. A pid is a name that is given again; pid and start
// together name one process for as long as the machine is up.
type processStat struct {
	pid, parent    int
	group, session int
	start          uint64 // clock ticks since boot
	state          byte   // R S D T t Z X I
	threads        int
	user, system   uint64 // clock ticks of all threads
	comm           string // as the kernel has it: hostile, 15 bytes at most
}

// stopped reports whether the process cannot answer: it was stopped, or a
// debugger holds it.
func (p processStat) stopped() bool { return p.state == 'T' || p.state == 't' }

// ended reports whether only the exit status is left of it.
func (p processStat) ended() bool { return p.state == 'Z' || p.state == 'X' }

// readStat reads the line of one process.
func readStat(pid int) (processStat, error) {
	return readStatFile("/proc/" + strconv.Itoa(pid) + "/stat")
}

func readStatFile(path string) (processStat, error) {
	line, err := os.ReadFile(path)
	if err != nil {
		return processStat{}, err
	}
	return parseStat(line)
}

var errStat = errors.New("the kernel's line about the process cannot be read")

// parseStat reads "pid (comm) state parent ...". The comm may hold anything, ") R"
// too, so that only its last parenthesis ends it.
func parseStat(line []byte) (processStat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return processStat{}, errStat
	}
	p := processStat{comm: string(line[open+1 : end])}
	var err error
	if p.pid, err = strconv.Atoi(string(bytes.TrimSpace(line[:open]))); err != nil {
		return processStat{}, errStat
	}
	f := bytes.Fields(line[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return processStat{}, errStat
	}
	p.state = f[0][0]
	for i, dst := range map[int]*int{1: &p.parent, 2: &p.group, 3: &p.session, 17: &p.threads} {
		if *dst, err = strconv.Atoi(string(f[i])); err != nil {
			return processStat{}, errStat
		}
	}
	for i, dst := range map[int]*uint64{11: &p.user, 12: &p.system, 19: &p.start} {
		if *dst, err = strconv.ParseUint(string(f[i]), 10, 64); err != nil {
			return processStat{}, errStat
		}
	}
	return p, nil
}

// readProcesses reads every process of the machine. Those that end meanwhile are
// left out; an error means that there is no /proc to read.
func readProcesses() ([]processStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("processes cannot be listed: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("processes cannot be listed: %w", err)
	}
	var all []processStat
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if p, err := readStatFile("/proc/" + name + "/stat"); err == nil {
			all = append(all, p)
		}
	}
	if all == nil {
		return nil, errors.New("processes cannot be listed: /proc is empty here")
	}
	return all, nil
}

// treeOf gives the members of the tree below root out of all processes: root
// first, then its descendants by depth and age, then those of its group or
// session whose own parents are gone. A root that has ended already still has
// its group.
func treeOf(root int, all []processStat) []processStat {
	children := make(map[int][]processStat)
	var queue, orphans []processStat
	for _, p := range all {
		switch {
		case p.pid == root:
			queue = append(queue, p)
		case p.group == root || p.session == root:
			orphans = append(orphans, p)
		}
		children[p.parent] = append(children[p.parent], p)
	}
	older := func(a, b processStat) int {
		if a.start != b.start {
			return int(min(max(int64(a.start)-int64(b.start), -1), 1))
		}
		return a.pid - b.pid
	}
	slices.SortFunc(orphans, older)
	var tree []processStat
	seen := make(map[int]bool)
	walk := func() {
		for len(queue) > 0 {
			p := queue[0]
			queue = queue[1:]
			if seen[p.pid] {
				continue
			}
			seen[p.pid] = true
			tree = append(tree, p)
			below := children[p.pid]
			slices.SortFunc(below, older)
			queue = append(queue, below...)
		}
	}
	walk()
	for _, p := range orphans {
		queue = append(queue, p)
		walk()
	}
	return tree
}

// readTree reads the tree below root as it is now.
func readTree(root int) ([]processStat, error) {
	if root <= 1 {
		return nil, fmt.Errorf("%d is no process of ours", root)
	}
	all, err := readProcesses()
	if err != nil {
		return nil, err
	}
	tree := treeOf(root, all)
	if len(tree) == 0 {
		return nil, fmt.Errorf("process %d is gone", root)
	}
	return tree, nil
}

// signalSets are the sets of signals of a process, bit n-1 for signal n.
type signalSets struct {
	caught, ignored, blocked uint64
}

// readSignals reads which signals a process handles. What it does not catch ends
// it, as a rule, so these are read before each signal that is not meant to.
func readSignals(pid int) (signalSets, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return signalSets{}, fmt.Errorf("which signals process %d handles cannot be read: %w", pid, err)
	}
	return parseSignals(string(status))
}

func parseSignals(status string) (signalSets, error) {
	var s signalSets
	found := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		var dst *uint64
		switch name {
		case "SigCgt":
			dst = &s.caught
		case "SigIgn":
			dst = &s.ignored
		case "SigBlk":
			dst = &s.blocked
		default:
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return signalSets{}, fmt.Errorf("the kernel's %s %q is not a mask", name, strings.TrimSpace(value))
		}
		*dst = mask
		found++
	}
	if found != 3 {
		return signalSets{}, errors.New("the kernel does not say which signals the process handles")
	}
	return s, nil
}

// has reports whether the set holds signal n.
func has(set uint64, n int) bool { return n >= 1 && n <= 64 && set&(1<<(n-1)) != 0 }
