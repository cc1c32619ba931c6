package process

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the kernel's USER_HZ, which is 100 on every architecture that Go
// runs on.
const clockTick = time.Second / 100

func listProcesses() ([]processStat, error) { return readProcesses() }

func statOf(pid int) (processStat, error) { return readStat(pid) }

// startOf is the start time of a process in clock ticks since boot; 0 not known.
func startOf(pid int) uint64 {
	p, err := readStat(pid)
	if err != nil {
		return 0
	}
	return p.start
}

func sessionOf() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return 0
	}
	return sid
}

// adoptOrphans makes the orphans among our descendants our children, or no
// longer. It reports whether they are.
func adoptOrphans(on bool) bool {
	var flag uintptr
	if on {
		flag = 1
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, flag, 0, 0, 0) == nil && on
}

// markOf is the mark of the run in the environment that a process was started
// with; empty if it has none. errNoEnvironment: it is not shown, or not all of
// it, as happens while the process begins to run another program.
func markOf(pid int) (string, error) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", err
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if mark, ok := strings.CutPrefix(string(v), markVariable+"="); ok {
			return mark, nil
		}
	}
	if len(env) == 0 || env[len(env)-1] != 0 {
		return "", errNoEnvironment
	}
	return "", nil
}

// runsOurs reports whether a process runs the same program as we do: it was
// forked by us, and is about to run another.
func runsOurs(pid int) bool {
	ours, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return false
	}
	its, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && its == ours
}

// ageOf is how long ago a process was started, by its start.
func ageOf(start uint64) time.Duration { return sinceBoot() - time.Duration(start)*clockTick }

// signalMember signals a process by a handle, so that the signal cannot reach
// one that was given the same number meanwhile.
func signalMember(m member, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if p, statErr := readStat(m.pid); statErr != nil || p.start != m.start {
		return
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if errors.Is(err, unix.ENOSYS) {
		_ = unix.Kill(m.pid, sig)
	}
}

// reap takes the exit status of one ended child.
func reap(pid int) {
	var ws unix.WaitStatus
	_, _ = unix.Wait4(pid, &ws, unix.WNOHANG, nil)
}

// rssOf is the resident memory of a process in bytes.
func rssOf(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(text)
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func cpuShare(ticks uint64, since time.Duration, first bool) float64 {
	if first || since <= 0 {
		return math.NaN()
	}
	return float64(ticks) * float64(clockTick) / float64(since)
}

// machineBoot names the time since the machine was started; processes of another
// boot are gone.
func machineBoot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// sinceBoot counts the time since the machine was started, suspends included.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
