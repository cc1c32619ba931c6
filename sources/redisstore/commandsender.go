package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Fields of the entries of the streams.
const (
	fieldCommand = "c" // the envelope
	fieldSender  = "s" // tells one sender from another
	fieldWord    = "w" // what a receiver says
)

// checkEvery is how often a sender looks whether its command is still kept.
const checkEvery = 5 * time.Second

// Carry brings a command to its receiver and waits for its one result. It lasts
// over breaks of the connection; what the server refuses is an error at once.
func (c *Commands) Carry(ctx context.Context, cmd watchdog.Command, heard func(watchdog.Answer)) (watchdog.Answer, error) {
	envelope, err := c.rules.Seal(cmd)
	if err != nil {
		return watchdog.Answer{}, err
	}
	s := &sending{commands: c, command: cmd, envelope: envelope, words: orders.NewWords(heard), sender: rand.Text(), last: "0"}
	for {
		a, over, err := s.step(ctx)
		var denied *deniedError
		switch {
		case over:
			return s.words.Result(a), nil
		case errors.Is(err, orders.ErrForeign):
			return watchdog.Answer{}, err
		case errors.As(err, &denied), errors.Is(err, errConnClosed):
			return watchdog.Answer{}, fmt.Errorf("command %s was not sent: %w", cmd.ID, err)
		case ctx.Err() != nil:
			return watchdog.Answer{}, fmt.Errorf("command %s has no result yet: %w", cmd.ID, errors.Join(ctx.Err(), err))
		case err != nil:
			s.looked = time.Time{}
			pause(ctx, 200*time.Millisecond)
		}
	}
}

// sending is one Carry.
type sending struct {
	commands *Commands
	command  watchdog.Command
	envelope []byte
	words    *orders.Words
	sender   string
	entry    string    // of the command in its stream; empty: none that is known of
	looked   time.Time // when it was last seen there
	last     string    // the last word that was read
}

// step looks for the result, sees to it that the command is kept, and waits for
// a word.
func (s *sending) step(ctx context.Context) (a watchdog.Answer, over bool, err error) {
	c, cmd := s.commands, &s.command
	if a, found, err := c.Result(ctx, cmd.Session, cmd.ID); err != nil || found {
		return a, found, err
	}
	if err := s.keep(ctx); err != nil {
		return a, false, err
	}
	said, err := s.listen(ctx)
	if err != nil {
		return a, false, err
	}
	for _, word := range said {
		if !word.Fate.Final() {
			s.words.Say(word)
			continue
		}
		// What stands decides. A receiver that may not write, or does not trust
		// what it got, has written nothing: then this is the one result.
		stands, err := c.Conclude(ctx, word)
		var denied *deniedError
		if errors.As(err, &denied) { // we may not write it either
			return word, true, nil
		}
		return stands, err == nil, err
	}
	return a, false, nil
}

// keep puts the command into its stream, unless it stands there.
func (s *sending) keep(ctx context.Context) error {
	c := s.commands
	if s.entry != "" && time.Since(s.looked) < checkEvery {
		return nil
	}
	key, entry := wire.CommandsKey(s.command.Session), s.entry
	added := make(chan string, 1)
	err := c.calls.write(ctx, func(ctx context.Context, cl *client) error {
		if entry != "" {
			found, err := cl.XRange(ctx, key, entry, entry).Result()
			if err != nil || len(found) > 0 {
				added <- entry
				return err
			}
		}
		var add *redis.StringCmd
		_, err := cl.TxPipelined(ctx, func(p redis.Pipeliner) error {
			add = p.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: maxCommands, Approx: true, Values: []any{fieldCommand, s.envelope, fieldSender, s.sender}})
			p.PExpire(ctx, key, keepCommands)
			return nil
		})
		if err == nil {
			added <- add.Val()
		}
		return err
	})
	if err != nil {
		return c.failed(err)
	}
	now := <-added
	if s.entry == "" {
		s.words.Say(watchdog.Answer{
			Command: s.command.ID, Session: s.command.Session, Generation: s.command.Generation, Fate: watchdog.FateRequested,
			Detail: "it is kept for its receiver", By: c.rules.Name, At: c.wall(),
		})
	}
	s.entry, s.looked = now, time.Now()
	return nil
}

// listen waits a moment for words.
func (s *sending) listen(ctx context.Context) (said []watchdog.Answer, err error) {
	key, last := wire.WordsKey(s.command.Session, s.command.ID), s.last
	got, err := s.commands.read(ctx, func(ctx context.Context, cl *client, block time.Duration) ([]redis.XStream, error) {
		return cl.XRead(ctx, &redis.XReadArgs{Streams: []string{key, last}, Count: maxWords, Block: block}).Result()
	})
	if err != nil {
		return nil, s.commands.failed(err)
	}
	for _, m := range got {
		s.last = m.ID
		text, _ := m.Values[fieldWord].(string)
		if a, err := wire.DecodeResult(s.command.Session, s.command.ID, []byte(text)); err == nil { // else a stranger's
			said = append(said, a)
		}
	}
	return said, nil
}

// read waits at the server for what comes into one stream, for a moment; nothing
// is no error. It returns when the server has answered, so that nothing is
// answered to nobody.
func (c *Commands) read(ctx context.Context, ask func(ctx context.Context, cl *client, block time.Duration) ([]redis.XStream, error)) ([]redis.XMessage, error) {
	if !c.reading.begin(c.quit) {
		return nil, errConnClosed
	}
	defer c.reading.end()
	got := make(chan []redis.XStream, 1)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), blockFor+ioLimit)
	defer cancel()
	err := c.reads.do(limited, func(ctx context.Context, cl *client) error {
		streams, err := ask(ctx, cl, blockFor)
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		got <- streams
		return err
	})
	if err != nil {
		return nil, err
	}
	streams := <-got
	if len(streams) == 0 {
		return nil, nil
	}
	return streams[0].Messages, nil
}

// readers counts reads that wait at a server.
type readers struct {
	mu sync.Mutex
	sync.WaitGroup
}

func (r *readers) begin(quit <-chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-quit:
		return false
	default:
		r.Add(1)
		return true
	}
}

func (r *readers) end() { r.Done() }

// close lets nobody in any more.
func (r *readers) close(quit chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(quit)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
