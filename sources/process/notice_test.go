package process

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

func TestNoticesAreRead(t *testing.T) {
	none := math.NaN()
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		message string
		want    notice
		work    bool
	}{
		{"READY=1\nSTATUS=Processing chunk 47/200\n", notice{ready: true, status: text("Processing chunk 47/200"), credits: none}, true},
		{"WATCHDOG=1", notice{work: true, credits: none}, true},
		{"WATCHDOG=trigger", notice{wedged: true, credits: none}, false},
		{"WATCHDOG=2\nREADY=0\nSTOPPING=yes", notice{credits: none}, false},
		{"STOPPING=1", notice{stopping: true, credits: none}, false},
		{"EXTEND_TIMEOUT_USEC=60000000", notice{extend: time.Minute, credits: none}, true},
		{"EXTEND_TIMEOUT_USEC=18446744073709551615", notice{extend: maxExtend, credits: none}, true},
		{"EXTEND_TIMEOUT_USEC=-5", notice{credits: none}, false},
		{"X_CREDITS=8.43", notice{credits: 8.43}, true},
		{"X_CREDITS=NaN\nX_CREDITS=inf", notice{credits: none}, false},
		{"STATUS=\x1b]52;c;AAAA\x07evil\x1b[2J", notice{status: text("evil"), credits: none}, true},
		{"STATUS=", notice{status: text(""), credits: none}, true},
		{"BARRIER=1", notice{credits: none}, false},
		{"MAINPID=1\nFDSTORE=1\nERRNO=5", notice{credits: none}, false},
		{"", notice{credits: none}, false},
		{"READY", notice{credits: none}, false},
		{"READY=1\x00", notice{credits: none}, false},
		{" READY=1", notice{credits: none}, false},
	} {
		got := parseNotice([]byte(c.message))
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(notice{}), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.message, diff)
		}
		if got.activity() != c.work {
			t.Errorf("%q is work: %v", c.message, got.activity())
		}
	}
}

func FuzzNotice(f *testing.F) {
	for _, s := range []string{"READY=1\nSTATUS=x", "WATCHDOG=trigger", "EXTEND_TIMEOUT_USEC=1", "X_CREDITS=1e309", "STATUS=\x1b[31m\xff", "\n\n=\n=="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		n := parseNotice(message)
		if n.status != nil && (termtext.Changes(*n.status) || len(*n.status) > termtext.MaxBytes) {
			t.Fatalf("status %q is not clean", *n.status)
		}
		if n.extend < 0 || n.extend > maxExtend || math.IsInf(n.credits, 0) {
			t.Fatalf("extend %v, credits %v", n.extend, n.credits)
		}
		if n.wedged && !strings.Contains(string(message), "WATCHDOG=trigger") {
			t.Fatal("a wedge out of nothing")
		}
	})
}
