package cli

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/ownfile"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/ui"
)

// writeExport writes what a screen shows to a file that must not exist, for its
// owner alone, and gives its path. What could not be written whole is removed.
func writeExport(e ui.Export) (path string, err error) {
	path = e.Path
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home directory is known: %w; give a whole path", err)
		}
		path = filepath.Join(home, rest)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|ownfile.NoFollow, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return "", fmt.Errorf("%s is there already; give a name that is free", path)
	case err != nil:
		return "", fmt.Errorf("%s: %w", path, reason(err))
	}
	out := bufio.NewWriter(file)
	err = encodeExport(out, &e)
	if err = errors.Join(err, out.Flush(), file.Close()); err != nil {
		_ = os.Remove(path) // the first fault is the one to tell
		return "", fmt.Errorf("%s could not be written whole: %w", path, reason(err))
	}
	return path, nil
}

func encodeExport(to io.Writer, e *ui.Export) error {
	switch {
	case e.Trial != nil:
		return exportTrial(to, e)
	case e.Handover != nil:
		return exportHandover(to, e)
	case strings.HasSuffix(e.Path, ".csv"):
		return exportCSV(to, e)
	case e.Sessions != nil:
		return wire.EncodeList(to, *e.Sessions)
	}
	if e.Alerts != nil {
		return exportAlerts(to, e.Alerts)
	}
	return exportEvents(to, e)
}

// exportEvents writes one array, an event a line, the newest first.
func exportEvents(to io.Writer, e *ui.Export) error {
	before := "[\n"
	for _, t := range e.Events {
		var line bytes.Buffer
		if err := wire.EncodeEvent(&line, t); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(to, "%s%s", before, bytes.TrimRight(line.Bytes(), "\n")); err != nil {
			return err
		}
		before = ",\n"
	}
	if len(e.Events) == 0 {
		_, err := io.WriteString(to, "[]\n")
		return err
	}
	_, err := io.WriteString(to, "\n]\n")
	return err
}

// exportCSV writes RFC 4180 in UTF-8.
func exportCSV(to io.Writer, e *ui.Export) error {
	w := csv.NewWriter(to)
	w.UseCRLF = true
	if err := w.Write(e.Heading); err != nil {
		return err
	}
	for i := range e.Len() {
		cells := e.Cells(i)
		for c := range cells {
			cells[c] = inertCell(cells[c])
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// inertCell keeps a spreadsheet from reading a cell as a formula: what agents
// say of themselves is hostile text there too.
func inertCell(text string) string {
	if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r\n") {
		return "'" + text
	}
	for _, wide := range []string{"＝", "＋", "－", "＠"} { // some read these as the above
		if strings.HasPrefix(text, wide) {
			return "'" + text
		}
	}
	return text
}
