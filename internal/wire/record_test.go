package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var someMoment = time.Date(2026, 11, 30, 3, 12, 44, 120e6, time.UTC)

func lostRecord() watchdog.Record {
	return watchdog.Record{
		ID: "indexer", Generation: 2, Outcome: watchdog.OutcomeLost, SettledBy: watchdog.BySweeper, Writer: "serve@eu1-01/812",
		Nonce: "k3x9", Reason: "3 beats missed", At: someMoment, Why: []byte(`{"rule":"lost"}`),
	}
}

const lostText = `{"session_id":"indexer","generation":2,"outcome":"lost","settled_by":"sweeper","writer":"serve@eu1-01/812","nonce":"k3x9","reason":"3 beats missed",` +
	`"at":"2026-11-30T03:12:44.120Z","evidence":{"rule":"lost"},"records":[` +
	`{"id":"b830cf30-1da0-52ee-a0c4-9b10e9fc484b","index":0,"type":"error","code":"execution_lost","message":"3 beats missed"},` +
	`{"id":"b2a3345e-42f8-50d0-a9d0-0f61b63dbad6","index":1,"type":"done","stop_reason":"lost"}]}`

func TestEncodeRecord(t *testing.T) {
	got, err := EncodeRecord(lostRecord())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != lostText {
		t.Errorf("got  %s\nwant %s", got, lostText)
	}
	stopped := lostRecord()
	stopped.Outcome, stopped.SettledBy, stopped.Reason, stopped.Writer, stopped.Why, stopped.At = watchdog.OutcomeStopped, watchdog.ByOperator, "", "", nil, time.Time{}
	got, err = EncodeRecord(stopped)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"writer":null`, `"reason":null`, `"at":null`, `"evidence":null`, `"index":0,"type":"done","stop_reason":"cancelled"}]}`} {
		if !strings.Contains(string(got), part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
}

func TestRecordsThatCannotBeWritten(t *testing.T) {
	for name, change := range map[string]func(*watchdog.Record){
		"no id":         func(r *watchdog.Record) { r.ID = "" },
		"bad id":        func(r *watchdog.Record) { r.ID = "a b" },
		"no generation": func(r *watchdog.Record) { r.Generation = 0 },
		"no outcome":    func(r *watchdog.Record) { r.Outcome = watchdog.OutcomeNone },
		"no office":     func(r *watchdog.Record) { r.SettledBy = "" },
		"wrong office":  func(r *watchdog.Record) { r.SettledBy = "me" },
		"no nonce":      func(r *watchdog.Record) { r.Nonce = "" },
		"hidden nonce":  func(r *watchdog.Record) { r.Nonce = "a\x00" },
	} {
		r := lostRecord()
		change(&r)
		if text, err := EncodeRecord(r); err == nil {
			t.Errorf("%s: written as %s", name, text)
		}
	}
}

func TestRecordIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := watchdog.Record{
			ID:         watchdog.ID(rapid.SampledFrom([]string{"a", "team.a.job-1", "user:42:chat", `q"\`, "世界"}).Draw(t, "id")),
			Generation: watchdog.Generation(rapid.Uint32Range(1, 1<<32-1).Draw(t, "generation")),
			Outcome:    watchdog.Outcome(rapid.IntRange(1, 5).Draw(t, "outcome")),
			SettledBy:  rapid.SampledFrom(offices()).Draw(t, "office"),
			Writer:     string(drawnText(t, "writer")), Nonce: rapid.StringMatching(`[ -~]{1,40}`).Draw(t, "nonce"), Reason: string(drawnText(t, "reason")),
			At: time.UnixMilli(rapid.Int64Range(1, 1e14).Draw(t, "at")).UTC(),
		}
		if rapid.Bool().Draw(t, "evidence") {
			r.Why, _ = json.Marshal(map[string]string{"text": string(drawnText(t, "why"))})
		}
		stored, err := EncodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		once, err := DecodeRecord(r.ID, r.Generation, stored)
		if err != nil {
			t.Fatalf("%v: %s", err, stored)
		}
		if once.ID != r.ID || once.Outcome != r.Outcome || once.SettledBy != r.SettledBy || once.Nonce != r.Nonce || !once.At.Equal(r.At) {
			t.Fatalf("%+v became %+v", r, once)
		}
		again, err := EncodeRecord(once)
		if err != nil || !bytes.Equal(again, stored) {
			t.Fatalf("written again it is %s, was %s, %v", again, stored, err)
		}
	})
}

func TestHostileRecords(t *testing.T) {
	with := func(old, new string) string {
		changed := strings.Replace(lostText, old, new, 1)
		if changed == lostText {
			t.Fatalf("%q is not in the record", old)
		}
		return changed
	}
	for name, src := range map[string]string{
		"empty":                  ``,
		"not JSON":               `lost`,
		"NaN":                    with(`{"rule":"lost"}`, `NaN`),
		"array":                  `[]`,
		"empty object":           `{}`,
		"trailing":               lostText + `{}`,
		"other session":          with(`"indexer"`, `"other"`),
		"other generation":       with(`"generation":2`, `"generation":3`),
		"negative generation":    with(`"generation":2`, `"generation":-2`),
		"fraction":               with(`"generation":2`, `"generation":2.5`),
		"text generation":        with(`"generation":2`, `"generation":"2"`),
		"null generation":        with(`"generation":2`, `"generation":null`),
		"other case":             with(`"outcome"`, `"Outcome"`),
		"unknown outcome":        with(`"lost"`, `"gone"`),
		"empty outcome":          with(`"lost"`, `""`),
		"unknown office":         with(`"sweeper"`, `"me"`),
		"no nonce":               with(`"nonce":"k3x9",`, ``),
		"empty nonce":            with(`"k3x9"`, `""`),
		"invisible nonce":        with(`"k3x9"`, `"k3\u200bx9"`),
		"duplicate":              with(`"generation":2`, `"generation":2,"generation":2`),
		"duplicate by an escape": with(`"generation":2`, `"generation":2,"gener\u0061tion":2`),
		"duplicate null":         with(`"generation":2`, `"generation":2,"generation":null`),
		"wrong time":             with(`2026-11-30T03:12:44.120Z`, `yesterday`),
		"time beyond years":      with(`2026-11-30T03:12:44.120Z`, `9999-12-31T23:59:59-12:00`),
		"numeric reason":         with(`"3 beats missed"`, `3`),
		"records not a list":     with(`"records":[`, `"records":{"a":[`) + "}",
		"too long":               with(`"lost"}]`, `"`+strings.Repeat("x", MaxDocumentBytes)+`"}]`),
		"too deep":               with(`{"rule":"lost"}`, strings.Repeat("[", 40)+strings.Repeat("]", 40)),
	} {
		r, err := DecodeRecord("indexer", 2, []byte(src))
		if !errors.Is(err, watchdog.ErrForeignRecord) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	ok := with(`"generation":2`, `"generation":20e-1,"since":1,"since":2`)
	if _, err := DecodeRecord("indexer", 2, []byte(ok)); err != nil {
		t.Errorf("an unknown field that repeats, and another spelling of 2: %v", err)
	}
}

func TestRecordTextsAreCleaned(t *testing.T) {
	src := strings.Replace(lostText, "3 beats missed", `a\u001b]52;c;ZXZpbA==\u0007b\u202ec`, 1)
	src = strings.Replace(src, `{"rule":"lost"}`, `{"rule":"x\u001b[31my","n\u200bame":[1,"\u009b2Jz"]}`, 1)
	r, err := DecodeRecord("indexer", 2, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if r.Reason != "abc" || string(r.Why) != `{"rule":"xy","name":[1,"z"]}` {
		t.Errorf("reason %q, evidence %s", r.Reason, r.Why)
	}
}

func TestEvidenceThatIsTooLongOrNoJSON(t *testing.T) {
	for why, want := range map[string]string{
		`{"a":"` + strings.Repeat("x", maxEvidenceBytes) + `"}`: fmt.Sprintf(`"evidence":{"left_out_bytes":%d}`, maxEvidenceBytes+8),
		`{"a":`: `"evidence":null`,
		`NaN`:   `"evidence":null`,
	} {
		r := lostRecord()
		r.Why = []byte(why)
		text, err := EncodeRecord(r)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%.300s, %v; want %s", text, err, want)
		}
	}
}

func testKey(t *testing.T, id string) (SigningKey, PublicKeys) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return SigningKey{ID: id, Private: private}, PublicKeys{id: public}
}

func TestSeal(t *testing.T) {
	key, trusted := testKey(t, "ops1")
	other, otherTrusted := testKey(t, "ops1") // the same name, another key
	signing := Seal{Key: key, Trusted: trusted}
	r := lostRecord()
	stored, err := signing.Record(r)
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := Seal{}.Record(r)
	forged, _ := Seal{Key: other}.Record(r)
	unsigned, _ := Wrap(plain, SigningKey{}).Encode()
	for _, c := range []struct {
		name   string
		seal   Seal
		stored []byte
		ok     bool
	}{
		{"signed", signing, stored, true},
		{"signed, no keys configured", Seal{}, stored, true},
		{"plain, no keys configured", Seal{}, plain, true},
		{"plain", signing, plain, false},
		{"unsigned envelope", signing, unsigned, false},
		{"unsigned envelope, no keys configured", Seal{}, unsigned, true},
		{"signed by another", signing, forged, false},
		{"another's keys", Seal{Trusted: otherTrusted}, stored, false},
		{"changed payload", signing, bytes.Replace(stored, []byte("3 beats"), []byte("4 beats"), 1), false},
	} {
		got, err := c.seal.Open("indexer", 2, c.stored)
		if c.ok && (err != nil || cmp.Diff(r, got) != "") || !c.ok && !errors.Is(err, watchdog.ErrForeignRecord) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	if _, err := signing.Open("indexer", 3, stored); !errors.Is(err, watchdog.ErrForeignRecord) {
		t.Errorf("a signed record counts at another place: %v", err)
	}
	for name, s := range map[string]Seal{"keys and no signing key": {Trusted: trusted}, "a signing key that is not trusted": {Key: other, Trusted: trusted}} {
		if text, err := s.Record(r); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestHeadIsReadAsItWasWritten(t *testing.T) {
	h := watchdog.Head{
		ID: "team.a:7", Generation: 9, Ended: true, Cadence: 1500*time.Millisecond + 1, Sources: watchdog.SourceNATS.Set() | watchdog.SourceRedis.Set(),
		Executions: []watchdog.Execution{{Generation: 9, BootID: "k3x9", Start: someMoment, Supervised: true}, {Generation: 8}},
	}
	text, err := EncodeHead(h)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"session_id":"team.a:7","generation":9,"ended":true,"executions":[` +
		`{"generation":9,"boot_id":"k3x9","started_at":"2026-11-30T03:12:44.120Z","supervised":true},` +
		`{"generation":8,"boot_id":null,"started_at":null,"supervised":false}],"heartbeat_interval_secs":1.500000001,"sources":["nats","redis"]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	got, err := DecodeHead(h.ID, text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got); diff != "" {
		t.Error(diff)
	}
}

func TestHostileHeads(t *testing.T) {
	for _, src := range []string{
		``, `{}`, `null`, `{"session_id":"b","generation":1}`, `{"session_id":"a"}`, `{"session_id":"a","generation":0}`, `{"session_id":"a","generation":1,"ended":1}`,
		`{"session_id":"a","generation":1,"executions":{}}`, `{"session_id":"a","generation":1,"executions":[1]}`, `{"session_id":"a","generation":1,"executions":[[]]}`,
		`{"session_id":"a","generation":1,"executions":[{}]}`, `{"session_id":"a","generation":1,"executions":[{"generation":1,"boot_id":"\u001b[31m"}]}`,
		`{"session_id":"a","generation":1,"executions":[` + strings.Repeat(`{"generation":1},`, 8) + `{"generation":1}]}`,
		`{"session_id":"a","generation":1,"generation":2}`, `{"session_id":"a","generation":1,"heartbeat_interval_secs":-1}`,
	} {
		if h, err := DecodeHead("a", []byte(src)); err == nil {
			t.Errorf("%s is read as %+v", src, h)
		}
	}
}

func TestAuthority(t *testing.T) {
	a := watchdog.Authority{Name: "jetstream", Identity: "SW_TERMINAL 2026-11-30T03:12:44.12345Z"}
	text, err := EncodeAuthority(a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeAuthority(text); got != a || err != nil {
		t.Errorf("%s is read as %+v, %v", text, got, err)
	}
	for _, src := range []string{``, `{}`, `{"name":"jetstream"}`, `{"identity":"x"}`, `{"name":"etcd","identity":"x"}`, `{"name":"file","identity":""}`, `{"name":"file","name":"redis","identity":"x"}`} {
		if got, err := DecodeAuthority([]byte(src)); err == nil {
			t.Errorf("%s is read as %+v", src, got)
		}
	}
	if text, err := EncodeAuthority(watchdog.Authority{Name: "file"}); err == nil {
		t.Errorf("written as %s", text)
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add([]byte(lostText))
	f.Add([]byte(commandText))
	f.Add([]byte(resultText))
	f.Add([]byte(`{"payload":"{}","key_id":null,"signature":null}`))
	f.Add([]byte(`{"session_id":"indexer","generation":2,"executions":[{"generation":1,"boot_id":"\ud800"}],"sources":["nats",3]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		if r, err := (Seal{}).Open("indexer", 2, src); err == nil {
			stored, err := EncodeRecord(r)
			if err != nil {
				t.Fatalf("read and not written: %v", err)
			}
			again, err := DecodeRecord("indexer", 2, stored)
			if err != nil {
				t.Fatalf("written and not read: %v", err)
			}
			r.Why, again.Why = nil, nil // it may have been too long
			if diff := cmp.Diff(r, again); diff != "" {
				t.Fatal(diff)
			}
		} else if !errors.Is(err, watchdog.ErrForeignRecord) {
			t.Fatal(err)
		}
		if h, err := DecodeHead("indexer", src); err == nil {
			stored, err := EncodeHead(h)
			if err != nil {
				t.Fatalf("read and not written: %v", err)
			}
			if again, err := DecodeHead("indexer", stored); err != nil || cmp.Diff(h, again) != "" {
				t.Fatalf("%v: %s", err, cmp.Diff(h, again))
			}
		}
		_, _ = DecodeAuthority(src)
		if c, err := DecodeCommand("indexer", src); err == nil {
			stored, err := EncodeCommand(c)
			if err != nil {
				t.Fatalf("read and not written: %v", err)
			}
			if again, err := DecodeCommand("indexer", stored); err != nil || cmp.Diff(c, again) != "" {
				t.Fatalf("%v: %s", err, cmp.Diff(c, again))
			}
		}
		if r, err := DecodeResult("indexer", "01J", src); err == nil {
			if _, err := EncodeResult(r); err != nil {
				t.Fatalf("read and not written: %v", err)
			}
		}
	})
}
