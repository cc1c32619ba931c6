package filestore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// openLimit is how long Open waits for another process to let go.
	openLimit = time.Second
	// checkLimit is the size up to which every page of a file is looked at when
	// it is opened.
	checkLimit = 64 << 20
	// format is what the present layout is called in a file.
	format = "sessionwatch 1"
)

// The parts of a file. Keys that begin with a number hold it big-endian, so
// that their order is its order.
var (
	bucketMeta       = []byte("meta")       // format, identity, authority, selftest
	bucketHeads      = []byte("heads")      // id -> head
	bucketRecords    = []byte("records")    // id 0 generation -> terminal record
	bucketOutbox     = []byte("outbox")     // number -> key of the record
	bucketUntold     = []byte("untold")     // key of the record -> number in outbox
	bucketHistory    = []byte("history")    // number -> entry
	bucketTimelines  = []byte("timelines")  // id -> bucket of number -> nothing
	bucketQuarantine = []byte("quarantine") // id -> bucket of number -> what came late

	keyFormat   = []byte("format")
	keyIdentity = []byte("identity")
	keyMarker   = []byte("authority")
	keySelfTest = []byte("selftest")
)

var buckets = [][]byte{
	bucketMeta, bucketHeads, bucketRecords, bucketOutbox, bucketUntold, bucketHistory, bucketTimelines, bucketQuarantine,
}

// ErrDamaged is wrapped by what a file answers that cannot be read any more.
var ErrDamaged = errors.New("the file is damaged")

// File is one open file. It is safe for concurrent use.
type File struct {
	path     string
	identity string
	db       *bbolt.DB
	file     *os.File // the one that db uses
	logger   *slog.Logger
	broken   atomic.Pointer[error] // set once: nothing is read or written any more

	mu        sync.Mutex
	followers map[*follower]struct{}
}

// Open opens the file at path, and makes it if there is none. The error says
// who holds it, or what is wrong with it and what to do. A nil logger drops the
// log.
func Open(path string, logger *slog.Logger) (*File, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path, layFile); err != nil {
			return nil, fmt.Errorf("%s cannot be made: %w", path, sayFull(err))
		}
	}
	f := &File{path: path, logger: logger, followers: make(map[*follower]struct{})}
	if err := f.open(); err != nil {
		f.abandon()
		return nil, err
	}
	notePID(path)
	return f, nil
}

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Close lets go of the file. Calls under way end first.
func (f *File) Close() error {
	_ = os.Remove(pidPath(f.path))
	if f.broken.Load() != nil {
		f.abandon()
		return nil
	}
	return f.db.Close()
}

// abandon lets go of a file whose database cannot be closed: a panic may have
// left its locks held.
func (f *File) abandon() {
	if f.file != nil {
		unlock(f.file)
		_ = f.file.Close()
	}
}

// open opens an existing file and looks at it. The library maps the file into
// memory and trusts it: what it meets in a damaged one is a panic or a fault.
func (f *File) open() error {
	err := caught(f.openDatabase)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s is %s; end that one, or choose another data_dir", f.path, holder(f.path))
	case isDamage(err):
		return f.damaged(err)
	case err != nil:
		return fmt.Errorf("%s cannot be opened: %w", f.path, sayFull(err))
	}
	if err := caught(func() error { return f.db.View(f.inspect) }); err != nil {
		return f.damaged(err)
	}
	return nil
}

func (f *File) openDatabase() (err error) {
	f.db, err = bbolt.Open(f.path, 0o600, &bbolt.Options{
		Timeout: openLimit, NoStatistics: true, FreelistType: bbolt.FreelistMapType,
		OpenFile: func(path string, flag int, _ os.FileMode) (*os.File, error) {
			file, err := openPrivate(path, flag&^os.O_CREATE)
			if err != nil {
				return nil, err
			}
			if info, err := file.Stat(); err != nil || info.Size() == 0 {
				_ = file.Close()
				return nil, errors.Join(err, errEmpty)
			}
			f.file = file
			return file, nil
		},
	})
	return err
}

var errEmpty = errors.New("it is empty")

// panicked is what the library did when it met damage.
type panicked struct{ with any }

func (p panicked) Error() string { return fmt.Sprint("it cannot be read: ", p.with) }

// caught turns a panic or a fault of do into an error.
func caught(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked{p}
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return do()
}

// isDamage reports whether an error is about what stands in the file.
func isDamage(err error) bool {
	var p panicked
	return errors.As(err, &p) || errors.Is(err, errEmpty) || errors.Is(err, bolterrors.ErrInvalid) ||
		errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch)
}

// damaged says what to do about a file that cannot be read.
func (f *File) damaged(err error) error {
	return fmt.Errorf("%w: %s: %w; it was left as it is. Restore it from a backup, or move it away to begin anew: "+
		"what ended before is not known then and may be settled once more", ErrDamaged, f.path, err)
}

// inspect looks at a file that was just opened.
func (f *File) inspect(tx *bbolt.Tx) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("it is cut off: %d bytes of %d", info.Size(), tx.Size())
	}
	if tx.Size() <= checkLimit {
		if err := inspectPages(tx); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(keyFormat) == nil {
		return errors.New("it is no file of sessionwatch")
	}
	if got := meta.Get(keyFormat); !bytes.Equal(got, []byte(format)) {
		return fmt.Errorf("its format is %q, and this sessionwatch knows %q", got, format)
	}
	for _, b := range buckets {
		if tx.Bucket(b) == nil {
			return fmt.Errorf("its part %q is missing", b)
		}
	}
	f.identity = string(meta.Get(keyIdentity))
	return nil
}

// inspectPages reads all that the file holds, here, where a fault is caught. The
// library's own check runs on a goroutine of its own, where it would end us.
func inspectPages(tx *bbolt.Tx) error {
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return walk(b) })
}

func walk(b *bbolt.Bucket) error {
	var before []byte
	return b.ForEach(func(key, value []byte) error {
		if before != nil && bytes.Compare(before, key) >= 0 {
			return errors.New("its keys are in disorder")
		}
		before = bytes.Clone(key)
		if value != nil {
			_ = bytes.Count(value, []byte{0}) // reads every byte
			return nil
		}
		inner := b.Bucket(key)
		if inner == nil {
			return fmt.Errorf("the part %q is no part", key)
		}
		return walk(inner)
	})
}

// create makes a whole file, whose parts lay makes, under another name and links
// it into its place, so that a crash cannot leave half a file there.
func create(path string, lay func(*bbolt.Tx) error) error {
	draft := path + ".new-" + strconv.Itoa(os.Getpid()) + "-" + randomID()[:8]
	defer func() { _ = os.Remove(draft) }()
	db, err := bbolt.Open(draft, 0o600, &bbolt.Options{
		Timeout:  openLimit,
		OpenFile: func(path string, flag int, _ os.FileMode) (*os.File, error) { return openPrivate(path, flag|os.O_EXCL) },
	})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(lay), db.Close()); err != nil {
		return err
	}
	if err := os.Link(draft, path); err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been first
		return err
	}
	return syncDir(filepath.Dir(path))
}

// layFile makes the parts of a new file.
func layFile(tx *bbolt.Tx) error {
	for _, b := range buckets {
		if _, err := tx.CreateBucket(b); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(meta.Put(keyFormat, []byte(format)), meta.Put(keyIdentity, []byte(randomID())))
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func pidPath(path string) string { return path + ".pid" }

// notePID leaves our process id for whoever finds the file held. It is for
// people only, so a failure does no harm.
func notePID(path string) {
	file, err := openPrivate(pidPath(path), os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	if err != nil {
		return
	}
	_, _ = file.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	_ = file.Close()
}

// holder says who holds the file.
func holder(path string) string {
	text, _ := os.ReadFile(pidPath(path))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 0 {
		return "held by pid " + strconv.Itoa(pid)
	}
	return "held by another process"
}

// errUnfinished is a commit that failed: what it changed did not happen, unless
// the file says so.
type errUnfinished struct{ error }

func (e errUnfinished) Unwrap() error { return e.error }

// view reads. What fn sets may be used only if the error is nil, and must be no
// result of its caller: at the end of ctx fn may still run.
func (f *File) view(ctx context.Context, fn func(tx *bbolt.Tx) error) error {
	return f.bounded(ctx, func() error { return f.db.View(fn) })
}

// update writes, and has it on the disk when it returns nil. An error of fn
// leaves everything as it was and is returned as it is.
func (f *File) update(ctx context.Context, fn func(tx *bbolt.Tx) error) error {
	return f.bounded(ctx, func() error {
		tx, err := f.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		if err := fn(tx); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return errUnfinished{fmt.Errorf("%s: %w", f.path, sayFull(err))}
		}
		return nil
	})
}

// bounded ends with ctx even if the disk does not answer.
func (f *File) bounded(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.broken.Load(); err != nil {
		return *err
	}
	done := make(chan error, 1)
	go func() { done <- f.guarded(do) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errUnfinished{ctx.Err()}
	}
}

// guarded does no more with a file once it turned out to be damaged.
func (f *File) guarded(do func() error) error {
	err := caught(do)
	if !isDamage(err) {
		return err
	}
	said := f.damaged(err)
	if f.broken.CompareAndSwap(nil, &said) {
		f.logger.Error("the file is not used any more", "path", f.path, "reason", err.Error())
	}
	return said
}

// sayFull says what to do about a full disk.
func sayFull(err error) error {
	if err == nil {
		return nil
	}
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) { // the library wraps some by their text
			return fmt.Errorf("the disk is full: %w; free some space, what is written already is safe", err)
		}
	}
	return err
}
