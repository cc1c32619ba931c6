package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func aNote() watchdog.AlertNote {
	return watchdog.AlertNote{
		Key: "batch-job-abc123#3/stalled", Kind: watchdog.NoteSnooze, Author: "ops1@host", Text: `vendor called, "04:00Z"`,
		At: time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC), Until: time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC), Evidence: 1<<64 - 1,
	}
}

func TestNoteSpelling(t *testing.T) {
	got, err := wire.EncodeNote(aNote())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"key":"batch-job-abc123#3/stalled","kind":"snooze","author":"ops1@host","text":"vendor called, \"04:00Z\"",` +
		`"at":"2026-11-30T03:12:44.120Z","until":"2026-11-30T04:00:00.000Z","evidence":"18446744073709551615"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := wire.DecodeNote("batch-job-abc123#3/stalled", got)
	if err != nil || back != aNote() {
		t.Errorf("it is read as %+v, %v", back, err)
	}
	if field := wire.NoteField("a#1/stalled"); field != "YSMxL3N0YWxsZWQ" {
		t.Errorf("its place is %s", field)
	}
	plain := watchdog.AlertNote{Key: "fleet/reap-rate", At: aNote().At}
	got, err = wire.EncodeNote(plain)
	if err != nil || !strings.Contains(string(got), `"author":null,"text":null`) || !strings.Contains(string(got), `"until":null,"evidence":"0"`) {
		t.Errorf("what is unknown is spelled %s, %v", got, err)
	}
	if back, err := wire.DecodeNote("fleet/reap-rate", got); err != nil || back != plain {
		t.Errorf("it is read as %+v, %v", back, err)
	}
}

func TestNotesThatAreNone(t *testing.T) {
	const good = `{"key":"a#1/stalled","kind":"ack","author":null,"text":null,"at":"2026-11-30T03:12:44.120Z","until":null,"evidence":"1"}`
	if _, err := wire.DecodeNote("a#1/stalled", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{
		"":                                   "not JSON",
		"[]":                                 "not a JSON object",
		good + "x":                           "not JSON",
		`{"kind":"ack","key":"a#1/stalled"}`: "needs the time",
		strings.Replace(good, `"kind":"ack",`, "", 1):                                                  "what kind",
		strings.Replace(good, `"ack"`, `"nod"`, 1):                                                     "kind is not",
		strings.Replace(good, `"ack"`, `1`, 1):                                                         "kind is not",
		strings.Replace(good, `"ack"`, `"snooze"`, 1):                                                  "a snooze needs an end",
		strings.Replace(good, `"a#1/stalled"`, `"b#1/stalled"`, 1):                                     "another alert",
		strings.Replace(good, `"1"`, `1`, 1):                                                           "evidence is not",
		strings.Replace(good, `"1"`, `"-1"`, 1):                                                        "evidence is not",
		strings.Replace(good, `"1"`, `"99999999999999999999"`, 1):                                      "evidence is not",
		strings.Replace(good, `"until":null`, `"until":"tomorrow"`, 1):                                 "until is not a time",
		strings.Replace(good, `"key"`, `"kind":"ack","key"`, 1):                                        "twice",
		strings.Replace(good, `null,"text"`, `7,"text"`, 1):                                            "author is not a text",
		strings.Replace(good, `"text":null`, `"text":"`+strings.Repeat("x", wire.MaxNoteBytes)+`"`, 1): "longer than 8 KiB",
	} {
		if n, err := wire.DecodeNote("a#1/stalled", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s is read as %+v, %v; want %q", text, n, err, says)
		}
	}
	for name, n := range map[string]watchdog.AlertNote{
		"an unseen mark": {Key: "a\u200b#1/stalled", At: aNote().At},
		"a far year":     {Key: "a#1/stalled", At: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if text, err := wire.EncodeNote(n); err == nil {
			t.Errorf("a note with %s is written as %s", name, text)
		}
	}
	for _, field := range []string{"", "!", "YQ==", "YR", "~revision"} {
		if key, ok := wire.KeyFromNoteField(field); ok {
			t.Errorf("%q is the place of %q", field, key)
		}
	}
}

func FuzzDecodeNote(f *testing.F) {
	text, err := wire.EncodeNote(aNote())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(aNote().Key), text)
	f.Add("match/etl-*", []byte(`{"key":"match/etl-*","kind":"mute","at":"2026-11-30T03:12:44+02:00","until":"0001-01-01T00:00:00Z","evidence":"0"}`))
	f.Add("a", []byte(`{"key":"a","kind":"clear","author":"\u001b[2J\u202e","text":"\ud800","at":"9999-12-31T23:59:59.999999999-23:59"}`))
	f.Fuzz(func(t *testing.T, key string, text []byte) {
		n, err := wire.DecodeNote(watchdog.AlertKey(key), text)
		if err != nil {
			return
		}
		spelled, err := wire.EncodeNote(n)
		if err != nil {
			t.Fatalf("what was read cannot be written: %+v: %v", n, err)
		}
		if again, err := wire.DecodeNote(n.Key, spelled); err != nil || again != n {
			t.Fatalf("%+v comes back as %+v, %v", n, again, err)
		}
		if back, ok := wire.KeyFromNoteField(wire.NoteField(n.Key)); !ok || back != n.Key {
			t.Fatalf("the place of %q is that of %q, %v", n.Key, back, ok)
		}
	})
}
