package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

func TestTableAlignsByCellsAndCleans(t *testing.T) {
	table := newTable(1)
	table.add("NAME", "AGE", "TEXT")
	table.add("日本語", "5m31s", "plain")
	table.add("a\x1b]52;c;aGk=\x07b", "2s", "x\x1b[2Jy\u202ez\nnext")
	var b strings.Builder
	if err := table.print(&b, ""); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if strings.ContainsAny(got, "\x1b\x07\u202e") {
		t.Errorf("control bytes came through: %q", got)
	}
	rows := strings.Split(strings.TrimRight(got, "\n"), "\n")
	if len(rows) != 3 {
		t.Fatalf("%d lines, want 3: %q", len(rows), got)
	}
	for i, marker := range []string{"TEXT", "plain", "xyz"} {
		before, _, ok := strings.Cut(rows[i], marker)
		if !ok {
			t.Fatalf("line %d lacks %q: %q", i, marker, rows[i])
		}
		if w := termtext.Width(before); w != len("日本語")-3+2+5+2 {
			t.Errorf("line %d: third column at cell %d: %q", i, w, rows[i])
		}
	}
}

func TestSpell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1:                                "-",
		0:                                 "0s",
		20 * time.Millisecond:             "20ms",
		31 * time.Second:                  "31s",
		5*time.Minute + 31*time.Second:    "5m31s",
		6*time.Hour + 2*time.Minute:       "6h02m",
		76 * time.Hour:                    "3d04h",
		59*time.Second + 999e6:            "59s",
		60 * time.Second:                  "1m00s",
		24*time.Hour - time.Second:        "23h59m",
		90*24*time.Hour + 5*time.Hour + 1: "90d05h",
	} {
		if got := spell(d); got != want {
			t.Errorf("spell(%v) = %q, want %q", d, got, want)
		}
	}
}
