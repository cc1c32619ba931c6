package process

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// DumpStore keeps captures as files: one directory a session, one file a
// capture, its header as a line of JSON and then the text as it was captured.
//
// Dumps may hold what the program had in hand: directories are 0700, files 0600,
// ours, and no symlink is followed below the data directory. What others put
// there is neither read nor removed. Several processes may use one store.
type DumpStore struct {
	dir string
}

// WireTime is a time of the wall clock in the spelling of the wire format: UTC,
// with milliseconds.
type WireTime struct{ time.Time }

// MarshalJSON gives the time as a string.
func (t WireTime) MarshalJSON() ([]byte, error) { return json.Marshal(wire.FormatTime(t.Time)) }

// UnmarshalJSON reads such a string.
func (t *WireTime) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	if err == nil {
		t.Time, err = wire.ParseTime(s)
	}
	return err
}

// DumpPart is one piece of a capture: what one step gave.
type DumpPart struct {
	Method    string   `json:"method"`
	Sample    int      `json:"sample"` // from 1
	At        WireTime `json:"at"`     // wall clock
	Offset    int64    `json:"offset"` // in the text, behind the header's line
	Bytes     int64    `json:"bytes"`
	ExitCode  *int     `json:"exit_code"` // of the tool, if one was run
	Truncated bool     `json:"truncated"`
}

// DumpStep tells what became of a step of the ladder.
type DumpStep struct {
	Method string `json:"method"`
	Taken  bool   `json:"taken"`
	Detail string `json:"detail"`
	TookMs int64  `json:"took_ms"`
}

// DumpHeader is the record of a capture. ID names it among all sessions.
type DumpHeader struct {
	ID         string     `json:"id"`
	SessionID  string     `json:"session_id"`
	Generation *uint64    `json:"generation"`
	At         WireTime   `json:"at"` // wall clock
	Reason     string     `json:"reason"`
	Method     *string    `json:"method"` // null: nothing was had
	Bytes      int64      `json:"bytes"`
	Truncated  bool       `json:"truncated"`
	Format     *string    `json:"format"`
	Verdict    *string    `json:"verdict"`
	Culprit    *string    `json:"culprit"`
	PID        int        `json:"pid"`
	Target     string     `json:"target"`
	Runtime    string     `json:"runtime"`
	ExitCode   *int       `json:"exit_code"`
	LoopThread string     `json:"loop_thread"`
	TookMs     int64      `json:"took_ms"`
	Parts      []DumpPart `json:"parts"` // the best first
	Steps      []DumpStep `json:"steps"`

	// Of one that was asked for over a bus, where it was asked for.
	Command *string `json:"command_id"`
	By      *string `json:"by"` // who took it

	// Origin is its name where it was taken, of one that came over a bus.
	Origin *string `json:"origin,omitempty"`
}

// DumpEntry is a capture in a listing.
type DumpEntry struct {
	ID        string   `json:"id"`
	At        WireTime `json:"at"`
	Reason    string   `json:"reason"`
	Method    *string  `json:"method"`
	Bytes     int64    `json:"bytes"`
	Truncated bool     `json:"truncated"`
	Format    *string  `json:"format"`
	Verdict   *string  `json:"verdict"`
	Culprit   *string  `json:"culprit"`
}

// Entry is what a listing shows of a capture.
func (h *DumpHeader) Entry() DumpEntry {
	return DumpEntry{
		ID: h.ID, At: h.At, Reason: h.Reason, Method: h.Method, Bytes: h.Bytes,
		Truncated: h.Truncated, Format: h.Format, Verdict: h.Verdict, Culprit: h.Culprit,
	}
}

const (
	dumpSuffix    = ".dump"
	dumpHeaderMax = 1 << 20
	dumpStamp     = "20060102T150405.000Z" // sorts as it passes
)

// NewDumpStore gives the store below a data directory. Nothing is created before
// the first capture.
func NewDumpStore(dataDir string) *DumpStore {
	return &DumpStore{dir: filepath.Join(dataDir, "dumps")}
}

// sessionDir is the name of a session's directory: base64url of its id, and for
// ids that are too long for a file name its start and a digest.
func sessionDir(id watchdog.ID) string {
	name := base64.RawURLEncoding.EncodeToString([]byte(id))
	if len(name) > 200 {
		sum := sha256.Sum256([]byte(id))
		name = name[:128] + "~" + hex.EncodeToString(sum[:16])
	}
	return name
}

// Save keeps a capture, removes all but the newest keep of its session, and
// gives the path of its file. It sets the header's ID.
func (s *DumpStore) Save(h *DumpHeader, text []byte, keep int) (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the dump cannot be kept in %s: %w", s.dir, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o700); err != nil {
		return "", err
	}
	if err := ownDirectory(s.dir, os.Mkdir, os.Lstat); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	dir := sessionDir(watchdog.ID(h.SessionID))
	if err := ownDirectory(dir, root.Mkdir, root.Lstat); err != nil {
		return "", err
	}
	session, err := root.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = session.Close() }()
	name, err := writeDump(session, h, text)
	if err != nil {
		return "", err
	}
	prune(session, max(keep, 1))
	return filepath.Join(s.dir, dir, name), nil
}

// ownDirectory makes a directory that only we may enter, or sees to it that it
// is one.
func ownDirectory(path string, mkdir func(string, fs.FileMode) error, lstat func(string) (fs.FileInfo, error)) error {
	if err := mkdir(path, 0o700); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := lstat(path)
	if err != nil {
		return err
	}
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !info.IsDir():
		return fmt.Errorf("%s is no directory: move it away", path)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user: move it away", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s may be entered by others (mode %o): chmod it to 700", path, info.Mode().Perm())
	}
	return nil
}

// writeDump writes the file under a name of its own, so that a reader sees the
// whole of it or nothing.
func writeDump(dir *os.Root, h *DumpHeader, text []byte) (name string, err error) {
	name, err = reserve(dir, h)
	if err != nil {
		return "", err
	}
	partial := name + ".part"
	f, err := dir.OpenFile(partial, createNew, 0o600)
	if err == nil {
		err = writeHeaderAndText(f, h, text)
	}
	if err == nil {
		err = dir.Rename(partial, name)
	}
	if err != nil {
		_, _ = dir.Remove(partial), dir.Remove(name)
		return "", err
	}
	return name, nil
}

const createNew = os.O_WRONLY | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW

// reserve finds the name of a capture and holds it with an empty file: other
// processes may dump within the same millisecond.
func reserve(dir *os.Root, h *DumpHeader) (name string, err error) {
	for at := h.At.Time; ; at = at.Add(time.Millisecond) {
		stamp := at.UTC().Format(dumpStamp)
		name = stamp + dumpSuffix
		f, err := dir.OpenFile(name, createNew, 0o600)
		if err == nil {
			if _, taken := dir.Lstat(name + ".part"); taken == nil {
				err = errors.Join(f.Close(), dir.Remove(name), fs.ErrExist) // left by a crash, or planted
			} else {
				h.ID = h.SessionID + "@" + stamp
				return name, f.Close()
			}
		}
		if !errors.Is(err, fs.ErrExist) || at.Sub(h.At.Time) > time.Second {
			return "", err
		}
	}
}

func writeHeaderAndText(f *os.File, h *DumpHeader, text []byte) error {
	line, err := json.Marshal(h)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err == nil {
		_, err = f.Write(text)
	}
	return errors.Join(err, f.Close())
}

// prune removes all but the newest captures. That one cannot be removed is no
// reason to lose the new one: it is tried again with the next.
func prune(dir *os.Root, keep int) {
	names := dumpNames(dir)
	for len(names) > keep {
		_ = dir.Remove(names[0])
		names = names[1:]
	}
}

// dumpNames gives the files of captures, the oldest first.
func dumpNames(dir *os.Root) []string {
	f, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	all, _ := f.Readdirnames(-1)
	names := slices.DeleteFunc(all, func(n string) bool {
		stamp, ok := strings.CutSuffix(n, dumpSuffix)
		_, err := time.Parse(dumpStamp, stamp)
		return !ok || err != nil
	})
	slices.Sort(names)
	return names
}

// List gives the headers of a session's captures, the newest first; of all
// sessions if id is empty. Files that hold no capture are passed over.
func (s *DumpStore) List(id watchdog.ID) ([]DumpHeader, error) {
	root, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dumps cannot be listed: %w", err)
	}
	defer func() { _ = root.Close() }()
	dirs := []string{sessionDir(id)}
	if id == "" {
		all, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return nil, fmt.Errorf("dumps cannot be listed: %w", err)
		}
		dirs = dirs[:0]
		for _, e := range all {
			if e.IsDir() {
				dirs = append(dirs, e.Name())
			}
		}
	}
	var list []DumpHeader
	for _, dir := range dirs {
		list = append(list, listDir(root, dir)...)
	}
	slices.SortStableFunc(list, func(a, b DumpHeader) int { return b.At.Compare(a.At.Time) })
	return list, nil
}

// open gives the directory of all sessions, unless something else is in its
// place.
func (s *DumpStore) open() (*os.Root, error) {
	if info, err := os.Lstat(s.dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory: move it away", s.dir)
	}
	return os.OpenRoot(s.dir)
}

// openSession gives the directory of one session.
func openSession(root *os.Root, name string) (*os.Root, error) {
	if info, err := root.Lstat(name); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory: move it away", name)
	}
	return root.OpenRoot(name)
}

func listDir(root *os.Root, name string) []DumpHeader {
	dir, err := openSession(root, name)
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	var list []DumpHeader
	for _, file := range slices.Backward(dumpNames(dir)) {
		h, body, err := openDump(dir, file)
		if err != nil {
			continue
		}
		_ = body.Close()
		if sessionDir(watchdog.ID(h.SessionID)) == name {
			list = append(list, h)
		}
	}
	return list
}

// ErrNoDump says that a capture is not, or no longer, kept.
var ErrNoDump = errors.New("there is no such dump: it may have been removed for newer ones")

// Open gives the header of a capture and its text, which the caller closes. It
// takes the ID of a header, and ends with [ErrNoDump] if that is not kept.
func (s *DumpStore) Open(dumpID string) (DumpHeader, io.ReadCloser, error) {
	at := strings.LastIndexByte(dumpID, '@')
	if at < 0 {
		return DumpHeader{}, nil, ErrNoDump
	}
	name := dumpID[at+1:] + dumpSuffix
	if _, err := time.Parse(dumpStamp+dumpSuffix, name); err != nil {
		return DumpHeader{}, nil, ErrNoDump
	}
	root, err := s.open()
	if err != nil {
		return DumpHeader{}, nil, notKept(err)
	}
	defer func() { _ = root.Close() }()
	dir, err := openSession(root, sessionDir(watchdog.ID(dumpID[:at])))
	if err != nil {
		return DumpHeader{}, nil, notKept(err)
	}
	defer func() { _ = dir.Close() }()
	h, body, err := openDump(dir, name)
	if err != nil {
		return DumpHeader{}, nil, notKept(err)
	}
	return h, body, nil
}

func notKept(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoDump
	}
	return fmt.Errorf("the dump cannot be read: %w", err)
}

// dumpBody is what follows the header.
type dumpBody struct {
	io.Reader
	io.Closer
}

// openDump opens a file of ours and reads its header.
func openDump(dir *os.Root, name string) (h DumpHeader, body io.ReadCloser, err error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return h, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	in := bufio.NewReaderSize(f, 32<<10)
	if err == nil {
		err = readHeader(in, &h)
	}
	if err != nil {
		_ = f.Close()
		return h, nil, err
	}
	return h, dumpBody{in, f}, nil
}

// CutHeader splits the content of a file out of a store into header and text; ok
// is false of what is no such file.
func CutHeader(file string) (h DumpHeader, text string, ok bool) {
	line, text, ok := strings.Cut(file, "\n")
	if !ok || len(line) > dumpHeaderMax || !strings.HasPrefix(line, `{"id":"`) {
		return DumpHeader{}, "", false
	}
	if err := json.Unmarshal([]byte(line), &h); err != nil || !strings.HasPrefix(h.ID, h.SessionID+"@") {
		return DumpHeader{}, "", false
	}
	return h, text, true
}

func readHeader(in *bufio.Reader, h *DumpHeader) error {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			if err := json.Unmarshal(bytes.TrimSpace(line), h); err != nil {
				return fmt.Errorf("its header is no capture's: %w", err)
			}
			return nil
		case !errors.Is(err, bufio.ErrBufferFull) || len(line) > dumpHeaderMax:
			return errors.New("its header is not whole")
		}
	}
}
