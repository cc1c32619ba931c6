package stackdump

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzParse reads anything, and looks at all that may be shown of it.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[:min(len(text), 8<<10)]))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := Parse(text)
		s := NewSummary(file, Options{})
		if (s.Verdict == NotADump) != (s.Dumps == 0) {
			t.Fatalf("verdict %s of %d dumps", s.Verdict, s.Dumps)
		}
		if s.Dumps > 0 && s.Groups == 0 || s.Threads < 0 {
			t.Fatalf("%+v", s)
		}
		for i := range file.Dumps {
			d := &file.Dumps[i]
			if len(d.Threads) == 0 {
				t.Fatal("a dump without threads")
			}
			n := 0
			for _, g := range Analyze(d, Options{LoopThread: "main"}).Groups {
				n += g.Count
			}
			if n != d.Count() {
				t.Fatalf("%d threads in groups, %d in the dump", n, d.Count())
			}
		}
		view, diff := NewView(file, Options{}), NewDiff(file, file, Options{})
		checkClean(t, "view", reflect.ValueOf(view))
		checkClean(t, "comparison", reflect.ValueOf(diff))
		file.Raw = ""
		checkClean(t, "file", reflect.ValueOf(file))
	})
}

// FuzzMangled cuts and joins real dumps: most of the state of a parser is reached
// by lines in an order that no runtime writes.
func FuzzMangled(f *testing.F) {
	all := textSamples(f)
	var texts []string
	for _, s := range samples(f) {
		if text, ok := all[s.File]; ok && len(text) < 30<<10 {
			texts = append(texts, text)
		}
	}
	f.Add(uint8(0), uint16(100), uint8(3), uint16(200), "INFO\n")
	f.Fuzz(func(t *testing.T, a uint8, m uint16, b uint8, n uint16, between string) {
		x, y := texts[int(a)%len(texts)], texts[int(b)%len(texts)]
		text := x[:int(m)%len(x)] + between + y[int(n)%len(y):]
		file := Parse(text)
		NewSummary(file, Options{})
		NewView(file, Options{})
		NewDiff(file, Parse(x), Options{})
	})
}
