package watchdog

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// The stores that can decide ends, as `ledger:` and Authority name them, the
// best first. Memory is that of one process and is never named to others.
const (
	AuthorityAuto      = "auto"
	AuthorityJetStream = "jetstream"
	AuthorityRedis     = "redis"
	AuthorityFile      = "file"
	AuthorityMemory    = "memory"
)

// needs says what a process must have configured to use an authority.
func needs(authority string) string {
	switch authority {
	case AuthorityJetStream:
		return "NATS with JetStream"
	case AuthorityRedis:
		return "Redis"
	case AuthorityFile:
		return "the machine and data directory that hold its file"
	}
	return "the process that holds it"
}

// String is the authority in words.
func (a Authority) String() string {
	if a.Identity == "" {
		return a.Name
	}
	return a.Name + " " + a.Identity
}

// Contender is a store that could decide ends, as far as this process knows.
type Contender struct {
	Name       string // AuthorityJetStream ...
	Configured bool
	// Impossible says why a configured store can never decide: "the server has no
	// JetStream". Away says why that cannot be told now: "no answer".
	Impossible, Away string
}

// Mark is what one bus says of its cluster's authority.
type Mark struct {
	Place     string // MarkerName
	Found     bool
	Authority Authority
	Err       error // it cannot be told
}

// Choice is the store to open, or why nothing may be settled yet.
type Choice struct {
	Name   string // "" none: wait, and ask again
	Reason string // why not, and what it would need
}

// ChooseAuthority decides which store decides. A name that stands on a bus is
// followed, and nothing else is: what it names must be usable here. If none
// stands anywhere the best store that is configured is chosen; that it is away,
// or that a bus cannot be read, is no reason to take a lesser one.
func ChooseAuthority(setting string, contenders []Contender, marks []Mark) Choice {
	named, refusal := agreed(marks)
	if refusal != "" {
		return Choice{Reason: refusal}
	}
	find := func(name string) Contender {
		i := slices.IndexFunc(contenders, func(c Contender) bool { return c.Name == name })
		if i < 0 {
			return Contender{Name: name}
		}
		return contenders[i]
	}
	auto := setting == "" || setting == AuthorityAuto
	if named.Found {
		a := named.Authority
		if !auto && setting != a.Name {
			return Choice{Reason: fmt.Sprintf("the cluster's authority is %s (named on %s) and `ledger` is %s; set ledger: auto", a, named.Place, setting)}
		}
		return find(a.Name).choice(fmt.Sprintf("the cluster's authority is %s (named on %s)", a, named.Place))
	}
	if !auto {
		return find(setting).choice("`ledger` is " + setting)
	}
	for _, name := range []string{AuthorityJetStream, AuthorityRedis, AuthorityFile} {
		if c := find(name); c.Configured && c.Impossible == "" {
			return c.choice("no authority is named yet and " + name + " is the best that is configured")
		}
	}
	return Choice{Reason: "no store is configured that could decide ends; configure NATS with JetStream, Redis, or a data directory"}
}

// choice uses c if it can be used now; because says who wants it.
func (c Contender) choice(because string) Choice {
	switch {
	case !c.Configured:
		return Choice{Reason: because + ", which needs " + needs(c.Name) + " configured here"}
	case c.Impossible != "":
		return Choice{Reason: because + ", but " + c.Impossible}
	case c.Away != "":
		return Choice{Reason: because + ", which is away: " + c.Away}
	}
	return Choice{Name: c.Name}
}

// agreed is the name on which all buses agree. A bus that cannot be read, or two
// that differ, are a refusal.
func agreed(marks []Mark) (named Mark, refusal string) {
	var unread []string
	for _, m := range marks {
		switch {
		case m.Err != nil:
			unread = append(unread, fmt.Sprintf("%s cannot be read: %v", m.Place, m.Err))
		case !m.Found:
		case !named.Found:
			named = m
		case named.Authority != m.Authority:
			return Mark{}, fmt.Sprintf("%s names %s as authority and %s names %s; an operator must remove one of the two names",
				named.Place, named.Authority, m.Place, m.Authority)
		}
	}
	if len(unread) > 0 {
		return Mark{}, "whether an authority is named is not known: " + strings.Join(unread, "; ")
	}
	return named, ""
}

// ReadMarks asks every bus, Redis first.
func ReadMarks(ctx context.Context, markers []Marker) []Mark {
	var out []Mark
	for _, m := range inOrder(markers) {
		a, found, err := m.ReadAuthority(ctx)
		out = append(out, Mark{Place: m.MarkerName(), Found: found, Authority: a, Err: err})
	}
	return out
}

// NameAuthority makes sure that every bus names mine, and creates the name where
// there is none. Its error says why nothing may be settled with mine, and wraps
// ErrAuthorityAway. Everybody writes Redis before NATS, so that two that start
// together, one of which has Redis alone, cannot both win.
func NameAuthority(ctx context.Context, mine Authority, markers []Marker) error {
	named, refusal := agreed(ReadMarks(ctx, markers))
	if refusal != "" {
		return fmt.Errorf("%w: %s", ErrAuthorityAway, refusal)
	}
	if named.Found && named.Authority != mine {
		return anotherAuthority(named.Place, named.Authority, mine)
	}
	for _, m := range inOrder(markers) {
		stands, err := m.CreateAuthority(ctx, mine)
		if err != nil {
			return fmt.Errorf("%w: the authority cannot be named on %s: %w", ErrAuthorityAway, m.MarkerName(), err)
		}
		if stands != mine {
			return anotherAuthority(m.MarkerName(), stands, mine)
		}
	}
	return nil
}

func anotherAuthority(place string, named, mine Authority) error {
	if named.Name == mine.Name {
		return fmt.Errorf("%w: %s names another %s (%s) than the one in use here (%s); connect to that one, or restore it",
			ErrAuthorityAway, place, named.Name, named.Identity, mine.Identity)
	}
	return fmt.Errorf("%w: %s names %s as the cluster's authority, not %s; settling needs %s here",
		ErrAuthorityAway, place, named, mine.Name, needs(named.Name))
}

// inOrder puts Redis first.
func inOrder(markers []Marker) []Marker {
	out := slices.Clone(markers)
	slices.SortStableFunc(out, func(a, b Marker) int {
		rank := func(m Marker) int {
			if m.MarkerName() == SourceRedis.Title() {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return out
}
