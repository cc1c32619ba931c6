package stackdump

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample is one row of testdata/expect.json.
type sample struct {
	File   string `json:"file"`
	Expect struct {
		Format      Format  `json:"fmt"`
		Dumps       *int    `json:"dumps"`
		Threads     *int    `json:"threads"`
		Groups      *int    `json:"groups"`
		UserGroups  *int    `json:"user_groups"`
		JavaThreads *int    `json:"java_threads"`
		Deadlocks   *int    `json:"deadlocks"`
		Stray       *int    `json:"stray_lines"`
		Truncated   *string `json:"truncated"`
		Verdict     Verdict `json:"verdict"`
		Header      string  `json:"header"`
		Text        string  `json:"culprit_text"`
		Culprit     []struct {
			Function *string `json:"function"`
			File     string  `json:"file"`
			Line     int     `json:"line"`
		} `json:"culprit"`
	} `json:"expect"`
}

func samples(t testing.TB) []sample {
	t.Helper()
	text, err := os.ReadFile("testdata/expect.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSamples(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.File, func(t *testing.T) {
			t.Parallel()
			f := Parse(read(t, s.File))
			got := NewSummary(f, Options{})
			want := s.Expect
			if got.Format != want.Format {
				t.Errorf("format %q, want %q", got.Format, want.Format)
			}
			for _, n := range []struct {
				name string
				got  int
				want *int
			}{
				{"dumps", got.Dumps, want.Dumps}, {"threads", got.Threads, want.Threads}, {"groups", got.Groups, want.Groups},
				{"deadlocks", got.Deadlocks, want.Deadlocks}, {"stray lines", got.Stray, want.Stray},
			} {
				if n.want != nil && n.got != *n.want {
					t.Errorf("%d %s, want %d", n.got, n.name, *n.want)
				}
			}
			if g, w := word(got.Truncated), word(want.Truncated); g != w {
				t.Errorf("truncated %q, want %q", g, w)
			}
			if want.Verdict != "" && got.Verdict != want.Verdict {
				t.Errorf("verdict %q, want %q", got.Verdict, want.Verdict)
			}
			for _, c := range want.Culprit {
				if !slices.ContainsFunc(got.Culprit, func(r SummaryRow) bool {
					return word(r.File) == c.File && r.Line != nil && *r.Line == c.Line && (c.Function == nil || r.Function == *c.Function)
				}) {
					t.Errorf("%s:%d %s is not accused, but %+v", c.File, c.Line, word(c.Function), rows(got))
				}
			}
			if len(want.Culprit) == 0 && want.Text == "" && len(got.Culprit) > 0 {
				t.Errorf("%v is accused, want nobody", rows(got))
			}
			if want.UserGroups != nil {
				if n := userGroups(f); n != *want.UserGroups {
					t.Errorf("%d groups without the runtime's own, want %d", n, *want.UserGroups)
				}
			}
		})
	}
}

func rows(s Summary) string {
	text, _ := json.Marshal(s.Culprit)
	return string(text)
}

func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func userGroups(f *File) int {
	n := 0
	for _, g := range Analyze(&f.Dumps[0], Options{}).Groups {
		if f.Dumps[0].Threads[g.Threads[0]].user() {
			n++
		}
	}
	return n
}

// TestLongCaptures reads many dumps of many goroutines: none may be lost to the
// bounds that hostile texts meet.
func TestLongCaptures(t *testing.T) {
	for _, c := range []struct{ dumps, threads int }{{100, 500}, {1, 60_000}} {
		f := Parse(strings.Repeat(goroutines(c.threads), c.dumps))
		if len(f.Dumps) != c.dumps || f.Threads() != c.dumps*c.threads || f.Cut != Whole {
			t.Errorf("%d dumps of %d goroutines: got %d of %d in all, cut %q", c.dumps, c.threads, len(f.Dumps), f.Threads(), f.Cut)
		}
	}
	for _, file := range []string{"java17-jstack-l-deadlock.txt", "py311-usr1-asyncio-sleep.txt", "c-eu-stack.txt", "c-proc-task.txt", "c-gdb-thread-apply-all-bt.txt"} {
		one := Parse(read(t, file))
		f := Parse(strings.Repeat(read(t, file), 200))
		if len(f.Dumps) != 200 || f.Threads() != 200*one.Threads() || f.Cut != Whole {
			t.Errorf("200 times %s: %d dumps of %d threads, cut %q", file, len(f.Dumps), f.Threads(), f.Cut)
		}
	}
}
