package recording

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func started() watchdog.Instant {
	return watchdog.Instant{Mono: time.Hour, Boot: 2 * time.Hour, Wall: time.Date(2026, 11, 30, 3, 0, 0, 1, time.UTC).UnixNano()}
}

// fill sets every field to something that is not its zero value.
func fill(t *testing.T, c *codec, v reflect.Value, n int) {
	t.Helper()
	switch {
	case v.Type() == idType:
		v.SetString("user:42:chat")
		return
	case v.Type() == instantType:
		v.Set(reflect.ValueOf(watchdog.Instant{Mono: time.Hour + 1, Boot: 3*time.Hour + 2, Wall: started().Wall + 3}))
		return
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 30, 3, 0, n, 7, time.UTC)))
		return
	case c.words[v.Type()] != nil:
		v.SetUint(1)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text <é> \"x\"")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(17 + n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(3 + n))
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(t, c, v.Index(i), i)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, c, v.Field(i), i)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, c, v.Elem(), n)
	default:
		t.Fatalf("this test cannot fill a %s", v.Type())
	}
}

func TestEveryEventRoundTrips(t *testing.T) {
	d := newDialect()
	for name, typ := range d.types {
		t.Run(name, func(t *testing.T) {
			v := reflect.New(typ).Elem()
			fill(t, &d.codec, v, 0)
			want := v.Interface().(watchdog.Event)
			line, err := d.appendEvent(nil, 5*time.Second, want)
			if err != nil {
				t.Fatal(err)
			}
			e, err := d.readEntry(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if diff := cmp.Diff(want, e.Event); diff != "" {
				t.Errorf("%s\n%s", line, diff)
			}
			if e.Clock != 5*time.Second || e.Kind != KindEvent {
				t.Errorf("clock %v, kind %v", e.Clock, e.Kind)
			}
			pointer := reflect.New(typ)
			pointer.Elem().Set(v)
			if same, err := d.appendEvent(nil, 5*time.Second, pointer.Interface().(watchdog.Event)); err != nil || !bytes.Equal(same, line) {
				t.Errorf("a pointer is written as %s (%v)", same, err)
			}
		})
	}
	tick := watchdog.Ticked{Now: started(), Late: 3 * time.Second}
	line, err := d.appendEvent(nil, 0, tick)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := d.readEntry(line); err != nil || e.Event != watchdog.Event(tick) {
		t.Errorf("%s reads as %+v, %v", line, e.Event, err)
	}
}

// TestNoEventIsForgotten finds the events in the source of the package that
// closes their set.
func TestNoEventIsForgotten(t *testing.T) {
	known := map[string]bool{"Ticked": true}
	for _, typ := range eventTable() {
		known[typ.Name()] = true
	}
	sources, err := filepath.Glob("../../watchdog/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "event" || f.Type.Params.NumFields() > 0 {
				return true
			}
			typ := f.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			found++
			if name := typ.(*ast.Ident).Name; !known[name] {
				t.Errorf("watchdog.%s is an event that cannot be recorded: give it a line in eventTable", name)
			}
			return true
		})
	}
	if found != len(known) {
		t.Errorf("found %d events, the table has %d with Ticked", found, len(known))
	}
}

func TestEveryEnumerationIsWhole(t *testing.T) {
	d := newDialect()
	for typ, words := range d.words {
		v := reflect.New(typ).Elem()
		v.SetUint(uint64(len(words)))
		beyond := func() (s string) {
			defer func() { _ = recover() }() // an array of names ends there
			if named, ok := v.Interface().(interface{ String() string }); ok {
				return named.String()
			}
			return ""
		}()
		if beyond != "" && beyond != "none" && beyond != "unknown" && beyond != "invalid" {
			t.Errorf("%s has %q, which cannot be recorded: add it to newDialect", typ, beyond)
		}
	}
}

func TestHeaderRoundTrips(t *testing.T) {
	d := newDialect()
	want := Header{Format: Format, Program: "1.2.3", Name: "prod", Started: started(), Sweeper: "serve@eu1-01",
		Policy: watchdog.Policy{StallTimeout: 7 * time.Second, BrakeShare: 0.5, Overrides: []watchdog.Override{
			{Match: "batch-*", StallTimeout: time.Minute, Quiet: watchdog.QuietIgnore}}}.WithDefaults()}
	line, err := d.appendHeader(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.readHeader(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func fullBeat() watchdog.Beat {
	return watchdog.Beat{
		Source: watchdog.SourceRedis, Received: time.Hour + 123456789, AgeKind: watchdog.AgeEstimated, Age: 12345678901,
		ID: []byte("user:42:chat-ü"), State: watchdog.StateOther, StateText: []byte("thinking <hard>"),
		Uptime: 142, Credits: 8.43, Task: []byte(`tool web.fetch "docs"`), Generation: 3, BootID: []byte("k3x9"), Seq: 17,
		Idle: 400000001, Interval: 30 * time.Second, StallTimeout: 5*time.Minute + 1, WaitingFor: watchdog.WaitHuman,
		WaitingMax: 8 * time.Hour, LoopLag: 2000001, PID: 4711, Agent: []byte("worker-7"), Host: []byte("eu1-02"),
		Message: []byte("near the limit"), Dropped: 2,
	}
}

func bareBeat() watchdog.Beat {
	var b watchdog.Beat
	b.Reset()
	b.ID, b.StateText, b.Received = []byte("a"), []byte("running"), time.Hour
	return b
}

func TestBeatsRoundTrip(t *testing.T) {
	d := newDialect()
	for name, want := range map[string]watchdog.Beat{"full": fullBeat(), "bare": bareBeat()} {
		t.Run(name, func(t *testing.T) {
			line, err := d.appendBeat(nil, -1, &want)
			if err != nil {
				t.Fatal(err)
			}
			e, err := d.readEntry(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if diff := cmp.Diff(want, e.Beat, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\n%s", line, diff)
			}
			if e.Clock != -1 {
				t.Errorf("clock %v, want none", e.Clock)
			}
		})
	}
	unknown := bareBeat()
	unknown.AgeKind = watchdog.AgeUnknown
	line, err := d.appendBeat(nil, -1, &unknown)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := d.readEntry(line); err != nil || e.Beat.AgeKind != watchdog.AgeUnknown {
		t.Errorf("age kind %v, %v", e.Beat.AgeKind, err)
	}
}

func header(t testing.TB) string {
	t.Helper()
	line, err := newDialect().appendHeader(nil, Header{Program: "test", Started: started(), Policy: watchdog.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

const tickAt1s = `{"tick":{"mono":3601000000000,"boot":7201000000000,"wall":"2026-11-30T03:00:01Z"}}` + "\n"

func readAll(r *Reader) (entries []Entry, err error) {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"garbage", tickAt1s + "garbage\n" + tickAt1s, "line 3 is not an entry"},
		{"an array", "[1]\n", "line 2 is not an entry"},
		{"an empty object", "{}\n", "line 2 holds neither"},
		{"an unknown event", `{"event":"explode","data":{}}` + "\n", `line 2 has an event that this program does not know: "explode"`},
		{"an event without data", `{"event":"round_trip"}` + "\n", "line 2 round_trip"},
		{"an unknown source", `{"event":"round_trip","data":{"source":"mars"}}` + "\n", `"mars" is not one of nats, redis`},
		{"a bad id", `{"event":"key_back","data":{"source":"redis","id":"a b"}}` + "\n", "is not a session id"},
		{"an id that clears the screen", `{"event":"key_back","data":{"id":"a\u001b[2J"}}` + "\n", "is not a session id"},
		{"a number as text", `{"event":"denied","data":{"reason":7}}` + "\n", "wrong JSON type"},
		{"a huge time", `{"event":"round_trip","data":{"source":"nats","at":9223372036854775807}}` + "\n", "beyond 36 years"},
		{"a year that cannot be", `{"tick":{"mono":3601000000000,"boot":7201000000000,"wall":"9999-01-01T00:00:00Z"}}` + "\n", "year 9999"},
		{"a clock that goes back", tickAt1s + `{"tick":{"mono":3600500000000,"boot":7201000000000,"wall":"2026-11-30T03:00:01Z"}}` + "\n", "line 3 its clock goes back"},
		{"a t that goes back", tickAt1s + `{"t":3600500000000,"event":"round_trip","data":{"source":"nats"}}` + "\n", "line 3 its clock goes back"},
		{"a clock years ahead", `{"t":1000000000000000000,"event":"round_trip","data":{"source":"nats"}}` + "\n", "more than a year"},
		{"a negative t", `{"t":-5,"event":"round_trip","data":{"source":"nats"}}` + "\n", "line 2 t is a time"},
		{"a beat without an id", `{"source":"nats","received":1,"beat":{"state":"running"}}` + "\n", "refused beat: id"},
		{"a beat without a source", `{"received":1,"beat":{"session_id":"a","state":"running"}}` + "\n", "line 2 source"},
		{"a beat twice", `{"source":"nats","received":1,"beat":{"session_id":"a","state":"running","state":"error"}}` + "\n", "refused beat: duplicate"},
		{"an odd age", `{"source":"nats","age":"about","beat":{"session_id":"a","state":"running"}}` + "\n", "not one of exact"},
		{"a long line", strings.Repeat("x", maxLine+1) + "\n", "line 2 is longer"},
		{"a long line without end", strings.Repeat(" ", maxLine+1), "line 2 is longer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := NewReader("x.swr", strings.NewReader(header(t)+tt.body))
			if err != nil {
				t.Fatal(err)
			}
			_, err = readAll(r)
			if err == nil || !strings.HasPrefix(err.Error(), "x.swr: ") || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if _, again := r.Next(); again != err {
				t.Errorf("the error is not final: then %v", again)
			}
		})
	}
}

func TestReaderRefusesHeaders(t *testing.T) {
	good := header(t)
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "is empty"},
		{"blank", "\n \n", "is empty"},
		{"cut", `{"sessionwatch_rec`, "header is cut off"},
		{"something else", "{\"a\":1}\n", "not the header of a recording"},
		{"a newer format", strings.Replace(good, `"sessionwatch_recording":1`, `"sessionwatch_recording":2`, 1), "has format version 2"},
		{"a bad policy", strings.Replace(good, `"stall_timeout":300000000000`, `"stall_timeout":-1`, 1), "policy.stall_timeout"},
		{"a broken gzip", "\x1f\x8bnot gzip", "cannot be decompressed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := NewReader("x", strings.NewReader(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestReaderToleratesACutEnd(t *testing.T) {
	whole := header(t) + tickAt1s
	r, err := NewReader("x", strings.NewReader(whole+tickAt1s[:20]))
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := readAll(r); err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if !strings.Contains(r.Note(), "line 3 is cut off") {
		t.Errorf("note %q", r.Note())
	}

	var out bytes.Buffer
	w, err := NewWriter(&out, true, Header{Started: started()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		now := started()
		now.Mono += time.Duration(i) * time.Second
		if err := w.Event(-1, watchdog.Ticked{Now: now}); err != nil {
			t.Fatal(err)
		}
		if i == 1000 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	flushed := out.Len()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err = NewReader("x", bytes.NewReader(out.Bytes()[:flushed]))
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := readAll(r); err != nil || len(entries) != 1001 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if !strings.Contains(r.Note(), "cut off") {
		t.Errorf("note %q", r.Note())
	}
}

func TestHostileTextIsCleanedAgain(t *testing.T) {
	body := `{"event":"denied","data":{"source":"nats","reason":"no\u001b]0;evil\u0007 \u202ewrite\nnow","at":1}}` + "\n" +
		`{"source":"nats","received":1,"beat":{"session_id":"a","state":"running","current_task":"\u001b[2Jx","uptime_secs":1,"credits_remaining":null}}` + "\n"
	r, err := NewReader("x", strings.NewReader(header(t)+body))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := readAll(r)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if got := entries[0].Event.(watchdog.Denied).Reason; got != "no write now" {
		t.Errorf("reason %q", got)
	}
	if got := string(entries[1].Beat.Task); got != "x" {
		t.Errorf("task %q", got)
	}
	if !math.IsNaN(entries[1].Beat.Credits) {
		t.Errorf("credits %v", entries[1].Beat.Credits)
	}
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{"At": "at", "LastID": "last_id", "RedisTTL": "redis_ttl", "ID": "id",
		"BrakeHold": "brake_hold", "LostAfterMissed": "lost_after_missed", "MaxNewPerSecond": "max_new_per_second"} {
		if got := snake(name); got != want {
			t.Errorf("snake(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	d := newDialect()
	full := fullBeat()
	beat, _ := d.appendBeat(nil, 3601*time.Second, &full)
	trip, _ := d.appendEvent(nil, -1, watchdog.RoundTrip{Source: watchdog.SourceNATS, Sent: 1, At: 2})
	f.Add([]byte(header(f)+tickAt1s+string(beat)+string(trip)), false)
	f.Add([]byte(`{"gap":{"beats":1,"events":2,"from":3,"to":4}}`+"\n"), true)
	f.Add(beat, true)
	f.Add(trip, true)
	f.Add([]byte(`{"tick":{"mono":1000000000000000000,"boot":1000000000000000000,"wall":"2026-11-30T03:00:01Z"},"late":5}`+"\n"), true)
	head := header(f)
	f.Fuzz(func(t *testing.T, data []byte, behind bool) {
		if behind {
			data = append([]byte(head), data...)
		}
		r, err := NewReader("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		entries, _ := readAll(r)
		for i := range entries {
			if e := &entries[i]; e.Kind == KindBeat {
				again, err := d.appendBeat(nil, e.Clock, &e.Beat)
				if err != nil {
					t.Fatalf("read and not writable: %v", err)
				}
				if _, err := d.readEntry(again); err != nil {
					t.Fatalf("written and not readable: %v\n%s", err, again)
				}
			}
		}
		if r, err := NewReader("fuzz", bytes.NewReader(data)); err == nil {
			// A tracker passes through a year in a second: an hour is enough here.
			_, _ = Replay(r, r.Header().NewTracker(), ReplayOptions{Until: time.Hour})
		}
	})
}
