package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// lookAround is how long a bus that nobody configured has to answer before
	// the local file is taken.
	lookAround = 2 * time.Second
	// chooseAgain is how often an authority that could not be chosen is tried.
	chooseAgain = 2 * time.Second
	// readMarks bounds one look at what the buses say of the authority.
	readMarks = 3 * time.Second
)

// unnamed is why a process that reads has no ledger where none was ever needed.
const unnamed = "nothing was ever settled on these buses: no authority is named yet"

// find gives the ledger once it can be chosen; nil: ctx has ended. waits is told
// why it cannot be yet, and retried tries at once.
func (l *ledgerStores) find(ctx context.Context, retried <-chan struct{}, waits func(why string)) watchdog.Ledger {
	began := l.o.clock.Now().Mono
	for {
		name, why := l.choose(ctx, l.o.clock.Now().Mono-began)
		if ctx.Err() != nil {
			return nil
		}
		if name != "" {
			return l.ledgerOf(name)
		}
		waits(why)
		select {
		case <-ctx.Done():
			return nil
		case <-retried:
		case <-time.After(chooseAgain):
		}
	}
}

// choose asks the buses which store decides; empty: none yet, and why. Where none is
// named and this process may name one it does so first: of two that start together
// and know different stores one loses, and goes by what stands then.
func (l *ledgerStores) choose(ctx context.Context, waited time.Duration) (name, why string) {
	l.dropOptional(ctx, waited)
	name, why, named := l.look(ctx)
	if named || name == "" || name == watchdog.AuthorityFile || l.reads || l.seal.Usable() != nil {
		return name, why
	}
	l.name(ctx, name)
	name, why, _ = l.look(ctx)
	return name, why
}

// name names a store. Whoever settles does it again, and tells what it fails at.
func (l *ledgerStores) name(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, readMarks)
	defer cancel()
	ledger := l.ledgerOf(name)
	if ledger.Check(ctx) == nil {
		_ = watchdog.NameAuthority(ctx, ledger.Authority(), l.nameable())
	}
}

// look is the choice by what the buses say now, and whether any names a store.
func (l *ledgerStores) look(ctx context.Context) (name, why string, named bool) {
	ctx, cancel := context.WithTimeout(ctx, readMarks)
	defer cancel()
	marks := watchdog.ReadMarks(ctx, l.markers())
	l.expect(marks)
	named = slices.ContainsFunc(marks, func(m watchdog.Mark) bool { return m.Found })
	contenders := []watchdog.Contender{
		l.contender(watchdog.AuthorityJetStream, l.nats, &marks),
		l.contender(watchdog.AuthorityRedis, l.redis, &marks),
		{Name: watchdog.AuthorityFile, Configured: l.o.File != nil},
	}
	if l.reads {
		name, why = l.onlyNamed(marks)
		return name, why, named
	}
	choice := watchdog.ChooseAuthority(string(l.settings.Ledger), contenders, marks)
	return choice.Name, choice.Reason, named
}

// expect tells the ledger on NATS what another bus names: a stream that is named
// and not there has vanished, and is never made anew.
func (l *ledgerStores) expect(marks []watchdog.Mark) {
	if l.nats == nil {
		return
	}
	for _, m := range marks {
		if m.Found {
			l.nats.Ledger.(*natsbus.Ledger).Expect(m.Authority)
		}
	}
}

// onlyNamed is the choice of a process that reads: what is named, or nothing.
// Who may not read the name on NATS still hears what ends from now on.
func (l *ledgerStores) onlyNamed(marks []watchdog.Mark) (name, why string) {
	why = unnamed
	for _, m := range marks {
		switch {
		case m.Err == nil && m.Found:
			return m.Authority.Name, ""
		case m.Err != nil:
			why = m.Place + ": " + m.Err.Error()
		}
	}
	if l.nats != nil && l.nats.up(context.Background()) && slices.ContainsFunc(marks, func(m watchdog.Mark) bool {
		return m.Place == l.nats.MarkerName() && m.Err != nil && !errors.Is(m.Err, natsbus.ErrNoJetStream)
	}) {
		return watchdog.AuthorityJetStream, ""
	}
	return "", why
}

// contender is what is known of a store. A bus that can keep nothing at all is
// no place for a name either.
func (l *ledgerStores) contender(name string, st *store, marks *[]watchdog.Mark) watchdog.Contender {
	c := watchdog.Contender{Name: name, Configured: st != nil && !l.isOptional(st)}
	if !c.Configured {
		return c
	}
	kept := (*marks)[:0]
	for _, m := range *marks {
		switch {
		case m.Place != st.MarkerName():
			kept = append(kept, m)
		case errors.Is(m.Err, natsbus.ErrNoJetStream):
			c.Impossible = m.Err.Error()
		default:
			if m.Err != nil {
				c.Away = m.Err.Error()
			}
			kept = append(kept, m)
		}
	}
	*marks = kept
	return c
}

func (l *ledgerStores) ledgerOf(name string) watchdog.Ledger {
	switch name {
	case watchdog.AuthorityJetStream:
		return l.nats.Ledger
	case watchdog.AuthorityRedis:
		return l.redis.Ledger
	}
	return l.o.File
}
