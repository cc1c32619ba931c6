package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sessionwatch/sessionwatch/internal/ownfile"
)

// discard is the logger of a command without a log file: the screen and the
// standard error of a command belong to people.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// openLog gives a logger that appends to path: JSON lines if its name ends in
// .json or .jsonl, text lines otherwise. An empty path logs nothing.
func openLog(path string) (*slog.Logger, io.Closer, error) {
	if path == "" {
		return discard(), io.NopCloser(nil), nil
	}
	file, err := openPrivate(path)
	if err != nil {
		return nil, nil, fmt.Errorf("log file: %w", err)
	}
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	var handler slog.Handler = slog.NewTextHandler(file, options)
	if ext := filepath.Ext(path); ext == ".json" || ext == ".jsonl" {
		handler = slog.NewJSONHandler(file, options)
	}
	return slog.New(handler), file, nil
}

// openPrivate opens a file for appending that only its owner reads. It follows
// no symbolic link in the last element and takes nothing but a regular file of
// our own: another's file could be planted to be filled, or to be read.
func openPrivate(path string) (*os.File, error) {
	if err := checkPrivate(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|ownfile.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open %q: %w; give a path in a directory of your own", path, reason(err))
	}
	info, err := file.Stat()
	if err == nil {
		err = judgePrivate(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// checkPrivate says what speaks against path without opening it: opening a
// named pipe would wait for a reader. A file that is not there is fine.
func checkPrivate(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look at %q: %w", path, reason(err))
	}
	return judgePrivate(path, info)
}

func judgePrivate(path string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%q is a symbolic link, which is not followed; name the file itself", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%q is not a regular file; name another", path)
	case !ownfile.Ours(info):
		return fmt.Errorf("%q belongs to another user; name a file of your own", path)
	case info.Mode().Perm()&0o077 != 0 && ownfile.PermissionsMatter:
		return fmt.Errorf("%q can be read or written by others (%v); run chmod 600 on it", path, info.Mode().Perm())
	}
	return nil
}

// reason strips operation and path, which the sentence around it says already.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
