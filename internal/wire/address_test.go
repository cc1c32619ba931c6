package wire

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	if got := LivenessSubject("team.a.job-1"); got != "agent.liveness.team.a.job-1" {
		t.Error(got)
	}
	if got := LivenessKey("user:42:chat"); got != "agent:liveness:user:42:chat" {
		t.Error(got)
	}
	for _, c := range []struct {
		from func(string) (string, bool)
		in   string
		id   string
		ok   bool
	}{
		{IDFromSubject, "agent.liveness.team.a.job-1", "team.a.job-1", true},
		{IDFromSubject, "agent.liveness.", "", true}, // refused as an id, counted as one
		{IDFromSubject, "agent.event.a", "agent.event.a", false},
		{IDFromKey, "agent:liveness:user:42:chat", "user:42:chat", true},
		{IDFromKey, "{agent:liveness:a}:head", "{agent:liveness:a}:head", false},
	} {
		if id, ok := c.from(c.in); id != c.id || ok != c.ok {
			t.Errorf("%q gives %q, %v", c.in, id, ok)
		}
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"batch-job-abc123": true, "team.a.job-1": true, "user:42:chat": true, "a": true, "世界": true, "a/b@c": true, `a"b\c`: true, "$x#1": true,
		"": false, ".": false, ".a": false, "a.": false, "a..b": false, "a b": false, "a\tb": false, "a\nb": false, "a\x00b": false, "a\x7fb": false,
		"a*": false, "a>": false, "a{b}": false, "}": false, "a\u00a0b": false, "a\u3000b": false, "a\u2028b": false, "a\u0085b": false,
		"a\u200bb": false, "a\u200db": false, "\ufeffa": false, "a\u202eb": false, "a\ufe0f": false, "❤\ufe0f": false, "a\U000e0041": false,
		"a\xff": false, "\xed\xa0\x80": false, "a\ufffdb": true, "a\u0301": true, "a\ue000": false,
		strings.Repeat("x", 256): true, strings.Repeat("x", 257): false, strings.Repeat("世", 85) + "x": true, strings.Repeat("世", 86): false,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("ValidID(%q) = %v", id, got)
		}
	}
}

func TestMintable(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "Batch_job-7": true, "0": true, strings.Repeat("x", 128): true,
		"": false, "-a": false, "_a": false, "a.b": false, "a:b": false, "é": false, "a b": false, "a@": false, "a[": false, strings.Repeat("x", 129): false,
	} {
		if got := Mintable(id); got != want {
			t.Errorf("Mintable(%q) = %v", id, got)
		}
	}
}

func FuzzMintableIDsAreValid(f *testing.F) {
	f.Add("a-1")
	f.Fuzz(func(t *testing.T, id string) {
		if Mintable(id) && !ValidID(id) {
			t.Errorf("%q", id)
		}
	})
}
