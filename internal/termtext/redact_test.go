package termtext

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedactURL(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"no address here, only a question?", "no address here, only a question?"},
		{"nats://localhost:4222", "nats://localhost:4222"},
		{"redis://[::1]:6379/0", "redis://[::1]:6379/0"},
		{"nats://ops:hunter2@eu1:4222", "nats://ops:***@eu1:4222"},
		{"nats://s3cr3t@eu1:4222", "nats://***@eu1:4222"},
		{"redis://:hunter2@eu1:6379/3", "redis://:***@eu1:6379/3"},
		{"redis://:hun/te@r2@eu1:6379", "redis://:***@eu1:6379"},
		{"redis://ab/cd=@eu1", "redis://***@eu1"},
		{"nats://a:b@h1,nats://c:d@h2, tls://e@h3", "nats://a:***@h1,nats://c:***@h2, tls://***@h3"},
		{"ops:hunter2@eu1:4222", "ops:***@eu1:4222"},
		{"s3cr3t@eu1:4222", "***@eu1:4222"},
		{"ask ops@example.com", "ask ops@example.com"},
		{"https://h/p?to=a@b&token=x&n=1", "https://h/p?to=a@b&token=***&n=1"},
		{"https://h/p?API_KEY=x#f", "https://h/p?API_KEY=***#f"},
		{"redis://h:6379?password=x", "redis://h:6379?password=***"},
		{`dial "redis://u:pa ss@h:1": refused`, `dial "redis://u:***@h:1": refused`},
		{`url='redis://u:p"a s@h' is bad`, `url='redis://u:***@h' is bad`},
		{"redis://u:hunter2", "redis://u:***"},
		{"can't reach nats://tok@h1 or nats://tik@h2, don't know why", "can't reach nats://***@h2, don't know why"},
		{"wss://u:p@h/ws: handshake failed", "wss://u:***@h/ws: handshake failed"},
	} {
		if got := RedactURL(c.in); got != c.want {
			t.Errorf("RedactURL(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestRedactURLHidesWhatParsingQuotes(t *testing.T) {
	for _, in := range []string{
		"redis://u:hunter%zz2@h:1", "redis://u:hunter/2@h:1", "redis://u:hunter 2@h:1",
		"redis://u:hun^ter@h:1", "redis://u:[hunter@h:1", "redis://u:hunter\x7f@h", "nats://u:hunter",
	} {
		_, err := url.Parse(in)
		if err == nil {
			continue
		}
		got := RedactURL(err.Error())
		if strings.Contains(got, "hunter") || strings.Contains(got, "%zz") {
			t.Errorf("%q still tells: %q", in, got)
		}
	}
}

func TestRedactURLNeverShowsThePassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := "Q" + rapid.StringMatching(`[A-Za-z0-9:/@?#%!'"&=+.,-]{0,12}`).Draw(t, "secret") + "Q"
		address := rapid.SampledFrom([]string{"nats", "tls", "redis", "rediss", "http"}).Draw(t, "scheme") +
			"://" + rapid.SampledFrom([]string{"", "ops"}).Draw(t, "user") + ":" + secret + "@eu1-02:4222"
		for _, text := range []string{address, "dial " + address + " failed", `parse "` + address + `": bad`, "x, " + address} {
			if strings.Contains(RedactURL(text), secret) {
				t.Fatalf("%q -> %q", text, RedactURL(text))
			}
		}
	})
}

func FuzzRedactURL(f *testing.F) {
	f.Add(`parse "redis://u:p@h": invalid port ":x" after host`)
	f.Fuzz(func(t *testing.T, text string) {
		once := RedactURL(text)
		if twice := RedactURL(once); len(twice) > len(once)+16 {
			t.Errorf("redacting again grows %q to %q", once, twice)
		}
	})
}
