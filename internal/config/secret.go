package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
)

// Secret is a password or token. However it is printed, logged or marshalled,
// only "(hidden)" comes out; Reveal gives the text to the client that needs it.
type Secret struct{ text string }

const hidden = "(hidden)"

// Reveal is the secret itself.
func (s Secret) Reveal() string { return s.text }

// Set reports whether there is one.
func (s Secret) Set() bool { return s.text != "" }

// Format hides the secret from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// LogValue hides the secret from log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the secret from JSON, YAML and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Files opens files for reading; tests put others in its place.
type Files interface {
	// Open opens a file. With noFollow, a symbolic link in the last place of
	// the name is refused.
	Open(name string, noFollow bool) (fs.File, error)
}

// SystemFiles are the files of this machine.
type SystemFiles struct{}

// Open implements Files. It never waits for the writer of a FIFO.
func (SystemFiles) Open(name string, noFollow bool) (fs.File, error) {
	flags := os.O_RDONLY
	if noFollow {
		flags |= syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil fs.File
	}
	return f, nil
}

// maxSecret bounds the file of a password or token.
const maxSecret = 64 << 10

// readSecret reads a password or token file: one trailing line break is not
// part of it. The warning says that others may read the file; fault, why it
// cannot be used.
func readSecret(files Files, name string) (s Secret, warning, fault string) {
	f, err := files.Open(name, true)
	if errors.Is(err, syscall.ELOOP) {
		return s, "", quoted(name) + " is a symbolic link; name the file that it leads to"
	}
	if err != nil {
		return s, "", "cannot open " + quoted(name) + ": " + reason(err) + "; correct the name or its permissions"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, "", "cannot read " + quoted(name) + ": " + reason(err)
	}
	if !info.Mode().IsRegular() {
		return s, "", quoted(name) + " is not a regular file; name a file that holds the secret alone"
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return s, "", "cannot read " + quoted(name) + ": " + reason(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("%s may be read by others (mode %04o); run chmod 600 on it", quoted(name), info.Mode().Perm())
	}
	t := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case len(data) > maxSecret:
		fault = quoted(name) + " is larger than 64 KiB; name a file that holds the secret alone"
	case t == "":
		fault = quoted(name) + " is empty; put the secret into it"
	case strings.ContainsAny(t, "\n\r\x00"):
		fault = quoted(name) + " holds more than one line; put the secret alone into it"
	}
	if fault != "" {
		return Secret{}, warning, fault
	}
	return Secret{t}, warning, ""
}

// reason is the error without the name of the file, which the sentence has.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}
