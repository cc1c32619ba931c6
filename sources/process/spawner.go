package process

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

var errSpawnerClosed = errors.New("the supervisor has ended; nothing is started any more")

// spawner starts all children from one thread that stays as long as any of them
// lives: the death signal that children ask for is sent when the thread ends
// that started them, not the process.
type spawner struct {
	jobs chan func()
	quit chan struct{}
	done sync.WaitGroup
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func()), quit: make(chan struct{})}
	s.done.Go(func() {
		// Never unlocked: a thread on which death signals hang is not given back.
		runtime.LockOSThread()
		for {
			select {
			case job := <-s.jobs:
				job()
			case <-s.quit:
				return
			}
		}
	})
	return s
}

// start starts cmd on the thread of the spawner.
func (s *spawner) start(cmd *exec.Cmd) error {
	answer := make(chan error, 1)
	select {
	case s.jobs <- func() { answer <- cmd.Start() }:
		return <-answer
	case <-s.quit:
		return errSpawnerClosed
	}
}

// close ends the thread. What it started and still runs is killed by that.
func (s *spawner) close() {
	close(s.quit)
	s.done.Wait()
}
