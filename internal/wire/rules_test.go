package wire

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// with is a good beat of session "a" with more fields.
func with(fields string) string { return `{"session_id":"a","state":"running",` + fields + `}` }

func nestedBeat(levels int) string {
	return with(`"x":` + strings.Repeat("[", levels) + strings.Repeat("]", levels))
}

// sized is a good beat of exactly n bytes.
func sized(n int) string {
	head := `{"session_id":"a","state":"running","x":"`
	return head + strings.Repeat("x", n-len(head)-2) + `"}`
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          watchdog.Refusal
	}{
		{"null", `null`, watchdog.RefusedJSON},
		{"a string", `"a"`, watchdog.RefusedJSON},
		{"white space alone", " \n", watchdog.RefusedJSON},
		{"two objects", with(`"x":1`) + with(`"x":1`), watchdog.RefusedJSON},
		{"NUL behind", with(`"x":1`) + "\x00", watchdog.RefusedJSON},
		{"byte order mark", "\ufeff" + with(`"x":1`), watchdog.RefusedJSON},
		{"form feed", "\f" + with(`"x":1`), watchdog.RefusedJSON},
		{"comma at the end", with(`"x":1,`), watchdog.RefusedJSON},
		{"no comma", with(`"x":1 "y":2`), watchdog.RefusedJSON},
		{"no colon", with(`"x" 1`), watchdog.RefusedJSON},
		{"no value", with(`"x":`), watchdog.RefusedJSON},
		{"bare name", with(`x:1`), watchdog.RefusedJSON},
		{"single quotes", with(`'x':1`), watchdog.RefusedJSON},
		{"comment", with(`"x":1/*y*/`), watchdog.RefusedJSON},
		{"Python's words", with(`"x":None`), watchdog.RefusedJSON},
		{"nan", with(`"x":nan`), watchdog.RefusedJSON},
		{"+Infinity", with(`"x":+Infinity`), watchdog.RefusedJSON},
		{"-NaN", with(`"x":-NaN`), watchdog.RefusedJSON},
		{"NaNs", with(`"x":NaNs`), watchdog.RefusedJSON},
		{"leading zero", with(`"uptime_secs":007`), watchdog.RefusedJSON},
		{"no digit after the point", with(`"uptime_secs":1.`), watchdog.RefusedJSON},
		{"no digit before the point", with(`"uptime_secs":.5`), watchdog.RefusedJSON},
		{"plus sign", with(`"uptime_secs":+1`), watchdog.RefusedJSON},
		{"hexadecimal", with(`"uptime_secs":0x10`), watchdog.RefusedJSON},
		{"bare line break in text", with("\"current_task\":\"a\nb\""), watchdog.RefusedJSON},
		{"unknown escape", with(`"current_task":"\x41"`), watchdog.RefusedJSON},
		{"short escape", with(`"current_task":"\u12"`), watchdog.RefusedJSON},
		{"unknown escape in an ignored field", with(`"x":{"y":"\q"}`), watchdog.RefusedJSON},
		{"wrong bracket", with(`"x":[1}`), watchdog.RefusedJSON},
		{"array with a comma at its end", with(`"x":[1,]`), watchdog.RefusedJSON},
		{"33 levels", nestedBeat(32), watchdog.RefusedDepth},
		{"33 levels, cut off", with(`"x":` + strings.Repeat("[", 40)), watchdog.RefusedDepth},
		{"33 levels in a known field", with(`"generation":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)), watchdog.RefusedDepth},
		{"broken before it is too deep", with(`"x":[}` + strings.Repeat("[", 40)), watchdog.RefusedJSON},
		{"16 KiB and one", sized(16385), watchdog.RefusedSize},
		{"over 16 KiB of no JSON", strings.Repeat("x", 16385), watchdog.RefusedSize},
		{"twice", with(`"uptime_secs":1,"uptime_secs":1`), watchdog.RefusedDuplicate},
		{"twice, once null", with(`"current_task":null,"current_task":"x"`), watchdog.RefusedDuplicate},
		{"twice, both null", with(`"pid":null,"pid":null`), watchdog.RefusedDuplicate},
		{"twice, optional and wrong", with(`"seq":"x","seq":1`), watchdog.RefusedDuplicate},
		{"twice, once in escapes", with(`"\u0073tate":"running"`), watchdog.RefusedDuplicate},
		{"twice, the id", with(`"session_id":"a"`), watchdog.RefusedDuplicate},
		{"twice, the second of another type", with(`"state":1`), watchdog.RefusedDuplicate},
		{"empty object", `{}`, watchdog.RefusedID},
		{"id null", `{"session_id":null,"state":"running"}`, watchdog.RefusedID},
		{"id in another case", `{"session_id":"A","state":"running"}`, watchdog.RefusedID},
		{"id with a zero-width twin", `{"session_id":"a\u200b","state":"running"}`, watchdog.RefusedID},
		{"id with an escape sequence", `{"session_id":"\u001b[1ma","state":"running"}`, watchdog.RefusedID},
		{"id with space around", `{"session_id":" a","state":"running"}`, watchdog.RefusedID},
		{"id field in another case", `{"Session_ID":"a","state":"running"}`, watchdog.RefusedID},
		{"id a number", `{"session_id":1,"state":"running"}`, watchdog.RefusedType},
		{"id an object", `{"session_id":{},"state":"running"}`, watchdog.RefusedType},
		{"state null", `{"session_id":"a","state":null}`, watchdog.RefusedState},
		{"state NaN", `{"session_id":"a","state":NaN}`, watchdog.RefusedState},
		{"state in another case", `{"session_id":"a","State":"running"}`, watchdog.RefusedState},
		{"state a list", `{"session_id":"a","state":["running"]}`, watchdog.RefusedType},
		{"state a boolean", `{"session_id":"a","state":true}`, watchdog.RefusedType},
		{"uptime a boolean", with(`"uptime_secs":true`), watchdog.RefusedType},
		{"uptime an object", with(`"uptime_secs":{"s":1}`), watchdog.RefusedType},
		{"credits a string", with(`"credits_remaining":"8.43"`), watchdog.RefusedType},
		{"credits a boolean", with(`"credits_remaining":false`), watchdog.RefusedType},
		{"task a number", with(`"current_task":47`), watchdog.RefusedType},
		{"task a list", with(`"current_task":["a"]`), watchdog.RefusedType},
		{"uptime between -1 and 0", with(`"uptime_secs":-0.5`), watchdog.RefusedRange},
		{"uptime hardly negative", with(`"uptime_secs":-1e-999`), watchdog.RefusedRange},
		{"uptime over a double", with(`"uptime_secs":1e999`), watchdog.RefusedRange},
		{"uptime over an int64", with(`"uptime_secs":9223372036854775808`), watchdog.RefusedRange},
		{"uptime far below", with(`"uptime_secs":-1e999`), watchdog.RefusedRange},

		{"broken and a duplicate", with(`"state":"x","y"`), watchdog.RefusedJSON},
		{"duplicate and another id", `{"session_id":"b","state":"x","state":"x"}`, watchdog.RefusedDuplicate},
		{"another id and no state", `{"session_id":"b"}`, watchdog.RefusedID},
		{"another id and a wrong type", `{"session_id":"b","state":1}`, watchdog.RefusedID},
		{"no state and a wrong type", `{"session_id":"a","uptime_secs":"x"}`, watchdog.RefusedState},
		{"wrong type and out of range", `{"session_id":"a","state":1,"uptime_secs":-1}`, watchdog.RefusedType},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b watchdog.Beat
			err := DecodeBeat(&b, "a", []byte(c.payload))
			var got watchdog.Refusal
			if !errors.As(err, &got) || got != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestInvalidIDsAreRefusedThoughTheyAgree(t *testing.T) {
	for _, id := range []string{"", "a b", "a..b", ".a", "a*", "a>", "{a", "a\u200b", "a\u202e", "a\u0085", strings.Repeat("x", 257), "a\u3000b"} {
		var b watchdog.Beat
		payload := append(AppendString([]byte(`{"session_id":`), id), `,"state":"running"}`...)
		if err := DecodeBeat(&b, id, payload); err != watchdog.RefusedID {
			t.Errorf("%q: %v", id, err)
		}
	}
	var b watchdog.Beat
	if err := DecodeBeat(&b, "a\xff", []byte("{\"session_id\":\"a\xff\",\"state\":\"running\"}")); err != watchdog.RefusedID {
		t.Errorf("invalid UTF-8: %v", err)
	}
}

func TestReadings(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		name, payload string
		want          map[string]any
		dropped       uint8
	}{
		{"16 KiB", sized(16384), map[string]any{"state": "running"}, 0},
		{"32 levels", nestedBeat(31), map[string]any{"state": "running"}, 0},
		{"white space everywhere", " {\t\"session_id\"\r\n: \"a\" , \"state\" :\"running\"\n} \n", map[string]any{"state": "running"}, 0},
		{"id in escapes", `{"session_id":"\u0061","state":"running"}`, map[string]any{"session_id": "a"}, 0},
		{"name in escapes", `{"session_id":"a","\u0073t\u0061te":"stalled"}`, map[string]any{"state": "stalled"}, 0},
		{"unknown fields twice", with(`"x":1,"x":2,"":0,"":0`), map[string]any{"state": "running"}, 0},
		{"known names inside unknown fields", with(`"x":{"state":1,"state":2,"session_id":"b"}`), map[string]any{"state": "running"}, 0},
		{"NaN inside unknown fields", with(`"x":[NaN,-Infinity,{"y":Infinity}]`), map[string]any{"state": "running"}, 0},
		{"empty state is text", `{"session_id":"a","state":""}`, map[string]any{"state": ""}, 0},
		{"state after cleaning", `{"session_id":"a","state":"\u001b[31mstalled\u200b"}`, map[string]any{"state": "stalled"}, 0},
		{"uptime 0", with(`"uptime_secs":0`), map[string]any{"uptime_secs": 0.0}, 0},
		{"uptime -0", with(`"uptime_secs":-0`), map[string]any{"uptime_secs": 0.0}, 0},
		{"uptime -0.0e5", with(`"uptime_secs":-0.0e5`), map[string]any{"uptime_secs": 0.0}, 0},
		{"uptime with an exponent", with(`"uptime_secs":1.4299e2`), map[string]any{"uptime_secs": 142.0}, 0},
		{"uptime floored exactly", with(`"uptime_secs":142.99999999999999999999`), map[string]any{"uptime_secs": 142.0}, 0},
		{"uptime at the end of its range", with(`"uptime_secs":9223372036854775807`), map[string]any{"uptime_secs": float64(math.MaxInt64)}, 0},
		{"uptime NaN", with(`"uptime_secs":NaN`), map[string]any{"uptime_secs": nil}, 0},
		{"uptime -Infinity", with(`"uptime_secs":-Infinity`), map[string]any{"uptime_secs": nil}, 0},
		{"credits Infinity", with(`"credits_remaining":Infinity`), map[string]any{"credits_remaining": nil}, 0},
		{"credits overflow", with(`"credits_remaining":1e400`), map[string]any{"credits_remaining": nil}, 0},
		{"credits overflow below", with(`"credits_remaining":-1e400`), map[string]any{"credits_remaining": nil}, 0},
		{"credits underflow", with(`"credits_remaining":1e-400`), map[string]any{"credits_remaining": 0.0}, 0},
		{"credits with 20 digits", with(`"credits_remaining":0.12345678901234567890`), map[string]any{"credits_remaining": 0.12345678901234567890}, 0},
		{"task NaN", with(`"current_task":NaN`), map[string]any{"current_task": nil}, 0},
		{"empty task", with(`"current_task":""`), map[string]any{"current_task": ""}, 0},
		{"task of all escapes", with(`"current_task":"\"\\\/\b\f\n\r\t\u0041"`), map[string]any{"current_task": "\"\\/    A"}, 0},
		{"task with line breaks", with(`"current_task":"a\r\nb\u2028c"`), map[string]any{"current_task": "a b c"}, 0},
		{"task over the limit", with(`"current_task":"` + long + `"`), map[string]any{"current_task": long[:512]}, 0},
		{"surrogate pair", with(`"current_task":"\ud83d\ude00"`), map[string]any{"current_task": "😀"}, 0},
		{"lone surrogates", with(`"current_task":"\ud83d\ud83d\ude00\ude00x"`), map[string]any{"current_task": "\ufffd😀\ufffdx"}, 0},
		{"invalid UTF-8", with("\"current_task\":\"a\xffb\""), map[string]any{"current_task": "a\ufffdb"}, 0},
		{"unterminated OSC", with(`"current_task":"ok \u001b]0;evil"`), map[string]any{"current_task": "ok "}, 0},
		{"C1 and bidi", with(`"current_task":"\u009b31mr\u202ee\u200bd"`), map[string]any{"current_task": "red"}, 0},
		{"message is cleaned", with(`"message":"\u001b[1mhi"`), map[string]any{"message": "hi"}, 0},
		{"generation as 3.0", with(`"generation":3.0`), map[string]any{"generation": 3.0}, 0},
		{"generation as 30e-1", with(`"generation":30e-1`), map[string]any{"generation": 3.0}, 0},
		{"generation null", with(`"generation":null`), map[string]any{"generation": nil}, 0},
		{"generation 0", with(`"generation":0`), map[string]any{"generation": nil}, 1},
		{"generation -1", with(`"generation":-1`), map[string]any{"generation": nil}, 1},
		{"generation with a fraction", with(`"generation":1.5`), map[string]any{"generation": nil}, 1},
		{"generation over 32 bits", with(`"generation":4294967296`), map[string]any{"generation": nil}, 1},
		{"generation true", with(`"generation":true`), map[string]any{"generation": nil}, 1},
		{"seq", with(`"seq":0,"boot_id":"b"`), map[string]any{"seq": 0.0, "boot_id": "b"}, 0},
		{"seq below 0", with(`"seq":-1`), map[string]any{"seq": nil}, 1},
		{"seq over 64 bits", with(`"seq":1e30`), map[string]any{"seq": nil}, 1},
		{"boot_id a number", with(`"boot_id":7`), map[string]any{"boot_id": nil}, 1},
		{"boot_id empty", with(`"boot_id":""`), map[string]any{"boot_id": nil}, 1},
		{"idle", with(`"idle_secs":12.5`), map[string]any{"idle_secs": 12.5}, 0},
		{"idle 0", with(`"idle_secs":0`), map[string]any{"idle_secs": 0.0}, 0},
		{"idle below 0", with(`"idle_secs":-0.1`), map[string]any{"idle_secs": nil}, 1},
		{"idle NaN", with(`"idle_secs":NaN`), map[string]any{"idle_secs": nil}, 0},
		{"idle for ever", with(`"idle_secs":1e300`), map[string]any{"idle_secs": nil}, 1},
		{"idle since the epoch", with(`"idle_secs":1764535000.5`), map[string]any{"idle_secs": nil}, 1},
		{"idle at the end of its range", with(`"idle_secs":157680000`), map[string]any{"idle_secs": MaxAge.Seconds()}, 0},
		{"loop lag for ever", with(`"loop_lag_ms":1e30`), map[string]any{"loop_lag_ms": nil}, 1},
		{"loop lag beyond an int64", with(`"loop_lag_ms":9223372036854775808`), map[string]any{"loop_lag_ms": nil}, 1},
		{"idle overflow", with(`"idle_secs":1e999`), map[string]any{"idle_secs": nil}, 1},
		{"settings", with(`"heartbeat_interval_secs":30,"stall_timeout_secs":3e2`), map[string]any{"heartbeat_interval_secs": 30.0, "stall_timeout_secs": 300.0}, 0},
		{"settings of 0", with(`"heartbeat_interval_secs":0,"stall_timeout_secs":0.0`), map[string]any{"heartbeat_interval_secs": nil, "stall_timeout_secs": nil}, 2},
		{"settings for ever", with(`"stall_timeout_secs":1e18`), map[string]any{"stall_timeout_secs": MaxDeclared.Seconds()}, 0},
		{"wait", with(`"waiting_for":"rate_limit","waiting_max_secs":0.5`), map[string]any{"waiting_for": "rate_limit", "waiting_max_secs": 0.5}, 0},
		{"unknown wait", with(`"waiting_for":"lunch","waiting_max_secs":3600`), map[string]any{"waiting_for": nil, "waiting_max_secs": 3600.0}, 1},
		{"wait in another case", with(`"waiting_for":"Human"`), map[string]any{"waiting_for": nil}, 1},
		{"loop lag", with(`"loop_lag_ms":2.5`), map[string]any{"loop_lag_ms": 2.5}, 0},
		{"pid", with(`"pid":4711`), map[string]any{"pid": 4711.0}, 0},
		{"pid a string", with(`"pid":"4711"`), map[string]any{"pid": nil}, 1},
		{"all optional ones wrong", with(`"generation":[],"boot_id":1,"seq":"","idle_secs":"","heartbeat_interval_secs":"","stall_timeout_secs":"",` +
			`"waiting_for":1,"waiting_max_secs":"","loop_lag_ms":"","agent_id":1,"host":{},"pid":"","message":false`), map[string]any{"state": "running", "host": nil}, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b watchdog.Beat
			if err := DecodeBeat(&b, "a", []byte(c.payload)); err != nil {
				t.Fatal(err)
			}
			got := readings(&b)
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s = %v, want %v", name, got[name], want)
				}
			}
			if b.Dropped != c.dropped {
				t.Errorf("%d fields dropped, want %d", b.Dropped, c.dropped)
			}
		})
	}
}

func TestLongestTimesDoNotOverflow(t *testing.T) {
	if 8*1.2*5*float64(MaxDeclared) > float64(math.MaxInt64) || 2*float64(MaxAge) > float64(math.MaxInt64) {
		t.Error("the bounds leave no room for the deadlines built on them")
	}
	var b watchdog.Beat
	if err := DecodeBeat(&b, "a", []byte(with(`"heartbeat_interval_secs":1e-12`))); err != nil || b.Interval != time.Nanosecond {
		t.Errorf("%v, %v", b.Interval, err)
	}
}

func TestUsualBeatsCostNoAllocation(t *testing.T) {
	for name, payload := range map[string]string{
		"five fields": fiveFields, "all fields": allFields,
		"spaces":        strings.ReplaceAll(strings.ReplaceAll(fiveFields, ",", ", "), ":", ": "),
		"another order": `{"state":"running","uptime_secs":142,"current_task":null,"credits_remaining":-0.25,"session_id":"batch-job-abc123"}`,
		"wide task":     strings.Replace(fiveFields, "Processing", "處理", 1),
		"unknown too":   strings.Replace(fiveFields, "{", `{"v":1,"tags":["x",{"y":2.5e3}],`, 1),
		"many digits":   strings.Replace(fiveFields, "8.43", "8.4300000000000000000001", 1),
		"refused":       strings.Replace(fiveFields, "running", "run\x00ning", 1),
	} {
		data, id := []byte(payload), []byte("batch-job-abc123")
		var b watchdog.Beat
		if n := testing.AllocsPerRun(100, func() { _ = DecodeBeat(&b, id, data) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { _ = DecodeBeat(&b, "batch-job-abc123", data) }); n != 0 {
			t.Errorf("%s, id as a string: %v allocations", name, n)
		}
	}
}
