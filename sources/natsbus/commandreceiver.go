package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Delivery is a command as its receiver gets it.
type Delivery struct {
	Command    wire.Command
	Deliveries int // of this command, this one included; 0 if it is not kept

	commands *Commands
	state    *handled
}

// handled is what this process did with a command. A message id may be accepted
// again after the server's window of duplicates, so the table is ours.
type handled struct {
	mu      sync.Mutex
	replies []reply      // who wants to hear of it
	last    *wire.Result // what was said last
	busy    bool         // a handler runs
}

// reply is where an answer goes.
type reply struct {
	conn    *conn
	subject string
}

// maxHandled is how many command ids a process remembers, and maxReplies how
// many senders of one.
const (
	maxHandled = 10_000
	maxReplies = 16
)

// Acknowledge tells the sender that the command was taken.
func (d *Delivery) Acknowledge() { d.commands.say(d.state, d.result(wire.FateAcknowledged, "")) }

// Finish writes the one result of the command and gives the one that stands:
// another receiver may have been first. It goes on trying while the server is
// away, until ctx ends; with an error nothing is known, and the command is
// delivered again.
func (d *Delivery) Finish(ctx context.Context, fate, detail string) (wire.Result, error) {
	r := d.result(fate, detail)
	for {
		stands, err := d.commands.WriteResult(ctx, r)
		if err == nil {
			d.commands.say(d.state, stands)
			return stands, nil
		}
		again := errors.Is(err, watchdog.ErrUnknown) || errors.Is(err, nats.ErrConnectionClosed)
		if !again || ctx.Err() != nil {
			return wire.Result{}, err
		}
		pause(ctx, 200*time.Millisecond)
	}
}

func (d *Delivery) result(fate, detail string) wire.Result {
	return wire.Result{
		Command: d.Command.ID, Session: d.Command.Session, Generation: d.Command.Generation, Fate: fate, Detail: detail,
		By: d.commands.options.Name, At: d.commands.wall(),
	}
}

// say notes what became of a command and answers everybody who sent it.
func (c *Commands) say(h *handled, r wire.Result) {
	h.mu.Lock()
	h.last = &r
	replies := h.replies
	if r.Final() {
		h.replies = nil
	}
	h.mu.Unlock()
	for _, to := range replies {
		to.answer(r)
	}
}

func (to reply) answer(r wire.Result) {
	if payload, err := wire.EncodeResult(r); err == nil {
		_ = to.conn.nc.Publish(to.subject, payload) // a sender that is gone reads the stream
	}
}

// Receive hands the commands to a session to handle, each id to one handler at
// a time, until ctx ends. knows are the ops that handle knows; any other is left
// to others and to later: neither acknowledged nor counted. A handler that
// returns without Finish gets the command again, after the lease.
//
// Never handed on are commands that are not trusted, have expired, were
// delivered too often or have their result: these are answered here.
func (c *Commands) Receive(ctx context.Context, id watchdog.ID, knows []string, handle func(context.Context, *Delivery)) error {
	if err := checkID(id); err != nil {
		return err
	}
	r := &receiver{commands: c, id: id, knows: knows, handle: handle}
	defer r.running.Wait()
	for {
		conn, kept, err := c.ready(ctx)
		if err == nil {
			err = r.on(ctx, conn, kept)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errClosed):
			return nil
		}
		c.js.log.Warn("receiving commands was interrupted", "session", id, "error", plainly(err))
		pause(ctx, time.Second)
	}
}

// receiver is one Receive.
type receiver struct {
	commands *Commands
	id       watchdog.ID
	knows    []string
	handle   func(context.Context, *Delivery)
	running  sync.WaitGroup
	unknown  bool // an unknown op was warned of, on this connection
}

// on receives on one connection.
func (r *receiver) on(ctx context.Context, conn *conn, kept bool) error {
	// Handlers go on when the connection is lost: they end with Receive.
	handling := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	live := make(chan *nats.Msg, 256)
	sub, err := conn.nc.ChanSubscribe(wire.CommandSubject(r.id), live)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	r.unknown = false
	pulled, failed := make(chan *nats.Msg), make(chan error, 1)
	if kept {
		r.running.Go(func() { failed <- r.pull(ctx, conn, pulled) })
	}
	for {
		select {
		case m := <-live:
			r.take(handling, message{Msg: m, conn: conn, kept: kept})
		case m := <-pulled:
			r.take(handling, message{Msg: m, conn: conn, kept: kept, pulled: true})
		case err := <-failed:
			if !isDenied(err) {
				return err
			}
			r.commands.js.log.Warn("only commands that come now are taken, none that are kept", "session", r.id, "error", err)
			kept = false
		case <-conn.closed:
			return nats.ErrConnectionClosed
		case <-r.commands.js.door.quit:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// message is a command as it came: live, with the place where its sender waits,
// or from the stream, which counts its deliveries. Where commands are kept it
// comes in both ways, and the live one only says who wants to hear of it.
type message struct {
	*nats.Msg
	conn         *conn
	kept, pulled bool
}

// replyHeader keeps the place where the sender waits, for a stream forgets it.
const replyHeader = "Sw-Reply"

// sender is where the sender waits; no place if it is not an inbox: with our
// permissions we write where a stranger says to no other subject.
func (m *message) sender() reply {
	subject := m.Reply
	if m.pulled {
		subject = m.Header.Get(replyHeader)
	}
	if !strings.HasPrefix(subject, nats.InboxPrefix) || strings.ContainsAny(subject, "*> \t\r\n") {
		return reply{}
	}
	return reply{m.conn, subject}
}

// settle answers the stream.
func (m *message) settle(word string) {
	if m.pulled {
		_ = m.conn.nc.Publish(m.Reply, []byte(word)) // else it is delivered again
	}
}

// deliveries reads the count from $JS.ACK.<stream>.<consumer>.<count>..., which
// newer servers begin with a domain and an account.
func (m *message) deliveries() int {
	tokens := strings.Split(m.Reply, ".")
	at := 4
	if len(tokens) >= 11 {
		at = 6
	}
	if !m.pulled || len(tokens) < 9 {
		return 0
	}
	n, err := strconv.Atoi(tokens[at])
	if err != nil {
		return 0
	}
	return n
}

// pullFor is how long one question for the next command waits at the server.
const pullFor = 30 * time.Second

// pull takes what the stream holds for the session. It asks for one after the
// other and takes whatever comes, for an answer may come after we have given up
// waiting for it.
func (r *receiver) pull(ctx context.Context, conn *conn, into chan<- *nats.Msg) error {
	name, err := r.consumer(ctx, conn)
	if err != nil {
		return err
	}
	question, err := json.Marshal(map[string]any{"batch": 1, "expires": pullFor})
	if err != nil {
		return err
	}
	answers := make(chan *nats.Msg, 64)
	inbox := conn.nc.NewInbox()
	sub, err := conn.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		err := conn.nc.PublishMsg(&nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT." + wire.CommandsStream + "." + name, Reply: inbox, Data: question})
		if err != nil {
			return err
		}
		if err := r.answer(ctx, answers, into); err != nil {
			return err
		}
	}
}

// answer waits for one answer to a question for the next command.
func (r *receiver) answer(ctx context.Context, answers <-chan *nats.Msg, into chan<- *nats.Msg) error {
	limit := time.NewTimer(pullFor + askWithin)
	defer limit.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C: // the question was lost
		return nil
	case m := <-answers:
		switch status := m.Header.Get("Status"); status {
		case "":
			select {
			case into <- m:
			case <-ctx.Done():
			}
		case "404", "408": // nothing there until now
		case "503":
			return ErrNoJetStream
		default:
			return fmt.Errorf("the stream of commands answers %s %s", status, netreason.Short(m.Header.Get("Description")))
		}
		return nil
	}
}

// consumer makes the place in the stream of those who receive the session's
// commands and know the same ops: what others leave is no delivery of theirs. It
// outlives us.
func (r *receiver) consumer(ctx context.Context, conn *conn) (name string, err error) {
	name = "cmd-" + watchdog.EntryID(r.id, 0, "commands:"+strings.Join(slices.Sorted(slices.Values(r.knows)), ","))
	config := map[string]any{"stream_name": wire.CommandsStream, "config": map[string]any{
		"durable_name": name, "filter_subject": wire.CommandSubject(r.id), "deliver_policy": "all", "ack_policy": "explicit", "replay_policy": "instant",
		"ack_wait": r.commands.options.Lease, "max_deliver": -1, "max_ack_pending": 1000, "inactive_threshold": keepCommands,
	}}
	var made struct{}
	err = r.commands.js.api(ctx, conn, "CONSUMER.DURABLE.CREATE."+wire.CommandsStream+"."+name, config, &made)
	if err != nil {
		return "", fmt.Errorf("the commands that are kept cannot be read: %w", err)
	}
	return name, nil
}

// take looks at one message and starts what is to be done with it.
func (r *receiver) take(ctx context.Context, m message) {
	c := r.commands
	cmd, err := c.open(r.id, m)
	if err != nil {
		c.js.log.Warn("a command was refused", "session", r.id, "error", err)
		m.settle("+TERM")
		return
	}
	if !slices.Contains(r.knows, cmd.Op) {
		if !r.unknown {
			r.unknown = true
			c.js.log.Warn("a command is left to others: its op is not known here", "session", r.id, "op", cmd.Op)
		}
		m.settle("+TERM")
		return
	}
	h := c.remember(cmd.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if to := m.sender(); to.conn != nil && !slices.Contains(h.replies, to) {
		h.replies = append(h.replies[max(0, len(h.replies)-maxReplies+1):], to)
		if h.last != nil {
			to.answer(*h.last)
		}
	}
	switch {
	case h.last != nil && h.last.Final():
		m.settle("+ACK")
	case h.busy, m.kept && !m.pulled:
	default:
		h.busy = true
		d := &Delivery{Command: cmd, Deliveries: m.deliveries(), commands: c, state: h}
		r.running.Go(func() { r.carry(ctx, d, m) })
	}
}

// carry sees one delivery through.
func (r *receiver) carry(ctx context.Context, d *Delivery, m message) {
	defer func() {
		d.state.mu.Lock()
		d.state.busy = false
		d.state.mu.Unlock()
	}()
	stop := r.renew(m)
	defer stop()
	c := r.commands
	stands, found, err := c.Result(ctx, r.id, d.Command.ID)
	switch {
	case errors.Is(err, errForeignResult):
		c.js.log.Warn("a command is not obeyed, for its result could not be told", "session", r.id, "command", d.Command.ID, "error", err)
		m.settle("+TERM")
		return
	case err == nil && found:
		c.say(d.state, stands) // a receiver before us finished it
	default:
		r.answerOrHandle(ctx, d)
	}
	stop()
	d.state.mu.Lock()
	final := d.state.last != nil && d.state.last.Final()
	d.state.mu.Unlock()
	if final {
		m.settle("+ACK")
	}
}

// answerOrHandle answers what needs no handler.
func (r *receiver) answerOrHandle(ctx context.Context, d *Delivery) {
	o := &r.commands.options
	var err error
	switch cmd := &d.Command; {
	case o.Fleet != "" && cmd.Fleet != "" && cmd.Fleet != o.Fleet:
		_, err = d.Finish(ctx, wire.FateRefused, "it is for another fleet, whose ledger is "+cmd.Fleet)
	case r.commands.wall().After(cmd.Expires):
		_, err = d.Finish(ctx, wire.FateTimedOut, "it expired before anybody began with it")
	case d.Deliveries > o.MaxDeliveries:
		_, err = d.Finish(ctx, wire.FateUndeliverable, fmt.Sprintf("it was delivered %d times and never finished", o.MaxDeliveries))
	default:
		defer func() {
			if p := recover(); p != nil {
				r.commands.js.log.Error("handling a command panicked; please report this", "op", d.Command.Op, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		r.handle(ctx, d)
	}
	if err != nil {
		r.commands.js.log.Warn("the result of a command could not be written; it is delivered again", "command", d.Command.ID, "error", err)
	}
}

// renew keeps the stream from delivering a command again while it is handled.
func (r *receiver) renew(m message) (stop func()) {
	if !m.pulled {
		return func() {}
	}
	over := make(chan struct{})
	r.running.Go(func() {
		t := time.NewTicker(r.commands.options.Lease / 3)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case <-t.C:
				m.settle("+WPI")
			}
		}
	})
	return sync.OnceFunc(func() { close(over) })
}

// open reads a command and says why it is not taken. A forged one is answered,
// but leaves no result: that would settle the true one of the same id.
func (c *Commands) open(id watchdog.ID, m message) (wire.Command, error) {
	e, err := wire.DecodeEnvelope(m.Data)
	if err != nil {
		return wire.Command{}, fmt.Errorf("a command to %s cannot be read: %w", id, err)
	}
	cmd, err := wire.DecodeCommand(id, e.Payload)
	if err != nil {
		return wire.Command{}, err
	}
	if err := c.trust(e, m.conn); err != nil {
		if to := m.sender(); to.conn != nil {
			d := Delivery{Command: cmd, commands: c}
			to.answer(d.result(wire.FateRefused, err.Error()))
		}
		return wire.Command{}, fmt.Errorf("command %s to %s is not obeyed: %w", cmd.ID, id, err)
	}
	return cmd, nil
}

// trust says why a command is not obeyed.
func (c *Commands) trust(e wire.Envelope, conn *conn) error {
	switch {
	case len(c.options.Trusted) > 0:
		return e.Verify(c.options.Trusted)
	case conn.nc.AuthRequired(), c.options.TrustLoopback && isLoopback(conn.raw.RemoteAddr()):
		return nil
	}
	return errors.New("it is not signed by a configured key, and the server lets anybody in: set commands.public_keys, let the server demand authentication, or set commands.trust_loopback for one on this machine")
}

// remember gives what is known of a command id.
func (c *Commands) remember(id string) *handled {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.handling[id]
	if h == nil {
		h = &handled{}
		c.handling[id] = h
		if c.order = append(c.order, id); len(c.order) > maxHandled {
			delete(c.handling, c.order[0])
			c.order = c.order[1:]
		}
	}
	return h
}

// isAck reports whether a reply says that a stream has taken a message.
func isAck(data []byte, stream string) bool {
	var ack struct {
		Stream   string `json:"stream"`
		Sequence uint64 `json:"seq"`
	}
	return json.Unmarshal(data, &ack) == nil && ack.Stream == stream && ack.Sequence > 0
}
