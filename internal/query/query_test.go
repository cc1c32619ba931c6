package query

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fleet is a few sessions with names that tests speak of.
func fleet() map[string]*watchdog.Candidate {
	known := watchdog.SourceNATS.Set() | watchdog.SourceRedis.Set()
	return map[string]*watchdog.Candidate{
		"stalled": {
			ID: []byte("batch-job-ABC123"), Task: []byte("Processing chunk 47/200"), State: []byte("running"),
			Host: []byte("eu2-07"), Agent: []byte("worker-7"), Generation: 3, Verdict: watchdog.Stalled, Attention: watchdog.AttentionAct,
			For: 9 * time.Minute, BeatAge: 6 * time.Second, WorkAge: 14 * time.Minute, WorkKnown: true,
			Uptime: 3 * time.Hour, Credits: 8.43, Sources: known,
		},
		"bare": {
			ID: []byte("crawler-0031"), State: []byte("running"), Verdict: watchdog.Running, Attention: watchdog.AttentionNone,
			BeatAge: -1, WorkAge: -1, Uptime: -1, Credits: math.NaN(), Sources: watchdog.SourceNATS.Set(),
		},
		"waiting": {
			ID: []byte("approver-billing"), Task: []byte("approve refund über 5"), State: []byte("tool web.fetch"), Host: []byte("us1-01"),
			Generation: 1, Verdict: watchdog.Waiting, Attention: watchdog.AttentionWait, For: 6 * time.Hour, BeatAge: 9 * time.Second,
			WorkAge: 9 * time.Second, Uptime: 6 * time.Hour, Credits: 0, Waiting: watchdog.WaitHuman, Sources: watchdog.SourceHTTP.Set(),
		},
		"lost": {
			ID: []byte("user:42:chat"), Task: []byte(`say "none"`), Verdict: watchdog.Lost, Attention: watchdog.AttentionBadEnd,
			For: 50 * time.Hour, BeatAge: 51 * time.Hour, WorkAge: -1, Uptime: time.Minute, Credits: 2, Sources: known,
		},
	}
}

func TestMatch(t *testing.T) {
	tests := map[string]string{ // query: the sessions that pass, sorted
		"":                      "bare lost stalled waiting",
		"   ":                   "bare lost stalled waiting",
		"chunk":                 "stalled",
		"CHUNK abc":             "stalled",
		"chunk crawler":         "",
		`"chunk 47"`:            "stalled",
		`"say \"none\""`:        "lost",
		"47/200":                "stalled",
		"ÜBER":                  "waiting",
		"!chunk":                "bare lost waiting",
		"!!chunk":               "stalled",
		"!chunk !0031":          "lost waiting",
		`/c(hunk|rawler)/`:      "bare stalled",
		`/CHUNK/`:               "",
		`/(?i)CHUNK/`:           "stalled",
		`/47\/200/`:             "stalled",
		`/^crawler-\d+$/`:       "bare",
		`!/c/`:                  "waiting",
		"verdict:stalled":       "stalled",
		"verdict:Stalled,lost":  "lost stalled",
		"verdict=lost":          "lost",
		"verdict!=lost":         "bare stalled waiting",
		"!verdict:live":         "lost",
		"verdict:ended":         "lost",
		"attention:yes":         "lost stalled waiting",
		"attention:no":          "bare",
		"attention:act,bad-end": "lost stalled",
		"attention:counted":     "lost stalled waiting",
		"id:batch-*":            "stalled",
		"id:*31":                "bare",
		"id:crawler-00?1":       "bare",
		"id:batch":              "",
		"id:~batch":             "stalled",
		`id:"user:42:chat"`:     "lost",
		"id:user:42:*":          "lost",
		"session:/^u/":          "lost",
		"host:eu2-*,us1-*":      "stalled waiting",
		"host!=eu2-07":          "waiting",
		"!host:eu2-*":           "bare lost waiting",
		"host:unknown":          "bare lost",
		"host:none":             "bare lost",
		"host:known":            "stalled waiting",
		"host:*":                "stalled waiting",
		`host:""`:               "bare lost",
		"task:~chunk":           "stalled",
		`task:~"refund über"`:   "waiting",
		`task:"none"`:           "",
		"task:none":             "bare",
		"task:/47.200/":         "stalled",
		"state:tool*":           "waiting",
		"agent=WORKER-7":        "stalled",
		"work>5m":               "stalled",
		"work > 5m":             "stalled",
		"work:>5m":              "stalled",
		"work>=840":             "stalled",
		"work<5m":               "waiting",
		"work:unknown":          "bare lost",
		"work:known":            "stalled waiting",
		"beat>2d":               "lost",
		"beat<1m30s":            "stalled waiting",
		"for>=6h for<1d":        "waiting",
		"up<1h":                 "lost",
		"uptime>2h59m59.5s":     "stalled waiting",
		"credits<2":             "waiting",
		"credits<=2":            "lost waiting",
		"credits=2":             "lost",
		"credits:0,2":           "lost waiting",
		"credits!=2":            "stalled waiting",
		"credits:unknown":       "bare",
		"credits:none,2":        "bare lost",
		"!credits<2":            "bare lost stalled",
		"gen:3":                 "stalled",
		"gen>1":                 "stalled",
		"gen:#3":                "stalled",
		"gen:unknown":           "bare lost",
		"generation<3":          "waiting",
		"waiting:human":         "waiting",
		"wait:any":              "waiting",
		"waiting:none":          "bare lost stalled",
		"src:nats":              "bare lost stalled",
		"src=nats":              "bare",
		"source:r,h":            "lost stalled waiting",
		"src=nats,redis":        "lost stalled",
		"src!=nats,redis":       "bare waiting",
		"src:none":              "",
		"verdict:stalled work>5m credits<20 task:~chunk host:eu2-*": "stalled",
	}
	for text, want := range tests {
		q, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for name, c := range fleet() {
			if match := q.Match(); match == nil || match(c) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: passes %q, want %q", text, s, want)
		}
		if q.String() != text || q.Empty() != (strings.TrimSpace(text) == "") {
			t.Errorf("%q: String %q, Empty %v", text, q, q.Empty())
		}
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		text string
		pos  int
		want string
	}{
		{"verdct:stalled", 1, `"verdct" is not a field; did you mean verdict? (fields: verdict, attention, id`},
		{"a b user:42", 5, "to look for the word itself, put it into quotes"},
		{"verdict:stal", 9, `"stal" is not a value of verdict; did you mean stalled? (values: running, waiting`},
		{"verdict:stalled,", 17, "nothing stands after the comma"},
		{"verdict:", 9, "nothing stands after verdict:"},
		{"verdict>lost", 1, "verdict cannot be compared with >"},
		{"verdict:~lo", 9, "is not a value of verdict"},
		{"host>a", 1, "host is a text and cannot be compared with >"},
		{"work:5m", 1, "work is an age and never exactly a value"},
		{"work>soon", 6, `"soon" is not a duration such as 90s, 5m, 2h or 3d; write it as in work>5m, or work:unknown`},
		{"work>", 6, "nothing stands after work>"},
		{"work>5x", 6, "is not a duration"},
		{"work>-5m", 6, "is not a duration"},
		{"work>unknown", 6, "is not a duration"},
		{"work>5m,6m", 9, "takes one value"},
		{"credits<nan", 9, `"nan" is not a number`},
		{"credits<inf", 9, "is not a number"},
		{"gen:~3", 5, "is not a number"},
		{"ü /a", 3, "the regular expression is not closed; end it with /"},
		{"/(/", 1, "the regular expression cannot be read: missing closing )"},
		{"/a)(b/", 1, "the regular expression cannot be read: unexpected )"},
		{`task:/*/`, 6, "the regular expression cannot be read"},
		{`"abc`, 1, `the phrase is not closed; end it with "`},
		{"a !", 3, "nothing stands after !"},
		{"! a", 1, "write it directly before a word or field"},
		{">5m", 1, "> needs a field before it"},
		{"src:x", 5, "(values: nats, redis, http, local, none)"},
		{strings.Repeat("a", maxText+1), maxText + 1, "shorten it"},
	}
	for _, tt := range tests {
		_, err := Compile(tt.text)
		var e *Error
		if !errors.As(err, &e) || e.Pos != tt.pos || !strings.Contains(e.Text, tt.want) {
			t.Errorf("%.40s: %v\nwant at %d: %s", tt.text, err, tt.pos, tt.want)
		}
	}
}

// TestFieldsAreWhole: what help offers really works.
func TestFieldsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Fields() {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if seen[name] || name == "" || name != strings.ToLower(name) {
				t.Errorf("name %q", name)
			}
			seen[name] = true
		}
		if f.Doc == "" {
			t.Errorf("%s has no documentation", f.Name)
		}
		if _, err := Compile(f.Example); err != nil || !strings.HasPrefix(f.Example, f.Name) {
			t.Errorf("example of %s: %q: %v", f.Name, f.Example, err)
		}
		for _, v := range f.Values {
			if _, err := Compile(f.Name + ":" + v); err != nil {
				t.Error(err)
			}
		}
		if len(f.Values) == 0 {
			if _, err := Compile(f.Name + ":unknown"); err != nil {
				t.Error(err)
			}
		}
	}
	for v := range watchdog.VerdictCount {
		if _, err := Compile("verdict:" + v.String()); err != nil {
			t.Error(err)
		}
	}
}

func TestSortKeys(t *testing.T) {
	order := func(name string) string {
		k, err := SortBy(name)
		if err != nil {
			t.Fatal(err)
		}
		if k.Doc == "" {
			t.Errorf("%s has no documentation", name)
		}
		sessions := fleet()
		names := []string{"bare", "lost", "stalled", "waiting"}
		slices.SortStableFunc(names, func(a, b string) int {
			ka, kb := k.Key(sessions[a]), k.Key(sessions[b])
			switch {
			case math.IsNaN(ka.Num):
				t.Errorf("%s gives NaN", name)
			case ka.Num < kb.Num:
				return -1
			case ka.Num > kb.Num:
				return 1
			case ka.Text != kb.Text:
				return strings.Compare(ka.Text, kb.Text)
			}
			return bytes.Compare(sessions[a].ID, sessions[b].ID)
		})
		return strings.Join(names, " ")
	}
	for name, want := range map[string]string{
		"verdict": "stalled lost waiting bare", "for": "lost waiting stalled bare", "id": "waiting stalled bare lost",
		"gen": "stalled waiting bare lost", "up": "waiting stalled lost bare", "beat": "lost waiting stalled bare",
		"work": "stalled waiting bare lost", "credits": "waiting lost stalled bare", "host": "stalled waiting bare lost",
		"TASK": "waiting stalled lost bare", "agent": "stalled waiting bare lost", "state": "stalled bare waiting lost",
	} {
		if got := order(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if k, err := SortBy(""); err != nil || k.Name != "attention" || k.Key != nil {
		t.Errorf("default order: %+v %v", k, err)
	}
	if _, err := SortBy("verdct"); err == nil || !strings.Contains(err.Error(), "did you mean verdict?") {
		t.Errorf("%v", err)
	}
}

// TestWordsDoNotAllocate: the fleet is filtered ten times a second.
func TestWordsDoNotAllocate(t *testing.T) {
	c := fleet()["stalled"]
	for _, text := range []string{"chunk", "nowhere", "!ÜBER", "verdict:stalled work>5m credits<20 task:~chunk host:eu2-*", "src=nats,redis", "gen:3"} {
		q, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		match := q.Match()
		if n := testing.AllocsPerRun(100, func() { match(c) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

// FuzzCompile: no text panics, neither when compiled nor when matched; errors
// name a place inside the text.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"chunk", `!"a b" /x\/y/ verdict:stalled,lost work>5m`, "src=n,r gen:#3 task:~/a/ host:eu?-*", "credits!=2 ! >", "a:b", "work:>=1h30m", "\xff:\xff", `"\`} {
		f.Add(seed, "batch-job-1", "Chunk 4/200")
	}
	f.Fuzz(func(t *testing.T, text, id, task string) {
		q, err := Compile(text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Pos < 1 || e.Pos > utf8.RuneCountInString(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		c := &watchdog.Candidate{ID: []byte(id), Task: []byte(task), State: []byte(task), Host: []byte(id), Credits: math.NaN(), BeatAge: -1, WorkAge: -1, Uptime: -1}
		match := q.Match()
		if match == nil {
			return
		}
		if first, second := match(c), match(c); first != second {
			t.Fatalf("%q is undecided", text)
		}
	})
}

// FuzzNeedle compares the search with the slow way: lower both, then look.
func FuzzNeedle(f *testing.F) {
	f.Add("chunk", "Processing CHUNK 47/200")
	f.Add("über", "ÜBER")
	f.Add("kk", "k\u212ak")
	f.Add("\xff", "a\xffb")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, text, in string) {
		if !utf8.ValidString(text) || !utf8.ValidString(in) {
			return // the texts of candidates are clean
		}
		n := newNeedle(text)
		lower := lowered(in)
		if n.ascii { // letters beyond ASCII that lower into it do not count
			lower = strings.Map(func(r rune) rune {
				if r >= 'A' && r <= 'Z' {
					return r + 'a' - 'A'
				}
				return r
			}, in)
		}
		if got, want := n.in([]byte(in)), strings.Contains(lower, n.lower); got != want {
			t.Fatalf("%q in %q: %v, want %v", text, in, got, want)
		}
	})
}

// FuzzExpression compares with the regular expression alone: the literal that
// is looked for first never hides a match.
func FuzzExpression(f *testing.F) {
	f.Add(`chunk \d+/200`, "Chunk 47/200 chunk 4/200")
	f.Add(`(?i)task(s|k)`, "TA\u017f\u212aS")
	f.Add(`(ab)+c{2,}|d`, "ababcc")
	f.Add(`(?i:k)elvin(?s:.)x?`, "\u212aelvin1")
	f.Fuzz(func(t *testing.T, text, in string) {
		if len(text) > 200 {
			return
		}
		re, err := newExpression(text)
		if err != nil {
			return
		}
		if got, want := re.match([]byte(in)), regexp.MustCompile(text).MatchString(in); got != want {
			t.Fatalf("%q on %q: %v, want %v; looked for %q", text, in, got, want, re.must.lower)
		}
	})
}

// FuzzGlob compares with the regular expression that means the same.
func FuzzGlob(f *testing.F) {
	f.Add("eu2-*", "EU2-07")
	f.Add("*a*b?c*", "xxaxxbxcxx")
	f.Add("**", "")
	f.Add("?", "ü")
	f.Fuzz(func(t *testing.T, pattern, in string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(in) || len(pattern) > 100 {
			return
		}
		pattern = lowered(pattern)
		re := regexp.QuoteMeta(pattern)
		re = strings.ReplaceAll(strings.ReplaceAll(re, `\*`, `.*`), `\?`, `.`)
		want := regexp.MustCompile(`(?s)^` + re + `$`).MatchString(lowered(in))
		if got := glob([]byte(in), pattern); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, in, got, want)
		}
	})
}

func TestGlobIsNotExponential(t *testing.T) {
	if glob(bytes.Repeat([]byte("a"), 1000), strings.Repeat("*a", 500)+"b") {
		t.Error("matches")
	}
}

// BenchmarkFilter100k filters a hundred thousand sessions and reports how many
// times as long it takes as bytes.Contains on the same texts, in the same run.
func BenchmarkFilter100k(b *testing.B) {
	all := make([]watchdog.Candidate, 100_000)
	for i := range all {
		all[i] = watchdog.Candidate{
			ID: fmt.Appendf(nil, "batch-job-%06d", i), Task: fmt.Appendf(nil, "Processing chunk %d/200000", i),
			State: []byte("running"), Host: fmt.Appendf(nil, "eu%d-%02d", i%4, i%97), Verdict: watchdog.Verdict(i % int(watchdog.VerdictCount)),
			WorkAge: time.Duration(i) * time.Millisecond, Credits: float64(i % 10), Generation: 1,
		}
	}
	floor := func() (n int) {
		for i := range all {
			if bytes.Contains(all[i].ID, []byte("77777")) || bytes.Contains(all[i].Task, []byte("77777")) {
				n++
			}
		}
		return n
	}
	for _, text := range []string{"77777", "chunk", "nowhere", "verdict:stalled work>5s credits<2 task:~chunk host:eu2-*", "/chunk 7+/", `/\d+7777\/200/`, "/(?i)CHUNK 7+/"} {
		b.Run(strings.ReplaceAll(text, "/", "|"), func(b *testing.B) {
			q, err := Compile(text)
			if err != nil {
				b.Fatal(err)
			}
			match := q.Match()
			var mine, base time.Duration
			sum := 0
			for b.Loop() {
				start := time.Now()
				for i := range all {
					if match(&all[i]) {
						sum++
					}
				}
				middle := time.Now()
				sum += floor()
				mine, base = mine+middle.Sub(start), base+time.Since(middle)
			}
			b.ReportMetric(float64(mine)/float64(base), "ratio")
			b.ReportMetric(float64(base.Nanoseconds())/float64(b.N)/float64(len(all)), "floor-ns/session")
			b.ReportMetric(float64(mine.Nanoseconds())/float64(b.N)/float64(len(all)), "ns/session")
			if sum == 0 {
				b.Fatal("nothing was counted")
			}
		})
	}
}

// TestDocExamplesCompile: the language of the package comment is the language.
func TestDocExamplesCompile(t *testing.T) {
	for _, text := range []string{"chunk eu2", `"two words"`, `/batch-\d+/`, "verdict:stalled,wedged", "host:eu2-*", "task:~chunk", "work>5m credits<2", "credits:unknown", "src:nats src=nats"} {
		if _, err := Compile(text); err != nil {
			t.Error(err)
		}
	}
}
