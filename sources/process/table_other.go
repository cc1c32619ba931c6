//go:build unix && !linux

package process

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"
)

// listProcesses lists what can be seen without /proc. A start is in milliseconds
// here; CPU is counted in the same.
func listProcesses() ([]processStat, error) {
	pids, err := process.Pids()
	if err != nil {
		return nil, err
	}
	var all []processStat
	for _, pid := range pids {
		if p, err := statOf(int(pid)); err == nil {
			all = append(all, p)
		}
	}
	if all == nil {
		return nil, errors.New("processes cannot be listed on this system")
	}
	return all, nil
}

func statOf(pid int) (processStat, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return processStat{}, err
	}
	parent, err := p.Ppid()
	if err != nil {
		return processStat{}, err
	}
	s := processStat{pid: pid, parent: int(parent), state: 'S'}
	if created, err := p.CreateTime(); err == nil {
		s.start = uint64(created)
	}
	s.group, _ = unix.Getpgid(pid)
	s.session, _ = unix.Getsid(pid)
	if name, err := p.Name(); err == nil {
		s.comm = name
	}
	if words, err := p.Status(); err == nil && len(words) > 0 && words[0] == process.Zombie {
		s.state = 'Z'
	}
	if times, err := p.Times(); err == nil {
		s.user, s.system = uint64(times.User*1000), uint64(times.System*1000)
	}
	return s, nil
}

func startOf(pid int) uint64 {
	p, err := statOf(pid)
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

// adoptOrphans cannot be had here: orphans go to the first process.
func adoptOrphans(bool) bool { return false }

// markOf reads the environment of a process where the system shows it to us.
func markOf(pid int) (string, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return "", err
	}
	env, err := p.Environ()
	if err != nil {
		return "", err
	}
	if len(env) == 0 {
		return "", errNoEnvironment
	}
	for _, v := range env {
		if mark, ok := strings.CutPrefix(v, markVariable+"="); ok {
			return mark, nil
		}
	}
	return "", nil
}

// runsOurs cannot be told here.
func runsOurs(int) bool { return false }

// ageOf is how long ago a process was started, by its start.
func ageOf(start uint64) time.Duration { return time.Since(time.UnixMilli(int64(start))) }

// signalMember signals a process by its number; between the look and the signal
// the number could be given again.
func signalMember(m member, sig syscall.Signal) {
	if p, err := statOf(m.pid); err == nil && p.start == m.start {
		_ = unix.Kill(m.pid, sig)
	}
}

func reap(int) {}

func rssOf(pid int) int64 {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0
	}
	return int64(info.RSS)
}

func cpuShare(milliseconds uint64, since time.Duration, first bool) float64 {
	if first || since <= 0 {
		return math.NaN()
	}
	return float64(milliseconds) * float64(time.Millisecond) / float64(since)
}

// machineBoot names the time since the machine was started.
func machineBoot() string {
	at, err := host.BootTime()
	if err != nil {
		return ""
	}
	return strconv.FormatUint(at, 10)
}

func sinceBoot() time.Duration {
	up, err := host.Uptime()
	if err != nil {
		return 0
	}
	return time.Duration(up) * time.Second
}
