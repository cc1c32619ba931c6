package cli

import (
	"context"
	"log/slog"
	"sync"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/redisstore"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// openBus is what the wiring needs of a bus that carries commands.
type openBus interface {
	watchdog.CommandWay
	watchdog.CommandInbox
	dumpSender
	dumpKeeping
	AwaitDump(ctx context.Context, id watchdog.ID, command string, ready func()) (wire.Dump, error)
	Run(ctx context.Context) error // until Close
	Close()
}

// commandBus is the way of commands over one bus, which is opened when it is needed
// first.
type commandBus struct {
	source watchdog.Source
	dial   func() (openBus, error)
	tray   *dumpTray // keeps dumps that are asked for; nil: nobody does
	log    *slog.Logger
	spawn  func(func())

	mu      sync.Mutex
	opened  openBus
	running sync.WaitGroup
	closed  bool
}

// commandBuses are the buses that the configuration names; none is opened yet.
func commandBuses(settings *config.Config, name string, fleet func() string, refused func(watchdog.RefusedCommand), clock watchdog.Clock, log *slog.Logger, spawn func(func())) []*commandBus {
	if settings.ReadOnly {
		return nil
	}
	var out []*commandBus
	add := func(src watchdog.Source, dial func() (openBus, error)) {
		out = append(out, &commandBus{source: src, dial: dial, log: log, spawn: spawn})
	}
	if settings.NATS.Address != config.None {
		add(watchdog.SourceNATS, func() (openBus, error) {
			rules, err := commandRules(settings, name, fleet, refused)
			if err != nil {
				return nil, err
			}
			return natsbus.OpenCommands(natsOptions(settings), natsbus.CommandOptions{Rules: rules}, clock, log)
		})
	}
	if settings.Redis.Address != config.None {
		add(watchdog.SourceRedis, func() (openBus, error) {
			rules, err := commandRules(settings, name, fleet, refused)
			if err != nil {
				return nil, err
			}
			return redisstore.OpenCommands(redisOptions(settings), redisstore.CommandOptions{Rules: rules}, clock, log)
		})
	}
	return out
}

// commandRules say how commands are signed, and which are obeyed.
func commandRules(settings *config.Config, name string, fleet func() string, refused func(watchdog.RefusedCommand)) (orders.Rules, error) {
	seal, err := sealOf(settings)
	c := &settings.Commands
	return orders.Rules{Key: seal.Key, Trusted: seal.Trusted, TrustLoopback: c.TrustLoopback, Fleet: fleet, Lease: c.Lease,
		MaxDeliveries: c.MaxDeliveries, Name: name, Refused: refused}, err
}

// WayName is the word for people.
func (b *commandBus) WayName() string { return b.source.String() }

// Carries reports whether commands to a session can go this way: any may.
func (b *commandBus) Carries(watchdog.ID) bool { return true }

// open opens the bus, once.
func (b *commandBus) open() (openBus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, watchdog.ErrClosed
	case b.opened != nil:
		return b.opened, nil
	}
	opened, err := b.dial()
	if err != nil {
		return nil, err
	}
	b.opened = opened
	b.running.Add(1)
	b.spawn(func() {
		defer b.running.Done()
		if err := opened.Run(context.Background()); err != nil {
			b.log.Error("the way of commands ended", "over", b.WayName(), "error", err)
		}
	})
	return opened, nil
}

func (b *commandBus) close() {
	b.mu.Lock()
	opened := b.opened
	b.closed = true
	b.mu.Unlock()
	if opened != nil {
		opened.Close()
	}
	b.running.Wait()
}

// Carry brings a command to its receiver.
func (b *commandBus) Carry(ctx context.Context, c watchdog.Command, heard func(watchdog.Answer)) (watchdog.Answer, error) {
	opened, err := b.open()
	if err != nil {
		return watchdog.Answer{}, err
	}
	if c.Op == watchdog.OpDump && b.tray != nil {
		return b.tray.carry(ctx, opened, c, heard)
	}
	return opened.Carry(ctx, c, heard)
}

// Conclude writes the one result of a command unless there is one.
func (b *commandBus) Conclude(ctx context.Context, a watchdog.Answer) (watchdog.Answer, error) {
	opened, err := b.open()
	if err != nil {
		return watchdog.Answer{}, err
	}
	return opened.Conclude(ctx, a)
}

// PublishDump sends a dump to who asked for it over this bus.
func (b *commandBus) PublishDump(ctx context.Context, d wire.Dump) error {
	opened, err := b.open()
	if err != nil {
		return err
	}
	return opened.PublishDump(ctx, d)
}

// Receive hands over the commands to a session.
func (b *commandBus) Receive(ctx context.Context, id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) error {
	opened, err := b.open()
	if err != nil {
		return err
	}
	return opened.Receive(ctx, id, knows, handle)
}
