package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// State is what a supervisor has to know after its own restart.
type State struct {
	Boot      string        // of the machine; its processes and its clock are of one boot
	SinceBoot time.Duration // when it was saved, on the machine's boot clock
	Sockets   string        // directory of the notify sockets that is to be removed; empty none
	Fleet     watchdog.FleetState
	Sessions  map[watchdog.ID]SessionState
}

// SessionState is the part of one session.
type SessionState struct {
	Argv       []string
	Dir        string
	Chain      watchdog.RestartChain
	Stopped    bool // by somebody, who did not start it again
	Restarts   int
	Generation watchdog.Generation // the last one that is known
	BootID     string              // of the last run; empty: none
	Run        *RunState           // nil: nothing runs
	Executions []Execution         // not settled yet, that of Run among them
}

// RunState names the processes of a run.
type RunState struct {
	BootID string // of the execution; its mark in the environment of its processes
	PID    int    // 0: it was about to be started
	Start  uint64 // of the leader, as the kernel counts it
	Group  string // its cgroup; empty none
}

// Store keeps the state of one supervisor. Calls do not overlap.
type Store interface {
	// Load gives what was saved last; the zero State if nothing was.
	Load() (State, error)
	Save(State) error
}

// FileStore keeps the state in a JSON file (0600) that is replaced as a whole.
// It belongs to one supervisor at a time.
type FileStore struct {
	path string
	lock *os.File
	mu   sync.Mutex
}

// OpenFileStore takes possession of the file at path, whose directory is made
// (0700) if it is missing. Close gives it back.
func OpenFileStore(path string) (*FileStore, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("the directory of the supervisor's state cannot be made: %w; set data_dir", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the supervisor's state cannot be locked: %w; set data_dir to a directory of your own", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		held, _ := os.ReadFile(path + ".lock")
		_ = lock.Close()
		return nil, fmt.Errorf("%s is held by pid %s: these sessions are supervised already; end that one, or use another --id or data_dir",
			path, strings.TrimSpace(string(held)))
	}
	_ = lock.Truncate(0)
	_, _ = fmt.Fprintf(lock, "%d\n", os.Getpid())
	return &FileStore{path: path, lock: lock}, nil
}

// Close gives the file back.
func (f *FileStore) Close() error { return f.lock.Close() }

// stateFormat is raised when an older reader would misunderstand the file.
const stateFormat = 1

type stateFile struct {
	Format int `json:"sessionwatch_supervisor"`
	State
}

// Load reads the file.
func (f *FileStore) Load() (State, error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("the supervisor's state cannot be read: %w", err)
	}
	var s stateFile
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, fmt.Errorf("%s is damaged (%w): processes of an earlier supervisor may still run; look for them, then move the file away", f.path, err)
	}
	if s.Format != stateFormat {
		return State{}, fmt.Errorf("%s is of format %d and this program knows %d: use the program that wrote it, or move the file away", f.path, s.Format, stateFormat)
	}
	return s.State, nil
}

// Save replaces the file. It is not flushed to the disk: after a crash of the
// machine there are no processes to find again.
func (f *FileStore) Save(s State) error {
	text, err := json.MarshalIndent(stateFile{stateFormat, s}, "", " ")
	if err != nil {
		return fmt.Errorf("the supervisor's state cannot be written: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	tmp := f.path + ".new"
	_ = os.Remove(tmp)
	out, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		_, err = out.Write(text)
		err = errors.Join(err, out.Close())
	}
	if err == nil {
		err = os.Rename(tmp, f.path)
	}
	if err != nil {
		return fmt.Errorf("the supervisor's state cannot be written: %w; what runs is not found again after a crash", err)
	}
	return nil
}

// memoryStore forgets with the process: nothing of an earlier one is found.
type memoryStore struct{}

func (memoryStore) Load() (State, error) { return State{}, nil }
func (memoryStore) Save(State) error     { return nil }
