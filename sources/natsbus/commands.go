package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// CommandOptions say how commands are sent and taken over NATS.
type CommandOptions struct {
	orders.Rules
	Replicas int // of the streams; 0 is 1
}

// How long the streams keep commands and results: a command expires within
// minutes, and whoever asks for its result asks within days.
const (
	keepCommands = 24 * time.Hour
	keepResults  = 30 * 24 * time.Hour
)

// Commands carries the commands of operators to whoever supervises a session,
// and what becomes of them back. Where the server has JetStream a command is kept
// in SW_COMMANDS and delivered again, with the same id, until it is finished; its
// one result stands in SW_RESULTS. Without JetStream it reaches who listens now,
// and a result whoever waits.
//
// A receiver may run in an account that may not ask JetStream: it takes what
// comes live, and its sender hears it.
type Commands struct {
	js      *jetStream
	options CommandOptions
	desk    *orders.Desk
	wall    func() time.Time

	making  chan struct{} // held by who makes the streams
	reached atomic.Bool   // there was a connection once
	made    *conn         // the connection on which they were seen
	kept    bool          // there are streams; of the connection made

	ignoredDumps atomic.Uint64
}

var (
	_ watchdog.CommandWay   = (*Commands)(nil)
	_ watchdog.CommandInbox = (*Commands)(nil)
)

// OpenCommands makes a Commands. Like Open it checks the options and leaves the
// network alone. A nil log drops what would be logged.
func OpenCommands(o Options, co CommandOptions, clock watchdog.Clock, log *slog.Logger) (*Commands, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	js, err := newJetStream(o, "commands", clock, log)
	if err != nil {
		return nil, err
	}
	co.Rules = co.Rules.WithDefaults()
	c := &Commands{js: js, options: co, making: make(chan struct{}, 1), wall: func() time.Time { return time.Unix(0, clock.Now().Wall).UTC() }}
	c.desk = orders.NewDesk(c.WayName(), co.Rules, c, c.wall, js.log)
	return c, nil
}

// WayName is the word for people.
func (c *Commands) WayName() string { return "nats" }

// Carries reports whether the bus is there, or was: a command waits for its
// return. A session of any name can be reached.
func (c *Commands) Carries(watchdog.ID) bool { return c.reached.Load() || c.js.door.now() != nil }

// Refused counts the commands that were not obeyed, by their fault.
func (c *Commands) Refused() watchdog.RefusedCommands { return c.desk.Refused() }

// Run connects, stays connected, and returns nil when ctx ends or Close is
// called. It may be called once.
func (c *Commands) Run(ctx context.Context) error { return c.js.run(ctx) }

// Close ends Run and every call, and waits for Run.
func (c *Commands) Close() { c.js.close() }

// Link is what there is to tell of the connection.
func (c *Commands) Link() watchdog.LinkChanged { return *c.js.link.latest.Load() }

// Result reads the one result of a command; found is false if there is none yet.
// orders.ErrNotKept says that this server keeps none.
func (c *Commands) Result(ctx context.Context, id watchdog.ID, commandID string) (a watchdog.Answer, found bool, err error) {
	conn, kept, err := c.ready(ctx)
	switch {
	case err != nil:
		return watchdog.Answer{}, false, plainly(err)
	case !kept:
		return watchdog.Answer{}, false, orders.ErrNotKept
	}
	m, found, err := c.js.message(ctx, conn, wire.ResultsStream, sought{Last: wire.ResultSubject(id, commandID)})
	if isFault(err, faultNoStream) {
		c.lookAgain()
	}
	if err != nil || !found {
		return watchdog.Answer{}, false, plainly(err)
	}
	a, err = wire.DecodeFinal(id, commandID, m.Data)
	if err != nil {
		return watchdog.Answer{}, false, fmt.Errorf("%w: %w", orders.ErrForeign, err)
	}
	return a, true, nil
}

// Conclude writes the one result of a command unless there is one, and gives the
// one that stands. Without JetStream it is only published.
func (c *Commands) Conclude(ctx context.Context, a watchdog.Answer) (watchdog.Answer, error) {
	payload, err := wire.EncodeResult(a)
	if err != nil {
		return watchdog.Answer{}, err
	}
	conn, kept, err := c.ready(ctx)
	if err != nil {
		return watchdog.Answer{}, away(err)
	}
	subject := wire.ResultSubject(a.Session, a.Command)
	if !kept {
		err := c.js.publish(ctx, conn, subject, payload)
		switch {
		case isDenied(err):
			return watchdog.Answer{}, err
		case err != nil:
			return watchdog.Answer{}, away(err)
		}
		return a, nil
	}
	_, err = c.js.store(ctx, conn, wire.ResultsStream, subject, payload, lastSequence(0))
	if err == nil {
		return wire.DecodeResult(a.Session, a.Command, payload)
	}
	if neverSent(err) {
		return watchdog.Answer{}, err
	}
	var (
		stands  watchdog.Answer
		found   bool
		readErr error
	)
	overBreaks(ctx, func() error {
		stands, found, readErr = c.Result(ctx, a.Session, a.Command)
		return readErr
	})
	if errors.Is(readErr, orders.ErrForeign) {
		return watchdog.Answer{}, readErr
	}
	if readErr != nil || !found {
		return watchdog.Answer{}, fmt.Errorf("%w: the result of command %s was written and not confirmed: %v", watchdog.ErrUnknown, a.Command, plainly(err))
	}
	return stands, nil
}

// ready gives the connection, and whether its server keeps commands: the streams
// are made anew if they are not there, on each connection and after lookAgain.
func (c *Commands) ready(ctx context.Context) (*conn, bool, error) {
	conn, err := c.js.door.await(ctx, c.js.link)
	if err != nil {
		return nil, false, err
	}
	c.reached.Store(true)
	select {
	case c.making <- struct{}{}:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	defer func() { <-c.making }()
	if c.made == conn {
		return conn, c.kept, nil
	}
	for _, config := range []streamConfig{commandsConfig(c.options.Replicas), resultsConfig(c.options.Replicas)} {
		info, err := c.js.info(ctx, conn, config.Name)
		if isFault(err, faultNoStream) {
			err = c.js.api(ctx, conn, "STREAM.CREATE."+config.Name, config, &info)
		}
		if errors.Is(err, ErrNoJetStream) || isDenied(err) {
			c.made, c.kept = conn, false
			c.js.log.Warn("commands and their results are not kept", "reason", err)
			return conn, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("the stream %s cannot be used: %w", config.Name, err)
		}
		if config.Name == wire.ResultsStream && (info.Config.Discard != "new" || !info.Config.DiscardEach || info.Config.MaxEach != 1) {
			c.js.log.Warn("the stream SW_RESULTS was changed: a result can be overwritten; set discard new and discard_new_per_subject, and find out who may change it")
		}
	}
	c.made, c.kept = conn, true
	return conn, true, nil
}

// lookAgain lets the streams be looked for anew: something says that they are gone.
func (c *Commands) lookAgain() {
	c.making <- struct{}{}
	c.made = nil
	<-c.making
}

func commandsConfig(replicas int) streamConfig {
	c := keptForEver(wire.CommandsStream, wire.CommandSubjectAll, replicas)
	c.MaxEach, c.MaxAge, c.DuplicateSpan = -1, keepCommands, 2*time.Minute
	return c
}

func resultsConfig(replicas int) streamConfig {
	c := keptForEver(wire.ResultsStream, wire.ResultSubjectAll, replicas)
	c.DiscardEach, c.MaxAge, c.DuplicateSpan = true, keepResults, 2*time.Minute
	return c
}
