//go:build unix && !linux

package process

import "syscall"

// There are no such groups here: see the Linux file for what they are for.
type (
	cgroups struct{}
	cgroup  struct{}
)

func openCgroups() *cgroups { return nil }

func (*cgroups) group(string) *cgroup { return nil }
func (*cgroups) close()               {}

func leftGroup(string) *cgroup { return nil }

func (*cgroup) start(*syscall.SysProcAttr) {}
func (*cgroup) path() string               { return "" }
func (*cgroup) pids() []int                { return nil }
func (*cgroup) kill()                      {}
func (*cgroup) close()                     {}
