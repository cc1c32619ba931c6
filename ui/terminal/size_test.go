package terminal

import (
	"io"
	"testing"

	"github.com/creack/pty"
)

// A terminal that does not know its size, or claims one that nobody has, gets the
// usual one or that of the environment.
func TestSize(t *testing.T) {
	master, slave := openPair(t)
	go func() { _, _ = io.Copy(io.Discard, master) }()
	for _, c := range []struct {
		columns, rows uint16
		env           []string
		width, height int
	}{
		{120, 40, nil, 120, 40},
		{1, 1, nil, 1, 1},
		{0, 0, nil, 80, 24},
		{0, 0, []string{"COLUMNS=100", "LINES=30"}, 100, 30},
		{0, 30, nil, 80, 30},
		{65535, 65535, nil, 80, 24},
		{4096, 4096, nil, 80, 24},
		{0, 0, []string{"COLUMNS=-5", "LINES=1000000000"}, 80, 24},
	} {
		if err := pty.Setsize(slave, &pty.Winsize{Cols: c.columns, Rows: c.rows}); err != nil {
			t.Fatal(err)
		}
		terminal, err := Open(Config{In: slave, Out: slave, Env: append(c.env, "TERM=xterm")})
		if err != nil {
			t.Fatal(err)
		}
		if w, h := terminal.size(); w != c.width || h != c.height {
			t.Errorf("%dx%d with %v: %dx%d, want %dx%d", c.columns, c.rows, c.env, w, h, c.width, c.height)
		}
		terminal.Close()
	}
}
