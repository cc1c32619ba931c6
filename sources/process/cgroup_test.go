//go:build linux

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

func TestThePlaceOfOurGroupIsFound(t *testing.T) {
	for _, c := range []struct{ mounts, groups, want string }{
		{"30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n", "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"30 23 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw\n31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n", "4:cpu:/\n0::/x\n", "/sys/fs/cgroup/unified/x"},
		{"31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "4:cpu:/\n", ""},
		{"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "4:cpu:/\n", ""},
		{"30 23 0:26 /other /mnt rw - cgroup2 cgroup2 rw\n", "0::/x\n", ""},
		{"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/../../x\n", ""},
		{"", "", ""},
	} {
		if got := cgroupDir(c.mounts, c.groups); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.mounts, c.groups, got, c.want)
		}
	}
}

// unified gives a hierarchy that we may write, where that can be had.
func unified(t *testing.T) *cgroups {
	t.Helper()
	if g := openCgroups(); g != nil {
		t.Cleanup(g.close)
		return g
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "cgroup2", 0, ""); err != nil {
		t.Skipf("no unified hierarchy can be written or mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	g := cgroupsIn(dir)
	if g == nil {
		t.Skip("this kernel kills no groups")
	}
	t.Cleanup(g.close)
	return g
}

func TestNothingLeavesAGroupOfTheKernel(t *testing.T) {
	sourcetest.RealBinary(t, "setsid")
	groups := unified(t)
	w := new(witness)
	file := filepath.Join(t.TempDir(), "pid")
	// Gone from its parent, its session and its environment before anybody looks.
	script := "(setsid env -i /bin/sh -c 'trap \"\" TERM; echo $$ > PID; while :; do sleep 0.1; done' &); exit 0"
	session := shell("a", strings.ReplaceAll(script, "PID", file))
	session.StopGrace = 300 * time.Millisecond
	s := supervise(t, w, func(o *Options) { o.cgroups, o.sample = groups, time.Hour }, session)
	st, err := s.Wait(within(t), "a")
	if err != nil || len(st.Survivors) > 0 {
		t.Errorf("got %+v, %v", st, err)
	}
	if text, err := os.ReadFile(file); err == nil && len(text) > 1 {
		if pid := pidIn(t, file); alive(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
	if left := ourChildren(t); len(left) > 0 {
		t.Errorf("children are left: %+v", left)
	}
	if left, _ := filepath.Glob(groups.dir + "/*/cgroup.procs"); len(left) > 0 {
		t.Errorf("groups are left: %v", left)
	}
}

func TestAGroupThatIsRefusedCostsOnlyTheGroup(t *testing.T) {
	w := new(witness)
	s := supervise(t, w, func(o *Options) { o.cgroups = &cgroups{dir: t.TempDir()} }, shell("a", "exit 0"))
	st, err := s.Wait(within(t), "a")
	if err != nil || st.ExitCode() != 0 {
		t.Errorf("got %+v, %v", st, err)
	}
}
