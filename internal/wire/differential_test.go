package wire

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// spelled are values in every spelling that a rule speaks of.
var spelled = strings.Split("null|NaN|Infinity|-Infinity|true|false|[]|{}|[\"stop\"]|[ \"st\\u006fp\" ,\"dump\",\"stop\"]|[\"defragment\",\"kill\"]|[\"stop\",null]|[\"stop\",7]|[[\"stop\"]]|[\"\"]|[[1,{\"a\":[NaN]}],2]|"+
	"0|-0|1|142|3|-1|-0.5|0.4|142.9|8.43|3.0|3.5|30e-1|1e0|1.5e1|-0.0|-1e-999|1e-999|1e999|-1e999|1e300|1E+2|00|01|1.|.5|+1|-|1e|1e+|0x1|"+
	"4294967295|4294967296|9223372036854775807|9223372036854775808|0.99999999999999999999999|3.00000000000000000000001|"+
	"999999999999999999|9999999999999999999|123456789.123456789123|0.000000000499|0.0000001e7|100000000000000000000e-20|1e19|1e18|12345678901234567890e-2|"+
	"18446744073709551616|36893488147419103233|10000000000|18446744073.709551616|1000000000000000000000000000000e-30|9.3e18|"+
	"31536000|31536001|3153600000|9007199254740993|0.1e-5|0.30000000000000004|179769313486231580793e289|"+
	"\"\"|\"batch-job-abc123\"|\"running\"|\"stalled\"|\"completed\"|\"error\"|\"paused\"|\"human\"|\"tool\"|\"rate_limit\"|\"other\"|\"Human\"|\"142\"|"+
	"\"\\u001b[2Jred\"|\"r\\u0075nning\"|\"\\ud83d\\ude00\"|\"\\ud83d\"|\"\\ude00\\ud83d\"|\"\\ud83dx\\n\\t\\/\"|\"a\u200bb\"|\"\u4e16\u754c\"|\"\xff\xc3\"|\"\\x\"|\"\\u12\"|\"a\nb\"|\"\x1f\"|\"a\x00\"|\"\x7f\"|\"open|"+
	"\"\\u0062atch-job-abc123\"|\"hum\\u0061n\"|\"\\u0000\"|\"\\ud800\\u0041\"|\"\\uD83D\\uDE00\"", "|")

// drawnPayload is a beat with one to four faults or oddities, or none.
func drawnPayload(t *rapid.T) string {
	gap := rapid.SampledFrom([]string{"", "", "", " ", "\n\t\r ", "\f"})
	names := append([]string{"STATE", "x", "", `\u0073tate`, `se\u0071`, `st\ate`, `"`, "state "}, fieldNames[:]...)
	var parts []string
	add := func(name, value string) {
		parts = append(parts, gap.Draw(t, "gap")+`"`+name+`"`+gap.Draw(t, "gap")+":"+gap.Draw(t, "gap")+value+gap.Draw(t, "gap"))
	}
	if rapid.IntRange(0, 9).Draw(t, "with id") > 0 {
		add("session_id", `"batch-job-abc123"`)
	}
	if rapid.IntRange(0, 9).Draw(t, "with state") > 0 {
		add("state", `"running"`)
	}
	value := rapid.OneOf(rapid.SampledFrom(spelled), rapid.StringMatching(`-?[1-9][0-9]{0,19}(\.[0-9]{1,19})?([eE][+-]?[0-9]{1,3})?`))
	for range rapid.IntRange(0, 4).Draw(t, "more") {
		add(rapid.SampledFrom(names).Draw(t, "name"), value.Draw(t, "value"))
	}
	if rapid.Bool().Draw(t, "nest") {
		deep := rapid.IntRange(28, 36).Draw(t, "deep")
		add("trace", strings.Repeat(rapid.SampledFrom([]string{"[", `{"a":`, "[1,"}).Draw(t, "open"), deep)+
			rapid.SampledFrom([]string{"", "1", "]"}).Draw(t, "middle")+
			strings.Repeat(rapid.SampledFrom([]string{"]", "}"}).Draw(t, "close"), deep))
	}
	comma := rapid.SampledFrom([]string{",", ",", ",", ",", ",", ",,", ""}).Draw(t, "comma")
	return gap.Draw(t, "gap") + "{" + strings.Join(parts, comma) + rapid.SampledFrom([]string{"}", "}", "}", "}", "}\n", "", ",}", "}x", "}{}"}).Draw(t, "end")
}

func TestDecodeEqualsTheOracle(t *testing.T) {
	for _, c := range fixtures(t) {
		id, _ := IDFromSubject(c.Subject)
		if diff := differ(id, []byte(c.Payload)); diff != "" {
			t.Error(diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if diff := differ("batch-job-abc123", []byte(drawnPayload(t))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestEverySpellingInEveryField walks the whole table once.
func TestEverySpellingInEveryField(t *testing.T) {
	for _, name := range fieldNames {
		for _, value := range spelled {
			payload := `{"session_id":"batch-job-abc123","state":"running","` + name + `":` + value + `}`
			switch name {
			case "session_id":
				payload = `{"` + name + `":` + value + `,"state":"running"}`
			case "state":
				payload = `{"` + name + `":` + value + `,"session_id":"batch-job-abc123"}`
			}
			if diff := differ("batch-job-abc123", []byte(payload)); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestValidIDEqualsTheOracle(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "job-1", ".", "..", ":", "*", ">", "{", " ", "\u00a0", "\u3000", "é", "世", "\u200b", "\ufe0f", "❤", "👍", "\xff", "\x00", "\x7f", "\u0085", "/", "\ufffd", "\u2800", "\u0301"}),
		rapid.StringN(0, 3, 12),
	)
	rapid.Check(t, func(t *rapid.T) {
		id := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			id = strings.Repeat(id+"x", 60)
		}
		if ValidID(id) != oracleID(id) || ValidID([]byte(id)) != oracleID(id) {
			t.Fatalf("ValidID(%q) = %v", id, ValidID(id))
		}
	})
}

func FuzzDecodeBeat(f *testing.F) {
	for _, c := range fixtures(f) {
		if len(c.Payload) < 4096 {
			id, _ := IDFromSubject(c.Subject)
			f.Add(id, []byte(c.Payload))
		}
	}
	f.Add("batch-job-abc123", []byte(allFields))
	for _, value := range spelled {
		f.Add("a", []byte(`{"session_id":"a","state":"x","idle_secs":`+value+`,"`+value+`":[`+value+`]}`))
	}
	f.Fuzz(func(t *testing.T, id string, payload []byte) {
		if diff := differ(id, payload); diff != "" {
			t.Error(diff)
		}
	})
}
