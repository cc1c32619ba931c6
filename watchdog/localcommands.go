package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// LocalCommands carries commands inside this process: to its own sessions, and in
// tests. It keeps nothing for who comes later, and the results of the latest
// commands. It is safe for concurrent use.
type LocalCommands struct {
	bus  *localBus
	name string
	quit chan struct{}
	once *sync.Once
}

var (
	_ CommandWay   = (*LocalCommands)(nil)
	_ CommandInbox = (*LocalCommands)(nil)
)

// LocalCommandOptions say how commands are delivered inside a process.
type LocalCommandOptions struct {
	Name          string        // who we are in results
	Lease         time.Duration // after which one that was not finished comes again; 60 s if 0
	MaxDeliveries int           // 3 if 0
	Clock         Clock         // its wall clock says when a command expires
}

// localKept is how many commands are remembered.
const localKept = 10_000

// NewLocalCommands makes a way. It has no goroutine of its own.
func NewLocalCommands(o LocalCommandOptions) *LocalCommands {
	if o.Lease <= 0 {
		o.Lease = 60 * time.Second
	}
	if o.MaxDeliveries <= 0 {
		o.MaxDeliveries = 3
	}
	b := &localBus{o: o, orders: map[string]*localOrder{}, changed: make(chan struct{})}
	return &LocalCommands{bus: b, name: o.Name, quit: make(chan struct{}), once: &sync.Once{}}
}

// As gives the same way to another part of the process, which has a name of its
// own in results, and is closed by itself.
func (l *LocalCommands) As(name string) *LocalCommands {
	return &LocalCommands{bus: l.bus, name: name, quit: make(chan struct{}), once: &sync.Once{}}
}

// Close ends what was begun through l.
func (l *LocalCommands) Close() { l.once.Do(func() { close(l.quit) }) }

// WayName is the word for people.
func (l *LocalCommands) WayName() string { return "here" }

// Carries reports whether somebody receives the session's commands here.
func (l *LocalCommands) Carries(id ID) bool {
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	return slices.ContainsFunc(l.bus.receivers, func(r *localReceiver) bool { return r.id == id })
}

// Refused counts the commands that were not obeyed, by their fault.
func (l *LocalCommands) Refused() RefusedCommands {
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	return l.bus.refused
}

// localBus is what the parts of one way share.
type localBus struct {
	o LocalCommandOptions

	mu        sync.Mutex
	receivers []*localReceiver
	orders    map[string]*localOrder
	oldest    []string
	refused   RefusedCommands
	changed   chan struct{} // closed and made anew when anything changes
}

// localReceiver is one Receive.
type localReceiver struct {
	id    ID
	knows []Op
	by    string
	over  func() bool                // its Receive is about to end
	begin func(*localOrder, Command) // starts a handler
}

// localOrder is one command.
type localOrder struct {
	words      []Answer
	result     *Answer
	busy       bool
	deliveries int
	again      time.Time // when it may be handed over
}

func (b *localBus) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *localBus) order(session ID, command string) *localOrder {
	id := string(session) + " " + command
	o := b.orders[id]
	if o == nil {
		o = &localOrder{}
		b.orders[id] = o
		if b.oldest = append(b.oldest, id); len(b.oldest) > localKept {
			delete(b.orders, b.oldest[0])
			b.oldest = b.oldest[1:]
		}
	}
	return o
}

func (b *localBus) wall() time.Time { return time.Unix(0, b.o.Clock.Now().Wall).UTC() }

func (b *localBus) answer(c *Command, f Fate, detail, by string) Answer {
	return Answer{Command: c.ID, Session: c.Session, Generation: c.Generation, Fate: f, Detail: detail, By: by, At: b.wall()}
}

// Receive hands over the commands to a session until ctx ends or l is closed, and
// returns when its handlers have.
func (l *LocalCommands) Receive(ctx context.Context, id ID, knows []Op, handle func(context.Context, Delivery)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	r := &localReceiver{id: id, knows: knows, by: l.name, over: func() bool { return ctx.Err() != nil }}
	r.begin = func(o *localOrder, c Command) {
		running.Go(func() { l.bus.hand(ctx, o, func() { handle(ctx, &localDelivery{l.bus, o, c, l.name}) }) })
	}
	l.bus.mu.Lock()
	l.bus.receivers = append(l.bus.receivers, r)
	l.bus.change()
	l.bus.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.quit:
	}
	l.bus.mu.Lock()
	l.bus.receivers = slices.DeleteFunc(l.bus.receivers, func(have *localReceiver) bool { return have == r })
	l.bus.mu.Unlock()
	cancel()
	running.Wait()
	return err
}

// Carry brings a command to whoever receives the session's commands and knows its
// op, again and again until it has a result or ctx ends.
func (l *LocalCommands) Carry(ctx context.Context, c Command, heard func(Answer)) (Answer, error) {
	b, told := l.bus, 0
	b.mu.Lock()
	o := b.order(c.Session, c.ID)
	b.mu.Unlock()
	for {
		b.mu.Lock()
		var due time.Duration
		var err error
		if o.result == nil {
			due, err = b.push(o, &c, l.name)
		}
		result, words, changed := o.result, o.words[told:], b.changed
		told = len(o.words)
		b.mu.Unlock()
		for _, w := range words {
			if heard != nil {
				heard(w)
			}
		}
		switch {
		case result != nil:
			return *result, nil
		case err != nil:
			return Answer{}, err
		}
		timer := time.NewTimer(due)
		select {
		case <-changed:
		case <-timer.C:
		case <-l.quit:
			err = errors.New("the way of commands was closed here")
		case <-ctx.Done():
			err = fmt.Errorf("command %s has no result yet: %w", c.ID, ctx.Err())
		}
		timer.Stop()
		if err != nil {
			return Answer{}, err
		}
	}
}

// push hands a command over if it may be now, and says after how long to look
// again. b.mu is held.
func (b *localBus) push(o *localOrder, c *Command, by string) (time.Duration, error) {
	now := time.Now()
	wait := o.again.Sub(now)
	switch {
	case o.busy:
		return b.o.Lease, nil
	case o.deliveries > 0 && wait > 0:
		return wait, nil
	case b.wall().After(c.Expires):
		b.refused.Add(CommandExpired)
		b.conclude(o, b.answer(c, FateTimedOut, "it expired before anybody could tell what became of it", by))
		return 0, nil
	case o.deliveries >= b.o.MaxDeliveries:
		b.conclude(o, b.answer(c, FateUndeliverable, fmt.Sprintf("it was delivered %d times and never finished", o.deliveries), by))
		return 0, nil
	}
	i := slices.IndexFunc(b.receivers, func(r *localReceiver) bool { return r.id == c.Session && slices.Contains(r.knows, c.Op) && !r.over() })
	if i < 0 {
		if o.deliveries == 0 {
			return 0, ErrNobody
		}
		return b.o.Lease, nil
	}
	r := b.receivers[i]
	o.busy, o.again = true, now.Add(b.o.Lease)
	o.deliveries++
	o.words = append(o.words, b.answer(c, FateDelivered, "", r.by))
	r.begin(o, *c)
	return b.o.Lease, nil
}

// hand sees one delivery through; a panic in the handler costs it alone.
func (b *localBus) hand(ctx context.Context, o *localOrder, handle func()) {
	defer func() {
		_ = recover() // it comes again, and in the end it is undeliverable
		b.mu.Lock()
		defer b.mu.Unlock()
		o.busy = false
		if ctx.Err() != nil { // others need not wait
			o.again = time.Time{}
		}
		b.change()
	}()
	handle()
}

// conclude sets the one result; b.mu is held.
func (b *localBus) conclude(o *localOrder, a Answer) Answer {
	if o.result == nil {
		o.result = &a
		b.change()
	}
	return *o.result
}

// Conclude writes the one result of a command unless there is one.
func (l *LocalCommands) Conclude(_ context.Context, a Answer) (Answer, error) {
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	return l.bus.conclude(l.bus.order(a.Session, a.Command), a), nil
}

type localDelivery struct {
	bus     *localBus
	order   *localOrder
	command Command
	by      string
}

func (d *localDelivery) Command() Command { return d.command }

func (d *localDelivery) Acknowledge(_ context.Context, detail string) error {
	d.bus.mu.Lock()
	defer d.bus.mu.Unlock()
	if d.order.result == nil {
		d.order.words = append(d.order.words, d.bus.answer(&d.command, FateAcknowledged, detail, d.by))
		d.bus.change()
	}
	return nil
}

func (d *localDelivery) Finish(_ context.Context, f Fate, detail string) (Answer, error) {
	d.bus.mu.Lock()
	defer d.bus.mu.Unlock()
	return d.bus.conclude(d.order, d.bus.answer(&d.command, f, detail, d.by)), nil
}
