package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/orders"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Receive hands the commands to a session to handle, each id to one handler at
// a time, until ctx ends. knows are the ops that handle knows; any other is left
// to others and to later: neither acknowledged nor counted. A handler that
// returns without Finish gets the command again, after the lease.
//
// Never handed on are commands that are not trusted, have expired, were
// delivered too often or have their result: these are answered here.
func (c *Commands) Receive(ctx context.Context, id watchdog.ID, knows []watchdog.Op, handle func(context.Context, watchdog.Delivery)) error {
	if err := checkID(id); err != nil {
		return err
	}
	r := &receiver{Receiver: c.desk.Receiver(id, knows, handle), commands: c, id: id, knows: knows}
	defer r.Wait()
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
		c.lookAgain()
		c.js.log.Info("receiving commands was interrupted", "session", id, "error", plainly(err))
		pause(ctx, time.Second)
	}
}

// receiver is one Receive.
type receiver struct {
	*orders.Receiver
	commands *Commands
	id       watchdog.ID
	knows    []watchdog.Op
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
	r.Pass()
	pulled, failed := make(chan *nats.Msg), make(chan error, 1)
	if kept {
		r.Go(func() { failed <- r.pull(ctx, conn, pulled) })
	}
	for {
		select {
		case m := <-live:
			r.Take(handling, parcel(message{Msg: m, conn: conn, kept: kept}))
		case m := <-pulled:
			r.Take(handling, parcel(message{Msg: m, conn: conn, kept: kept, pulled: true}))
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

// parcel is a message as the desk takes it.
func parcel(m message) orders.Parcel {
	p := orders.Parcel{
		Envelope: m.Data, Authenticated: m.conn.nc.AuthRequired(), Loopback: isLoopback(m.conn.raw.RemoteAddr()),
		Herald: m.kept && !m.pulled, Sender: m.sender(),
	}
	if m.pulled {
		p.Deliveries, p.At = m.stamp()
		p.Done = func() { m.settle("+ACK") }
		p.Renew = func() { m.settle("+WPI") }
	}
	return p
}

// reply is where an answer goes.
type reply struct {
	conn    *conn
	subject string
}

// Tell publishes to who waits; one that is gone reads the stream.
func (to reply) Tell(a watchdog.Answer) {
	if payload, err := wire.EncodeResult(a); err == nil {
		_ = to.conn.nc.Publish(to.subject, payload)
	}
}

// sender is where the sender waits; nil if it is not an inbox: with our
// permissions we write where a stranger says to no other subject.
func (m *message) sender() orders.Sender {
	subject := m.Reply
	if m.pulled {
		subject = m.Header.Get(replyHeader)
	}
	if !strings.HasPrefix(subject, nats.InboxPrefix) || strings.ContainsAny(subject, "*> \t\r\n") {
		return nil
	}
	return reply{m.conn, subject}
}

// settle answers the stream.
func (m *message) settle(word string) { _ = m.conn.nc.Publish(m.Reply, []byte(word)) } // else it is delivered again

// stamp reads the count of deliveries and the time at which the command was
// stored from $JS.ACK.<stream>.<consumer>.<count>.<sequence>.<sequence>.<nanoseconds>...,
// which newer servers begin with a domain and an account.
func (m *message) stamp() (deliveries int, at time.Time) {
	tokens := strings.Split(m.Reply, ".")
	from := 4
	if len(tokens) >= 11 {
		from = 6
	}
	if len(tokens) < 9 {
		return 0, at
	}
	if n, err := strconv.Atoi(tokens[from]); err == nil {
		deliveries = n
	}
	if ns, err := strconv.ParseInt(tokens[from+3], 10, 64); err == nil {
		at = time.Unix(0, ns)
	}
	return deliveries, at
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
	name = "cmd-" + watchdog.EntryID(r.id, 0, "commands:"+opWords(r.knows))
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

// opWords lists ops in an order of their own.
func opWords(ops []watchdog.Op) string {
	words := make([]string, len(ops))
	for i, op := range ops {
		words[i] = string(op)
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// isAck reports whether a reply says that a stream has taken a message.
func isAck(data []byte, stream string) bool {
	var ack struct {
		Stream   string `json:"stream"`
		Sequence uint64 `json:"seq"`
	}
	return json.Unmarshal(data, &ack) == nil && ack.Stream == stream && ack.Sequence > 0
}
