package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// awaitEvery is how often a result is looked for besides listening for it,
	// and a command sent again that nobody has confirmed.
	awaitEvery = 2 * time.Second
	// answerFor is how long a command that nobody keeps waits for a first word.
	answerFor = 10 * time.Second
	// sendEvery is how often one that is kept is sent again: there are receivers
	// that may not read what is kept.
	sendEvery = 30 * time.Second
	// confirmTries is how often a command is sent before it is looked whether what
	// should keep it is there.
	confirmTries = 3
)

var errNotConfirmed = errors.New("the stream of commands confirms nothing")

// Carry brings a command to its receiver and waits for its one result. It lasts
// over breaks of the connection; what the server refuses is an error at once.
func (c *Commands) Carry(ctx context.Context, cmd watchdog.Command, heard func(watchdog.Answer)) (watchdog.Answer, error) {
	envelope, err := c.options.Seal(cmd)
	if err != nil {
		return watchdog.Answer{}, err
	}
	s := &sending{commands: c, command: cmd, envelope: envelope, words: orders.NewWords(heard)}
	for {
		conn, kept, err := c.ready(ctx)
		if err == nil {
			var a watchdog.Answer
			if a, err = s.on(ctx, conn, kept); err == nil {
				return s.words.Result(a), nil
			}
		}
		var denied *deniedError
		switch {
		case errors.Is(err, watchdog.ErrNobody), errors.Is(err, orders.ErrForeign):
			return watchdog.Answer{}, err
		case errors.As(err, &denied), errors.Is(err, errClosed):
			return watchdog.Answer{}, fmt.Errorf("command %s was not sent: %w", cmd.ID, err)
		case ctx.Err() != nil:
			return watchdog.Answer{}, fmt.Errorf("command %s has no result yet: %w: %w", cmd.ID, ctx.Err(), plainly(err))
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// sending is one Carry.
type sending struct {
	commands *Commands
	command  watchdog.Command
	envelope []byte
	words    *orders.Words
	since    time.Time // the first sending; with a monotonic reading
	sent     time.Time // the last one
	kept     bool      // it was confirmed
	breaks   int       // connections that were lost since
}

// on sends on one connection and hears what comes of it.
func (s *sending) on(ctx context.Context, conn *conn, kept bool) (watchdog.Answer, error) {
	c, id := s.commands, s.command.Session
	answers := make(chan *nats.Msg, 64)
	inbox := conn.nc.NewInbox()
	for _, subject := range []string{inbox, wire.ResultSubject(id, s.command.ID)} {
		sub, err := conn.nc.ChanSubscribe(subject, answers)
		if err != nil {
			return watchdog.Answer{}, err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	if kept && !s.since.IsZero() { // it may have been finished meanwhile
		if a, found, err := c.Result(ctx, id, s.command.ID); err != nil || found {
			return a, err
		}
	}
	again := time.NewTicker(awaitEvery)
	defer again.Stop()
	for confirmed, tries := false, 0; ; {
		if confirmed && !s.words.Taken() && time.Since(s.sent) > sendEvery {
			confirmed, tries = false, 0
		}
		if !confirmed {
			if tries++; kept && tries > confirmTries {
				c.lookAgain()
				return watchdog.Answer{}, errNotConfirmed
			}
			if err := s.send(conn, inbox); err != nil {
				return watchdog.Answer{}, err
			}
		}
		a, over, err := s.listen(ctx, conn, kept, answers, again.C, &confirmed)
		if err != nil || over {
			return a, err
		}
	}
}

func (s *sending) send(conn *conn, inbox string) error {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.sent = time.Now()
	return conn.nc.PublishMsg(&nats.Msg{
		Subject: wire.CommandSubject(s.command.Session), Reply: inbox, Data: s.envelope, Header: nats.Header{replyHeader: {inbox}},
	})
}

// listen takes in what comes until it is time to send or to look again.
func (s *sending) listen(ctx context.Context, conn *conn, kept bool, answers <-chan *nats.Msg, again <-chan time.Time, confirmed *bool) (a watchdog.Answer, over bool, err error) {
	c := s.commands
	for {
		denial, err := c.js.refused("publish to "+wire.CommandSubject(s.command.Session), mayNotHear)
		if err != nil {
			return a, false, err
		}
		select {
		case m := <-answers:
			if a, over, err := s.word(ctx, m, kept, confirmed); err != nil || over {
				return a, over, err
			}
		case <-denial:
		case <-again:
			if kept {
				if a, found, err := c.Result(ctx, s.command.Session, s.command.ID); err != nil || found {
					return a, found, err
				}
			} else if !*confirmed && !s.words.Taken() && time.Since(s.since) > answerFor {
				return a, false, watchdog.ErrNobody
			}
			return a, false, nil
		case <-conn.closed:
			s.breaks++
			return a, false, nats.ErrConnectionClosed
		case <-c.js.door.quit:
			return a, false, errClosed
		case <-ctx.Done():
			return a, false, ctx.Err()
		}
	}
}

// word takes in one message.
func (s *sending) word(ctx context.Context, m *nats.Msg, kept bool, confirmed *bool) (a watchdog.Answer, over bool, err error) {
	c := s.commands
	if m.Header.Get("Status") == "503" { // nobody is there at all
		switch {
		case s.words.Taken(), s.breaks > 0 && time.Since(s.since) < answerFor: // or nobody is back yet
			return a, false, nil
		case kept: // not even what should keep it
			c.lookAgain()
			return a, false, errNotConfirmed
		}
		return a, false, watchdog.ErrNobody
	}
	if isAck(m.Data, wire.CommandsStream) {
		if *confirmed = true; s.kept {
			return a, false, nil
		}
		s.kept = true
		s.words.Say(watchdog.Answer{
			Command: s.command.ID, Session: s.command.Session, Generation: s.command.Generation, Fate: watchdog.FateRequested,
			Detail: "it is kept for its receiver", By: c.options.Name, At: c.wall(),
		})
		return a, false, nil
	}
	a, err = wire.DecodeResult(s.command.Session, s.command.ID, m.Data)
	if err != nil { // a stranger's
		return watchdog.Answer{}, false, nil
	}
	if !a.Fate.Final() {
		s.words.Say(a)
		return a, false, nil
	}
	if !kept {
		return a, true, nil
	}
	// What stands decides. A receiver that may not write, or does not trust what
	// it got, has written nothing: then this is the one result.
	stands, err := c.Conclude(ctx, a)
	switch {
	case err == nil:
		return stands, true, nil
	case neverSent(err): // we may not write it either
		return a, true, nil
	}
	return watchdog.Answer{}, false, err
}
