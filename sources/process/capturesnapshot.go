package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// Bounds of a snapshot: beyond them there is a line that says so.
const (
	snapshotThreads = 4096 // of the target
	snapshotOthers  = 256  // of all other processes of the tree together
)

// takeSnapshot writes what the kernel knows of every thread of the target, and
// then of the rest of its tree: a wrapper's child, or what the target waits for.
// No process notices.
func (c *capturing) takeSnapshot(ctx context.Context, limit int64) (taking, error) {
	out := &clipWriter{limit: limit}
	threads := 0
	if c.target.pid != 0 {
		threads = c.writeThreads(ctx, out, c.target, snapshotThreads)
	}
	rest := snapshotOthers
	for _, member := range candidates(c.freshTree()) {
		if member.pid == c.target.pid {
			continue
		}
		if rest <= 0 || ctx.Err() != nil {
			fmt.Fprintf(out, "[... further processes of the tree left out ...]\n")
			break
		}
		fmt.Fprintf(out, "## process %d parent %d %s %s\n", member.pid, member.parent, member.runtime, termtext.Clean(member.label()))
		n := c.writeThreads(ctx, out, member, rest)
		rest -= n
		threads += n
	}
	text, cut := out.text()
	if threads == 0 {
		return taking{}, errors.New("no thread of it could be read in /proc")
	}
	return taking{text: text, cut: cut, note: fmt.Sprintf("%d threads", threads)}, nil
}

// freshTree is the tree as it is now, or as it was when it was last read.
func (c *capturing) freshTree() []processStat {
	if now, err := readTree(c.want.PID); err == nil {
		c.tree = now
	}
	return c.tree
}

// writeThreads writes the threads of one process, at most limit of them.
func (c *capturing) writeThreads(ctx context.Context, out *clipWriter, p candidate, limit int) int {
	dir := "/proc/" + strconv.Itoa(p.pid) + "/task"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var tids []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids)
	n := 0
	for _, tid := range tids {
		if n == limit || ctx.Err() != nil {
			fmt.Fprintf(out, "[... %d further threads left out ...]\n", len(tids)-n)
			break
		}
		if entry := threadEntry(dir+"/"+strconv.Itoa(tid), tid); entry != nil {
			_, _ = out.Write(entry)
			n++
		}
	}
	return n
}

// threadEntry is what the kernel says of one thread; nil if it has ended. What
// may not be read is "?" (wchan, syscall) or not there (the kernel's stack).
func threadEntry(dir string, tid int) []byte {
	stat, err := readStatFile(dir + "/stat")
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "== tid %d comm=%s wchan=%s syscall=%s\nState:\t", tid, termtext.Clean(stat.comm), oneLine(dir+"/wchan"), oneLine(dir+"/syscall"))
	status, _ := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		switch name {
		case "State":
			b.WriteString(strings.TrimSpace(value) + " ")
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			b.WriteString(name + ":" + value + " ")
		}
	}
	b.WriteByte('\n')
	if stack, err := readStart(dir+"/stack", 16<<10); err == nil {
		b.Write(stack)
		if n := len(stack); n > 0 && stack[n-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "%d %d\n", stat.user, stat.system)
	return b.Bytes()
}

func oneLine(path string) string {
	text, err := readStart(path, 512)
	if line := strings.TrimSpace(string(text)); err == nil && line != "" {
		return line
	}
	return "?"
}
