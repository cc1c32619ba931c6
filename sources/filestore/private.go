package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sessionwatch/sessionwatch/internal/ownfile"
)

// privateDir makes the directory of a file, and refuses one that others may
// write to: they could put another file into our place.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data_dir: %w; choose a directory that you may write to", err)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("data_dir: %w", err)
	case !info.IsDir():
		return fmt.Errorf("data_dir: %s is no directory; remove it, or choose another", dir)
	case !ownfile.PermissionsMatter:
		return nil
	case !ownfile.Ours(info):
		return fmt.Errorf("data_dir: %s belongs to another user; choose a directory of your own", dir)
	case info.Mode().Perm()&0o077 != 0:
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("data_dir: %s is open to others and cannot be closed to them: %w", dir, err)
		}
	}
	return nil
}

// openPrivate opens a file of our own. It follows no symbolic link in the last
// place, and refuses what is no regular file or another user's.
func openPrivate(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag|ownfile.NoFollow, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link; somebody may have planted it: remove it", path)
	}
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(file, path); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func checkPrivate(file *os.File, path string) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file; remove it, or choose another data_dir", path)
	case !ownfile.Ours(info):
		return fmt.Errorf("%s belongs to another user; choose another data_dir", path)
	case ownfile.PermissionsMatter && info.Mode().Perm()&0o077 != 0:
		return file.Chmod(0o600)
	}
	return nil
}

// syncDir makes a new name in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
