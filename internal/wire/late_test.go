package wire

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestLateIsReadAsItWasPrinted(t *testing.T) {
	at := time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC)
	for _, l := range []watchdog.Late{
		{ID: "a", Generation: 2, Raw: []byte(`{"session_id":"a"}`), Source: watchdog.SourceRedis, At: at, LateBy: 1500 * time.Millisecond},
		{ID: "b", Raw: []byte("no \x1b JSON\n"), Source: watchdog.SourceNATS, At: at, MaybeNew: true},
	} {
		var line bytes.Buffer
		if err := EncodeLate(&line, l); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeLate(line.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", line.Bytes(), err)
		}
		if diff := cmp.Diff(l, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, bad := range []string{"", "{}", "[]", `{"quarantined_at":"x"}`} {
		if _, err := DecodeLate([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
