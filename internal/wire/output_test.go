package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestOutputIsReadAsItWasWritten(t *testing.T) {
	l := OutputLine{Session: "team.a", Generation: 2, Seq: 17, At: time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC), Stream: "stderr", Text: "tokens: 12 <é>",
		Dropped: 3, Newest: true, By: "run@h/1"}
	data, err := EncodeOutput(l)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeOutput("team.a", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "x", "{}", `{"session_id":"other","seq":1,"at":"2026-11-30T03:12:44Z"}`, `{"session_id":"team.a","seq":0,"at":"2026-11-30T03:12:44Z"}`,
		`{"session_id":"team.a","seq":1}`, strings.Repeat("x", MaxOutputBytes+1)} {
		if _, err := DecodeOutput("team.a", []byte(bad)); err == nil {
			t.Errorf("%.60q was read", bad)
		}
	}
}

func FuzzDecodeOutput(f *testing.F) {
	f.Add([]byte(`{"session_id":"a","seq":1,"at":"2026-11-30T03:12:44Z","text":"\u001b[2J\u202e"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := DecodeOutput("a", data)
		if err == nil && (l.Session != watchdog.ID("a") || strings.ContainsAny(l.Text+l.By, "\x1b\n\u202e") || l.Seq < 1) {
			t.Errorf("%q gives %+v", data, l)
		}
	})
}
