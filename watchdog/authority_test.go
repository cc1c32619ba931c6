package watchdog

import (
	"errors"
	"strings"
	"testing"
)

func TestChooseAuthority(t *testing.T) {
	js, redis := Authority{AuthorityJetStream, "J1"}, Authority{AuthorityRedis, "R1"}
	nats := Contender{Name: AuthorityJetStream, Configured: true}
	noJetStream := Contender{Name: AuthorityJetStream, Configured: true, Impossible: "the server has no JetStream"}
	natsAway := Contender{Name: AuthorityJetStream, Configured: true, Away: "no answer"}
	rds := Contender{Name: AuthorityRedis, Configured: true}
	file := Contender{Name: AuthorityFile, Configured: true}
	on := func(place string, a Authority) Mark { return Mark{Place: place, Found: true, Authority: a} }
	none := func(place string) Mark { return Mark{Place: place} }
	unread := Mark{Place: "NATS", Err: errors.New("no answer")}
	for _, c := range []struct {
		name    string
		setting string
		can     []Contender
		marks   []Mark
		want    string
		reason  string
	}{
		{"the best there is", "auto", []Contender{nats, rds, file}, []Mark{none("Redis"), none("NATS")}, AuthorityJetStream, ""},
		{"an empty setting is auto", "", []Contender{rds, file}, []Mark{none("Redis")}, AuthorityRedis, ""},
		{"without any bus", "auto", []Contender{file}, nil, AuthorityFile, ""},
		{"a server without JetStream", "auto", []Contender{noJetStream, rds}, []Mark{none("Redis")}, AuthorityRedis, ""},
		{"the better is away", "auto", []Contender{natsAway, rds, file}, []Mark{none("Redis"), none("NATS")}, "", "away"},
		{"a bus cannot be read", "auto", []Contender{nats, rds}, []Mark{none("Redis"), unread}, "", "NATS cannot be read"},
		{"even if another names one", "auto", []Contender{nats, rds}, []Mark{on("Redis", redis), unread}, "", "NATS cannot be read"},
		{"a name is followed", "auto", []Contender{nats, rds}, []Mark{on("Redis", redis), none("NATS")}, AuthorityRedis, ""},
		{"a name that is not usable here", "auto", []Contender{rds, file}, []Mark{on("Redis", js)}, "", "needs NATS with JetStream"},
		{"a name on a bus alone", "auto", []Contender{nats, file}, []Mark{on("NATS", redis)}, "", "needs Redis"},
		{"two names", "auto", []Contender{nats, rds}, []Mark{on("Redis", redis), on("NATS", js)}, "", "Redis names redis R1"},
		{"the setting against the name", AuthorityRedis, []Contender{nats, rds}, []Mark{on("Redis", js)}, "", "set ledger: auto"},
		{"the setting agrees", AuthorityJetStream, []Contender{nats, rds}, []Mark{on("Redis", js)}, AuthorityJetStream, ""},
		{"the setting alone", AuthorityFile, []Contender{nats, rds, file}, []Mark{none("Redis"), none("NATS")}, AuthorityFile, ""},
		{"the setting, not configured", AuthorityRedis, []Contender{nats}, nil, "", "needs Redis"},
		{"nothing at all", "auto", nil, nil, "", "no store is configured"},
	} {
		got := ChooseAuthority(c.setting, c.can, c.marks)
		if got.Name != c.want || !strings.Contains(got.Reason, c.reason) || (got.Name == "") == (got.Reason == "") {
			t.Errorf("%s: %+v, want %q because of %q", c.name, got, c.want, c.reason)
		}
	}
}

// NATS is there for one process and away for another: whatever the order of
// their steps, they never use two authorities.
func TestNeverTwoAuthorities(t *testing.T) {
	both := []Contender{{Name: AuthorityJetStream, Configured: true}, {Name: AuthorityRedis, Configured: true}}
	redisAlone := []Contender{{Name: AuthorityJetStream}, {Name: AuthorityRedis, Configured: true}}
	natsAlone := []Contender{{Name: AuthorityJetStream, Configured: true}, {Name: AuthorityRedis}}
	type process struct {
		can     []Contender
		markers []Marker
	}
	identity := map[string]string{AuthorityJetStream: "J", AuthorityRedis: "R"}
	for order := range 9 {
		redis, nats := &sharedMark{name: "Redis"}, &sharedMark{name: "NATS"}
		processes := []process{{both, []Marker{nats, redis}}, {redisAlone, []Marker{redis}}, {natsAlone, []Marker{nats}}}
		first, second := processes[order%3], processes[order/3]
		// Both choose before either names its choice, and then a third comes that
		// sees both buses.
		chosen := []Choice{ChooseAuthority("auto", first.can, ReadMarks(t.Context(), first.markers)),
			ChooseAuthority("auto", second.can, ReadMarks(t.Context(), second.markers))}
		used := map[string]bool{}
		for i, p := range []process{first, second, processes[0]} {
			choice := ChooseAuthority("auto", p.can, ReadMarks(t.Context(), p.markers))
			if i < 2 {
				choice = chosen[i]
			}
			if choice.Name != "" && NameAuthority(t.Context(), Authority{choice.Name, identity[choice.Name]}, p.markers) == nil {
				used[choice.Name] = true
			}
		}
		// Two that share no bus cannot know of each other.
		apart := order%3 != order/3 && order%3 != 0 && order/3 != 0
		if len(used) > 1 && !apart {
			t.Errorf("order %d: %v are in use", order, used)
		}
	}
}

func TestNameAuthorityWaitsAndRefuses(t *testing.T) {
	mine, other := Authority{AuthorityRedis, "R1"}, Authority{AuthorityRedis, "R2"}
	redis, nats := &sharedMark{name: "Redis"}, &sharedMark{name: "NATS"}
	markers := []Marker{nats, redis}
	if err := NameAuthority(t.Context(), mine, markers); err != nil || *redis.named != mine || *nats.named != mine {
		t.Fatalf("%v, %v, %v", err, redis.named, nats.named)
	}
	if err := NameAuthority(t.Context(), mine, markers); err != nil {
		t.Errorf("asked again: %v", err)
	}
	if err := NameAuthority(t.Context(), other, markers); !errors.Is(err, ErrAuthorityAway) || !strings.Contains(err.Error(), "R1") {
		t.Errorf("another store of the same kind: %v", err)
	}
	nats.away = true
	if err := NameAuthority(t.Context(), mine, markers); !errors.Is(err, ErrAuthorityAway) || !strings.Contains(err.Error(), "NATS") {
		t.Errorf("a bus that is away: %v", err)
	}
}
