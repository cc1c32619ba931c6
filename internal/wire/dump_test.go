package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

func fullDump() Dump {
	code := int64(-2)
	at := time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC)
	return Dump{
		ID: "team.a:job@20261130T031244.120Z", Session: "team.a:job", Generation: 2, BootID: "k3x9", Command: "01J", At: at,
		Reason: "asked", Method: "SIGUSR1", Truncated: true, Format: "python", Verdict: "wedged", Culprit: "agent.py:13 call_tool",
		PID: 4711, Target: "python3", Runtime: "python", ExitCode: &code, LoopThread: "loop", Took: 1200 * time.Millisecond,
		Parts: []DumpPart{{Method: "SIGUSR1", Sample: 1, At: at, Offset: 3, Bytes: 4, ExitCode: &code, Truncated: true}},
		Steps: []DumpStep{{Method: "jcmd", Detail: "it is no Java", Took: time.Millisecond}, {Method: "SIGUSR1", Taken: true}},
		By:    "run@eu1-02/4700", Bytes: 13, Text: []byte("one\ntwo\x1b[31m\n"),
	}
}

func TestDumpGoesThereAndBack(t *testing.T) {
	stored := fullDump()
	stored.Text, stored.Object, stored.Bytes = nil, "01J", 5<<20
	for name, want := range map[string]Dump{
		"whole": fullDump(), "stored": stored, "bare": {Session: "a", Text: []byte{}, At: stored.At},
		"empty lines": {Session: "a", At: stored.At, Bytes: 3, Text: []byte("\n\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := EncodeDump(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeDump(want.Session, data)
			if err != nil {
				t.Fatal(err)
			}
			if want.Text == nil {
				got.Text = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDumpHeaderStaysReadable(t *testing.T) {
	d := fullDump()
	for range 500 {
		d.Steps = append(d.Steps, DumpStep{Method: strings.Repeat("m", 900), Detail: strings.Repeat("\x1b[2J<d>", 900)})
	}
	data, err := EncodeDump(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDump(d.Session, data)
	if err != nil || got.Culprit != d.Culprit || !bytes.Equal(got.Text, d.Text) {
		t.Errorf("%v, it is %+v", err, got)
	}
}

func TestDumpIsCutAtALine(t *testing.T) {
	d := Dump{Session: "a", Text: bytes.Repeat([]byte("goroutine 1 [running]:\n"), 1000)}
	if !d.Cut(10_000) || len(d.Text) > 10_000 || len(d.Text) < 9_000 || !d.Truncated {
		t.Fatalf("%d bytes, truncated %v", len(d.Text), d.Truncated)
	}
	lines := strings.Split(strings.TrimSuffix(string(d.Text), "\n"), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "of 23000 bytes") {
		t.Errorf("the last line is %q", last)
	}
	if before := lines[len(lines)-2]; before != "goroutine 1 [running]:" {
		t.Errorf("the line before is %q", before)
	}
	if d.Cut(10_000) {
		t.Error("it is cut twice")
	}
	if one := (Dump{Text: bytes.Repeat([]byte("x"), 1000)}); !one.Cut(500) || len(one.Text) > 500 || !bytes.HasPrefix(one.Text, []byte("xxx")) {
		t.Errorf("one long line is cut to %q", one.Text)
	}
	if tiny := (Dump{Text: make([]byte, 1000)}); !tiny.Cut(10) || !tiny.Truncated {
		t.Error("nothing is cut")
	}
}

func TestHostileDumpsAreRefused(t *testing.T) {
	const head = `"session_id":"a","at":"2026-11-30T03:12:44.120Z",`
	for name, c := range map[string]struct{ data, why string }{
		"nothing":                {"", "not whole"},
		"no end of the header":   {`{` + head + `"bytes":0}`, "not whole"},
		"no JSON":                {"Traceback\n", "not JSON"},
		"a list":                 {"[]\n", "not a JSON object"},
		"another session":        {`{"session_id":"b","bytes":0}` + "\n", `of "b"`},
		"no session":             {`{"bytes":0}` + "\n", "it is of"},
		"a session twice":        {`{` + head + `"session_id":"a","bytes":0}` + "\n", "twice"},
		"more than it says":      {`{` + head + `"bytes":2}` + "\nabc", "header says 2"},
		"less than it says":      {`{` + head + `"bytes":4}` + "\nabc", "header says 4"},
		"below nothing":          {`{` + head + `"bytes":-3}` + "\nabc", "bytes"},
		"object and text":        {`{` + head + `"bytes":3,"object":"o"}` + "\nabc", "a text too"},
		"a huge object":          {`{` + head + `"bytes":99999999999,"object":"o"}` + "\n", "may be sent"},
		"an object with an ESC":  {`{` + head + `"bytes":3,"object":"\u001b[2J"}` + "\n", "object"},
		"a command with a space": {`{` + head + `"bytes":0,"command_id":"a b"}` + "\n", "command"},
		"a command with a star":  {`{` + head + `"bytes":0,"command_id":"a.*"}` + "\n", "command"},
		"a long header":          {`{` + head + `"bytes":0,"reason":"` + strings.Repeat("x", MaxDocumentBytes) + `"}` + "\n", "not whole"},
		"deep":                   {`{` + head + `"bytes":0,"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}\n", "nested"},
		"parts of texts":         {`{` + head + `"bytes":0,"parts":["x"]}` + "\n", "parts"},
		"an exit code of text":   {`{` + head + `"bytes":0,"exit_code":"0"}` + "\n", "exit_code"},
		"too long":               {fmt.Sprintf(`{`+head+`"bytes":%d}`+"\n", MaxDumpBytes+1) + strings.Repeat("x", MaxDumpBytes+1), "may be sent"},
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := DecodeDump("a", []byte(c.data)); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %q; it is %+v", err, c.why, d.Session)
			}
		})
	}
}

func TestDumpHeaderIsCleaned(t *testing.T) {
	d, err := DecodeDump("a", []byte(`{"session_id":"a","bytes":3,"by":"x\u001b]52;c;eA==\u0007y","culprit":"\u202ea.py","steps":[{"method":"m\u0000","detail":"\u009b2J"}],"more":1}`+"\n\x1b[2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{d.By, d.Culprit, d.Steps[0].Method, d.Steps[0].Detail} {
		if termtext.Changes(text) {
			t.Errorf("%q is not clean", text)
		}
	}
	if string(d.Text) != "\x1b[2" {
		t.Errorf("the text was changed: %q", d.Text)
	}
}

// FuzzDecodeDump: hostile bytes give an error, or a dump that is within limits,
// clean but for its text, and comes out of its own spelling unchanged.
func FuzzDecodeDump(f *testing.F) {
	for _, d := range []Dump{fullDump(), {Session: "team.a:job"}, {Session: "team.a:job", Object: "o", Bytes: 5}} {
		data, err := EncodeDump(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\"session_id\":\"team.a:job\",\"bytes\":1e0,\"parts\":[{\"at\":null}],\"exit_code\":-0}\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := DecodeDump("team.a:job", data)
		if err != nil {
			if d.Session != "" || d.Text != nil {
				t.Fatalf("an error and a dump: %+v", d)
			}
			return
		}
		if len(d.Text) > MaxDumpBytes || len(d.Parts) > maxDumpParts || len(d.Steps) > maxDumpParts || d.Took < 0 {
			t.Fatalf("beyond its limits: %d bytes, %d parts, %d steps", len(d.Text), len(d.Parts), len(d.Steps))
		}
		for _, text := range []string{d.ID, d.By, d.Reason, d.Method, d.Format, d.Verdict, d.Culprit, d.Target, d.Runtime, d.LoopThread, d.Object, d.Command} {
			if termtext.Changes(text) {
				t.Fatalf("%q is not clean", text)
			}
		}
		again, err := EncodeDump(d)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", d, err)
		}
		back, err := DecodeDump("team.a:job", again)
		if err != nil {
			t.Fatalf("%q cannot be read: %v", again, err)
		}
		back.Parts, back.Steps, d.Parts, d.Steps = nil, nil, nil, nil // they may be left out
		if diff := cmp.Diff(d, back); diff != "" {
			t.Fatal(diff)
		}
	})
}
