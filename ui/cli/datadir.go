package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/ownfile"
)

// dataDir makes the data directory, which only its owner may read, and gives its
// path.
func dataDir(settings *config.Config) (string, error) {
	dir := settings.DataDir
	if dir == "" {
		return "", misconfigured(errors.New("data_dir: no home directory is known; set data_dir in the configuration, or give --data-dir"))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", misconfigured(fmt.Errorf("data_dir: cannot make %q: %w; choose a directory that you may write", dir, reason(err)))
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", misconfigured(fmt.Errorf("data_dir: cannot look at %q: %w", dir, reason(err)))
	case !info.IsDir():
		return "", misconfigured(fmt.Errorf("data_dir: %q is not a directory; name another", dir))
	case !ownfile.Ours(info):
		return "", misconfigured(fmt.Errorf("data_dir: %q belongs to another user; name a directory of your own", dir))
	case info.Mode().Perm()&0o077 != 0 && ownfile.PermissionsMatter:
		if err := os.Chmod(dir, 0o700); err != nil {
			return "", misconfigured(fmt.Errorf("data_dir: others may read %q and its mode cannot be changed: %w", dir, reason(err)))
		}
	}
	return dir, nil
}

// tokenOf reads the token that a setting names, or, if it names none, the one of
// the data directory, which is made at random if there is none. path is where it
// stands, for people.
func tokenOf(settings *config.Config, key, named, dir, file string) (token, path string, err error) {
	secret, err := settings.SecretFile(key)
	if err != nil {
		return "", "", misconfigured(err)
	}
	if secret.Set() {
		return secret.Reveal(), named, nil
	}
	path = filepath.Join(dir, file)
	if err := checkPrivate(path); err != nil {
		return "", "", misconfigured(err)
	}
	switch text, err := os.ReadFile(path); {
	case err == nil && len(strings.TrimSpace(string(text))) > 0:
		return strings.TrimSpace(string(text)), path, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", misconfigured(fmt.Errorf("cannot read %q: %w", path, reason(err)))
	}
	token = rand.Text()
	return token, path, writePrivate(path, token+"\n")
}

// writePrivate writes a file that only its owner reads, whole or not at all.
func writePrivate(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return misconfigured(fmt.Errorf("cannot write %q: %w; choose a data_dir that you may write", path, reason(err)))
	}
	return nil
}

// socketPath is where a serve offers its view on this machine.
func socketPath(dir string) string { return filepath.Join(dir, "serve.sock") }
