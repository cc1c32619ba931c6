package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// CommandOptions say how commands are sent and taken. The zero value sends them
// unsigned and takes those of a server that demands authentication.
type CommandOptions struct {
	Key           wire.SigningKey // signs what is sent
	Trusted       wire.PublicKeys // if there are any, only what they signed is taken
	TrustLoopback bool            // take unsigned ones from a server on this machine
	Fleet         string          // identity of the authority; commands of another one are refused; empty: any

	Lease         time.Duration // after which a command that was not finished is delivered again; 60 s if 0
	MaxDeliveries int           // 3 if 0
	Replicas      int           // of the streams; 0 is 1
	Name          string        // who we are in results: "run@eu1-02/4700"
}

// How long the streams keep commands and results: a command expires within
// minutes, and whoever asks for its result asks within days.
const (
	keepCommands = 24 * time.Hour
	keepResults  = 30 * 24 * time.Hour
)

// Commands carries the commands of operators to whoever supervises a session,
// and their results back. Where the server has JetStream a command is kept in
// SW_COMMANDS and delivered again, with the same id, until it is finished; its
// one result stands in SW_RESULTS. Without JetStream it reaches who listens now.
//
// What a command means, and whether its target is still the one that was meant,
// is for the receiver to say.
type Commands struct {
	js      *jetStream
	options CommandOptions
	wall    func() time.Time

	making   chan struct{} // held by who makes the streams
	made     *conn         // the connection on which they were seen
	kept     bool          // there are streams; of the connection made
	mu       sync.Mutex
	handling map[string]*handled // command ids that were taken by this process
	order    []string            // their order, to forget the oldest
}

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
	if co.Lease <= 0 {
		co.Lease = 60 * time.Second
	}
	if co.MaxDeliveries <= 0 {
		co.MaxDeliveries = 3
	}
	return &Commands{
		js: js, options: co, making: make(chan struct{}, 1), handling: map[string]*handled{},
		wall: func() time.Time { return time.Unix(0, clock.Now().Wall).UTC() },
	}, nil
}

// Run connects, stays connected, and returns nil when ctx ends or Close is
// called. It may be called once.
func (c *Commands) Run(ctx context.Context) error { return c.js.run(ctx) }

// Close ends Run and every call, and waits for Run.
func (c *Commands) Close() { c.js.close() }

// Link is what there is to tell of the connection.
func (c *Commands) Link() watchdog.LinkChanged { return *c.js.link.latest.Load() }

// Sent is what is known of a command right after it was sent.
type Sent struct {
	Kept   bool         // it stands in SW_COMMANDS and is delivered until it expires
	Answer *wire.Result // what a receiver said at once; nil: nobody has yet
}

// Nobody reports whether a command went to nobody: it is not kept, and no
// receiver has answered.
func (s Sent) Nobody() bool { return !s.Kept && s.Answer == nil }

// Send sends a command once and waits for a receiver's first word, until ctx
// ends. That nobody answers is no error: see Sent. Sending the same command
// again, by its id, is safe.
func (c *Commands) Send(ctx context.Context, cmd wire.Command) (Sent, error) {
	payload, err := wire.EncodeCommand(cmd)
	if err != nil {
		return Sent{}, err
	}
	envelope, err := wire.Wrap(payload, c.options.Key).Encode()
	if err != nil {
		return Sent{}, err
	}
	conn, kept, err := c.ready(ctx)
	if err != nil {
		return Sent{}, fmt.Errorf("command %s was not sent: %w", cmd.ID, plainly(err))
	}
	answers := make(chan *nats.Msg, 16)
	inbox := conn.nc.NewInbox()
	sub, err := conn.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return Sent{}, fmt.Errorf("command %s was not sent: %w", cmd.ID, plainly(err))
	}
	defer func() { _ = sub.Unsubscribe() }()
	subject := wire.CommandSubject(cmd.Session)
	if err := conn.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: envelope, Header: nats.Header{replyHeader: {inbox}}}); err != nil {
		return Sent{}, fmt.Errorf("command %s was not sent: %w", cmd.ID, plainly(err))
	}
	return c.firstWord(ctx, conn, cmd, answers, kept)
}

// firstWord sorts the answers to a command: that it is kept, that nobody is
// there, what a receiver says.
func (c *Commands) firstWord(ctx context.Context, conn *conn, cmd wire.Command, answers <-chan *nats.Msg, kept bool) (Sent, error) {
	var sent Sent
	for {
		denial, err := c.js.refused("publish to "+wire.CommandSubject(cmd.Session), mayNotHear)
		if err != nil {
			return Sent{}, fmt.Errorf("command %s was not sent: %w", cmd.ID, err)
		}
		select {
		case m := <-answers:
			if m.Header.Get("Status") == "503" { // nobody is there at all
				return sent, nil
			}
			if isAck(m.Data, wire.CommandsStream) {
				sent.Kept = true
				continue
			}
			if r, err := wire.DecodeResult(cmd.Session, cmd.ID, m.Data); err == nil {
				sent.Answer = &r
				return sent, nil
			}
		case <-denial:
		case <-conn.closed:
			return sent, fmt.Errorf("the connection was lost after command %s was sent; whether it arrived is not known: send it again", cmd.ID)
		case <-c.js.door.quit:
			return sent, errClosed
		case <-ctx.Done():
			if kept && !sent.Kept {
				return sent, fmt.Errorf("command %s: nobody confirmed that it is kept; send it again", cmd.ID)
			}
			return sent, nil
		}
	}
}

// Result reads the one result of a command; found is false if there is none yet.
// ErrNoJetStream says that this server keeps none.
func (c *Commands) Result(ctx context.Context, id watchdog.ID, commandID string) (r wire.Result, found bool, err error) {
	conn, kept, err := c.ready(ctx)
	switch {
	case err != nil:
		return wire.Result{}, false, plainly(err)
	case !kept:
		return wire.Result{}, false, ErrNoJetStream
	}
	m, found, err := c.js.message(ctx, conn, wire.ResultsStream, sought{Last: wire.ResultSubject(id, commandID)})
	if err != nil || !found {
		return wire.Result{}, false, plainly(err)
	}
	r, err = wire.DecodeResult(id, commandID, m.Data)
	if err != nil {
		return wire.Result{}, false, fmt.Errorf("%w: %w", errForeignResult, err)
	}
	return r, true, nil
}

// errForeignResult says that something else stands where the one result of a
// command belongs, for good.
var errForeignResult = errors.New("the place of the result is taken")

// WriteResult writes the one result of a command unless there is one, and gives
// the one that stands. Without JetStream it is only published.
func (c *Commands) WriteResult(ctx context.Context, r wire.Result) (wire.Result, error) {
	payload, err := wire.EncodeResult(r)
	if err != nil {
		return wire.Result{}, err
	}
	conn, kept, err := c.ready(ctx)
	if err != nil {
		return wire.Result{}, plainly(err)
	}
	subject := wire.ResultSubject(r.Session, r.Command)
	if !kept {
		if err := conn.nc.Publish(subject, payload); err != nil {
			return wire.Result{}, plainly(err)
		}
		_, _, err := conn.roundTrip(ctx, askWithin)
		return r, plainly(err)
	}
	_, err = c.js.store(ctx, conn, wire.ResultsStream, subject, payload, lastSequence(0))
	if err == nil {
		return wire.DecodeResult(r.Session, r.Command, payload)
	}
	var (
		stands  wire.Result
		found   bool
		readErr error
	)
	overBreaks(ctx, func() error {
		stands, found, readErr = c.Result(ctx, r.Session, r.Command)
		return readErr
	})
	if errors.Is(readErr, errForeignResult) {
		return wire.Result{}, readErr
	}
	if readErr != nil || !found {
		return wire.Result{}, fmt.Errorf("%w: the result of command %s was written and not confirmed: %v", watchdog.ErrUnknown, r.Command, plainly(err))
	}
	return stands, nil
}

// awaitEvery is how often a result is looked for besides listening for it.
const awaitEvery = 2 * time.Second

// Await waits until a command has its result, or ctx ends.
func (c *Commands) Await(ctx context.Context, id watchdog.ID, commandID string) (wire.Result, error) {
	for {
		conn, kept, err := c.ready(ctx)
		if err == nil {
			var r wire.Result
			if r, err = c.awaitOn(ctx, conn, kept, id, commandID); err == nil {
				return r, nil
			}
		}
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			return wire.Result{}, fmt.Errorf("command %s has no result yet: %w", commandID, plainly(err))
		}
		pause(ctx, time.Second)
	}
}

func (c *Commands) awaitOn(ctx context.Context, conn *conn, kept bool, id watchdog.ID, commandID string) (wire.Result, error) {
	heard := make(chan *nats.Msg, 4)
	sub, err := conn.nc.ChanSubscribe(wire.ResultSubject(id, commandID), heard)
	if err != nil {
		return wire.Result{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	again := time.NewTicker(awaitEvery)
	defer again.Stop()
	for {
		if kept { // what is published may have been refused
			if r, found, err := c.Result(ctx, id, commandID); err != nil || found {
				return r, err
			}
		}
		select {
		case m := <-heard:
			if r, err := wire.DecodeResult(id, commandID, m.Data); err == nil && !kept {
				return r, nil
			}
		case <-again.C:
		case <-conn.closed:
			return wire.Result{}, nats.ErrConnectionClosed
		case <-c.js.door.quit:
			return wire.Result{}, errClosed
		case <-ctx.Done():
			return wire.Result{}, ctx.Err()
		}
	}
}

// ready gives the connection, and whether its server keeps commands: the streams
// are made on each connection anew if they are not there.
func (c *Commands) ready(ctx context.Context) (*conn, bool, error) {
	conn, err := c.js.door.await(ctx, c.js.link)
	if err != nil {
		return nil, false, err
	}
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
		var info streamInfo
		err := c.js.api(ctx, conn, "STREAM.INFO."+config.Name, struct{}{}, &info)
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
