package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// cgroups is a directory of the kernel's unified hierarchy in which we may make
// groups. What is started in a group cannot leave it, whatever it does to its
// session, its parent and its environment.
type cgroups struct{ dir string }

// openCgroups makes a directory of our own below the group that we run in. It is
// nil where there is no unified hierarchy, or it is not ours to write.
func openCgroups() *cgroups {
	below := ownCgroup()
	if below == "" {
		return nil
	}
	return cgroupsIn(below)
}

func cgroupsIn(below string) *cgroups {
	// Empty directories of killed supervisors; one that is in use is not removed.
	old, _ := filepath.Glob(filepath.Join(below, "sessionwatch-*"))
	for _, dir := range old {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "sessionwatch-"))
		if _, statErr := statOf(pid); err == nil && statErr != nil {
			_ = os.Remove(dir)
		}
	}
	dir := filepath.Join(below, "sessionwatch-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0) // since Linux 5.14
	if err != nil {
		_ = os.Remove(dir)
		return nil
	}
	_ = f.Close()
	return &cgroups{dir: dir}
}

// ownCgroup is the directory of the group that we run in; empty: none is seen.
func ownCgroup() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return cgroupDir(string(mounts), string(groups))
}

// cgroupDir finds the directory: where the hierarchy is mounted, and our place
// in it.
func cgroupDir(mounts, groups string) string {
	mount := ""
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		if f := strings.Fields(before); ok && len(f) >= 5 && strings.HasPrefix(after, "cgroup2 ") && f[3] == "/" {
			mount = f[4]
			break
		}
	}
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && mount != "" && !strings.Contains(path, "..") {
			return filepath.Join(mount, path)
		}
	}
	return ""
}

// close removes the directory, if no group is left in it.
func (g *cgroups) close() {
	if g != nil {
		_ = os.Remove(g.dir)
	}
}

// cgroup is the group of one run. All methods may be called on a nil one.
type cgroup struct {
	dir string
	fd  *os.File
}

// group makes the group of a run; nil if it cannot be made.
func (g *cgroups) group(name string) *cgroup {
	if g == nil {
		return nil
	}
	dir := filepath.Join(g.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil
	}
	fd, err := os.Open(dir)
	if err != nil {
		_ = os.Remove(dir)
		return nil
	}
	return &cgroup{dir: dir, fd: fd}
}

// leftGroup is the group of a run of an earlier supervisor.
func leftGroup(dir string) *cgroup {
	if !strings.HasPrefix(filepath.Base(filepath.Dir(dir)), "sessionwatch-") {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		return nil
	}
	return &cgroup{dir: dir}
}

// start has a child begin its life in the group.
func (c *cgroup) start(attr *syscall.SysProcAttr) {
	if c != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.fd.Fd())
	}
}

// path names the group for the next supervisor.
func (c *cgroup) path() string {
	if c == nil {
		return ""
	}
	return c.dir
}

// pids are the members, in groups below it too.
func (c *cgroup) pids() []int {
	if c == nil {
		return nil
	}
	var out []int
	_ = filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for f := range bytes.FieldsSeq(text) {
			if pid, err := strconv.Atoi(string(f)); err == nil && pid > 1 {
				out = append(out, pid)
			}
		}
		return nil
	})
	return out
}

// kill ends all members at once.
func (c *cgroup) kill() {
	if c != nil {
		_ = os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// close removes the group, if nothing is left in it.
func (c *cgroup) close() {
	if c == nil {
		return
	}
	if c.fd != nil {
		_ = c.fd.Close()
	}
	var dirs []string
	_ = filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		_ = os.Remove(dirs[i])
	}
	if c.fd == nil { // of a supervisor that cannot remove its directory any more
		_ = os.Remove(filepath.Dir(c.dir))
	}
}
