package stackdump

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

// textSamples are the samples that are lines of text.
func textSamples(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range samples(t) {
		if strings.HasSuffix(s.File, ".txt") {
			out[s.File] = read(t, s.File)
		}
	}
	return out
}

// facts is a summary without what other output around a dump may change.
func facts(text string) Summary {
	s := NewSummary(Parse(text), Options{})
	s.Stray = 0
	return s
}

func TestSurroundings(t *testing.T) {
	const before = "ready 4242\n2026-11-30 05:38:59 INFO started {\"port\": 1}\n(warning) goroutine pool is empty\n"
	const after = "INFO request 7 ok\nrestarting\n"
	for name, text := range textSamples(t) {
		want := facts(text)
		if want.Format == None {
			continue
		}
		variants := map[string]string{
			"CRLF":          strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n"),
			"output before": before + text,
		}
		if want.Truncated == nil || *want.Truncated != "bytes" {
			variants["output after"] = text + after
			variants["output around, CRLF"] = strings.ReplaceAll(before+text+after, "\n", "\r\n")
		}
		for what, variant := range variants {
			if got := facts(variant); !reflect.DeepEqual(got, want) {
				t.Errorf("%s with %s:\n got %+v\nwant %+v", name, what, got, want)
			}
		}
	}
}

func TestLogLinesBetweenLines(t *testing.T) {
	for name, text := range textSamples(t) {
		want := facts(text)
		if want.Format == None || want.Truncated != nil || strings.HasPrefix(string(want.Format), "ruby-bug") || strings.HasSuffix(string(want.Format), "traceback") {
			continue
		}
		if strings.Contains(name, "hostile") || want.Format == "go-race" {
			continue // their own lines look like anything
		}
		lines := strings.SplitAfter(text, "\n")
		for round := range 5 {
			random := rand.New(rand.NewPCG(uint64(round), 1))
			var b strings.Builder
			for i, line := range lines {
				// Not between a line and the one that completes it.
				if i > 0 && line != "" && line[0] != '\t' && line[0] != ' ' && random.IntN(6) == 0 {
					b.WriteString("INFO tool-server request 17 ok\n")
				}
				b.WriteString(line)
			}
			if got := facts(b.String()); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, round %d:\n got %+v\nwant %+v", name, round, got, want)
				break
			}
		}
	}
}

// TestTornLines writes a dump of Python in the pieces in which Python does, with
// log lines between them.
func TestTornLines(t *testing.T) {
	text := read(t, "py311-usr1-asyncio-sleep.txt")
	want := facts(text)
	for round := range 200 {
		random := rand.New(rand.NewPCG(uint64(round), 2))
		logs := 0
		var b strings.Builder
		b.WriteString("INFO tool-server request 1 ok\n")
		for _, line := range strings.SplitAfter(text, "\n") {
			cuts := pieces(line)
			if random.IntN(4) == 0 && len(cuts) > 0 {
				k := cuts[random.IntN(len(cuts))]
				b.WriteString(line[:k] + "INFO tool-server request 17 ok\n" + line[k:])
				logs++
				continue
			}
			b.WriteString(line)
		}
		f := Parse(b.String())
		got := NewSummary(f, Options{})
		if got.Stray != logs+1 {
			t.Errorf("round %d: %d stray lines, want %d: %q", round, got.Stray, logs+1, f.StrayText)
		}
		for _, stray := range f.StrayText {
			if !strings.HasPrefix(stray, "INFO tool-server request 1") || !strings.HasSuffix(stray, " ok") {
				t.Errorf("round %d: a log line became %q", round, stray)
			}
		}
		got.Stray = 0
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d:\n got %+v\nwant %+v\n%s", round, got, want, b.String())
		}
	}
}

// pieces are the places within a line of faulthandler at which one write ends.
func pieces(line string) []int {
	var cuts []int
	for _, mark := range []string{`  File `, `"`, `", line `, ` in `, `Thread 0x`} {
		if i := strings.Index(line, mark); i >= 0 {
			cuts = append(cuts, i+len(mark))
		}
	}
	if i := strings.LastIndex(line, `", line `); i > 0 {
		cuts = append(cuts, i, i+1)
	}
	if i := strings.Index(line, " (most recent"); i > 0 {
		cuts = append(cuts, i)
	}
	if strings.HasPrefix(line, "  File ") {
		cuts = append(cuts, len(line)-1)
	}
	return cuts
}

func TestBreakingOff(t *testing.T) {
	for name, text := range textSamples(t) {
		whole := Parse(text)
		if len(whole.Dumps) == 0 || whole.Cut == CutBytes || whole.Format == "go-race" || strings.Contains(name, "interleaved") {
			continue
		}
		random := rand.New(rand.NewPCG(7, 7))
		for range 12 {
			n := len(text)/3 + random.IntN(len(text)/2)
			if text[n-1] == '\n' || text[n] == '\n' || text[n] == '\r' {
				continue
			}
			f := Parse(text[:n])
			if len(f.Dumps) == 0 {
				continue // of Ruby: the report's own text
			}
			if f.Cut != CutBytes && !strings.HasSuffix(lastLine(text[:n]), "ok") && inDump(whole, text, n) {
				t.Errorf("%s cut after %d bytes, in %q: %v", name, n, lastLine(text[:n]), f.Cut)
			}
			if f.Threads() > whole.Threads() {
				t.Errorf("%s cut after %d bytes has more threads than the whole", name, n)
			}
		}
	}
}

// inDump reports whether the line at n belongs to a dump: without it no line is
// stray that was not before.
func inDump(whole *File, text string, n int) bool {
	from := strings.LastIndexByte(text[:n], '\n') + 1
	to := n + strings.IndexByte(text[n:], '\n')
	return Parse(text[:from]+text[to+1:]).Stray == whole.Stray && text[from:to] != ""
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

func TestAppended(t *testing.T) {
	for _, pair := range [][2]string{
		{"py311-usr1-asyncio-sleep.txt", "py311-native-eu-stack.txt"},
		{"java17-spin-pair-1.txt", "java17-spin-pair-2.txt"},
		{"go126-sigquit-209.txt", "c-proc-task.txt"},
		{"c-proc-task.txt", "c-gdb-thread-apply-all-bt.txt"},
		{"py311-usr1-asyncio-sleep.txt", "py38-usr1-asyncio-sleep.txt"},
		{"go126-pprof-goroutine-debug1.txt", "go126-pprof-goroutine-debug2.txt"},
		{"node20-trace-sigint-cpu.txt", "node20-report-promise.json"},
		{"ruby31-trap-thread-list.txt", "c-eu-stack.txt"},
	} {
		first, second := Parse(read(t, pair[0])), Parse(read(t, pair[1]))
		both := Parse(read(t, pair[0]) + read(t, pair[1]))
		if len(both.Dumps) != len(first.Dumps)+len(second.Dumps) || both.Threads() != first.Threads()+second.Threads() {
			t.Errorf("%s and %s: %d dumps of %d threads, want %d of %d", pair[0], pair[1], len(both.Dumps), both.Threads(),
				len(first.Dumps)+len(second.Dumps), first.Threads()+second.Threads())
		}
		if both.Format != first.Format {
			t.Errorf("%s and %s: format %s", pair[0], pair[1], both.Format)
		}
	}
}

// TestNothingHostileComesOut looks at every text of every sample's view.
func TestNothingHostileComesOut(t *testing.T) {
	for _, s := range samples(t) {
		f := Parse(read(t, s.File))
		f.Raw = ""
		checkClean(t, s.File, reflect.ValueOf(f))
		checkClean(t, s.File, reflect.ValueOf(NewView(f, Options{Log: []string{"sent SIGUSR1\x1b[2J"}})))
		checkClean(t, s.File, reflect.ValueOf(NewDiff(f, f, Options{})))
	}
}

// checkClean fails if any string within v holds what a terminal would obey.
func checkClean(t testing.TB, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		for _, r := range v.String() {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("%s: %q came out", name, v.String())
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			checkClean(t, name, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkClean(t, name, v.Index(i))
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			checkClean(t, name, v.Field(i))
		}
	}
}

func TestEnvironmentOfReportsIsDropped(t *testing.T) {
	f := Parse(read(t, "node20-report-promise.json"))
	for _, row := range NewView(f, Options{}).Sections {
		for _, r := range row.Rows {
			if strings.Contains(r.Name, "EXAMPLE_API_TOKEN") || strings.Contains(r.Name, "redact-me") {
				t.Errorf("the view shows a variable of the environment: %q", r.Name)
			}
		}
	}
	if strings.Contains(f.Raw, "redact-me") {
		t.Error("the raw text holds the environment")
	}
}
