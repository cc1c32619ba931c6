package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// askWithin bounds one question to the server. It is longer than a synced write
// takes and shorter than a connection is kept that does not answer.
const askWithin = 5 * time.Second

// Errors of JetStream that are answers to us.
const (
	faultNoMessage     = 10037
	faultNotForAccount = 10039
	faultNameInUse     = 10058
	faultNoStream      = 10059
	faultWrongSequence = 10071
	faultNotEnabled    = 10076
	faultSubjectFull   = 10077
)

// ErrNoJetStream says that the server keeps nothing, so that it can be neither
// a ledger nor hold an authority marker.
var ErrNoJetStream = errors.New("the NATS server has no JetStream for this user; enable it (jetstream {} in its configuration), or set ledger: redis or file")

// fault is an error that JetStream answers with.
type fault struct {
	Number int    `json:"err_code"`
	Text   string `json:"description"`
}

func (f *fault) Error() string { return netreason.Short(f.Text) }

func isFault(err error, number int) bool {
	var f *fault
	return errors.As(err, &f) && f.Number == number
}

// deniedError says that the user may not do what was asked: nothing was done.
type deniedError struct{ what string }

func (d *deniedError) Error() string {
	return "this NATS user may not " + d.what + "; ask the server's operator for the permission"
}

// jetStream asks the JetStream of a server through a connection of its own. It
// speaks its API directly: what decides must be read from the leader, and its
// errors must be told apart by number. It is the tenant of its link.
type jetStream struct {
	link *link
	door *door
	life lifetime.Run
	log  *slog.Logger
	mono func() time.Duration
	plan *plan

	mu     sync.Mutex
	denied map[string]time.Duration // what the server refuses, and when it said so
	denial chan struct{}            // closed when something new is refused
	whole  map[string]*conn         // streams that were seen to be there, and on which connection
}

func newJetStream(o Options, about string, clocks watchdog.Clock, log *slog.Logger) (*jetStream, error) {
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	j := &jetStream{
		door: newDoor(), log: orDiscard(log), mono: clock.MonoOf(clocks), plan: p,
		denied: map[string]time.Duration{}, denial: make(chan struct{}), whole: map[string]*conn{},
	}
	j.link = newLink(p, j.mono, j.log, j, about, func(watchdog.LinkChanged) {})
	return j, nil
}

func (j *jetStream) run(ctx context.Context) error {
	ctx, finish, err := j.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	j.link.run(ctx)
	return nil
}

func (j *jetStream) close() {
	j.door.lock()
	j.life.End()
}

func (j *jetStream) up(*conn) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.denied)
	return nil
}

func (j *jetStream) proved(c *conn)                        { j.door.open(c) }
func (j *jetStream) down()                                 { j.door.shut() }
func (j *jetStream) answered(time.Duration, time.Duration) {}
func (j *jetStream) tick(context.Context, *conn) error     { return nil }
func (j *jetStream) retried(context.Context, *conn) error  { return nil }
func (j *jetStream) troubled(_ *conn, err error) error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		j.log.Warn("the NATS server complains", "error", netreason.Short(err.Error()))
		return nil
	}
	what := deniedWhat(err)
	j.mu.Lock()
	_, known := j.denied[what]
	j.denied[what] = j.mono()
	close(j.denial)
	j.denial = make(chan struct{})
	j.mu.Unlock()
	if !known {
		j.log.Warn("the NATS server refuses something", "what", what)
	}
	return nil
}

// deniedWhat puts a permission error into words that deniedError can end.
func deniedWhat(err error) string {
	text := err.Error()
	_, subject, _ := strings.Cut(text, `"`)
	subject, _, _ = strings.Cut(subject, `"`)
	if isSubscriptionDenied(err) {
		if strings.HasPrefix(strings.ToUpper(subject), "_INBOX.") {
			return mayNotHear
		}
		return "subscribe to " + subject
	}
	return "publish to " + subject
}

const mayNotHear = "subscribe to _INBOX.>, where answers come"

// refused says whether the server refused one of these lately, and what to wait
// on for its next refusal.
func (j *jetStream) refused(what ...string) (<-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range what {
		for said, at := range j.denied {
			if strings.EqualFold(said, w) && j.mono()-at < subscribeAgain {
				return j.denial, &deniedError{w}
			}
		}
	}
	return j.denial, nil
}

// refusedAbout is refused for all that holds one of these words.
func (j *jetStream) refusedAbout(words ...string) (<-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for said, at := range j.denied {
		for _, w := range words {
			if strings.Contains(said, w) && j.mono()-at < subscribeAgain {
				return j.denial, &deniedError{said}
			}
		}
	}
	return j.denial, nil
}

// publish sends a message that nobody answers, and returns when the server has it
// or has refused it. Its complaint comes before its answer to the ping, but may not
// be told to us yet.
func (j *jetStream) publish(ctx context.Context, c *conn, subject string, payload []byte) error {
	before, what := c.nc.LastError(), "publish to "+subject
	if err := c.nc.Publish(subject, payload); err != nil {
		return err
	}
	if _, _, err := c.roundTrip(ctx, askWithin); err != nil {
		return err
	}
	err := c.nc.LastError()
	if err != before && errors.Is(err, nats.ErrPermissionViolation) && strings.EqualFold(deniedWhat(err), what) {
		return &deniedError{what}
	}
	_, err = j.refused(what)
	return err
}

// request sends a message and waits for the answer, until ctx ends or for
// askWithin. It runs the client library on a goroutine of its own, for that
// holds its lock while a socket is full.
func (j *jetStream) request(ctx context.Context, c *conn, m *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	what := "publish to " + m.Subject
	denial, err := j.refused(what, mayNotHear)
	if err != nil {
		return nil, err
	}
	type answer struct {
		m   *nats.Msg
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		m, err := c.nc.RequestMsgWithContext(ctx, m)
		answered <- answer{m, err}
	}()
	for {
		select {
		case a := <-answered:
			return a.m, a.err
		case <-denial:
			if denial, err = j.refused(what, mayNotHear); err != nil {
				return nil, err
			}
		case <-j.door.quit:
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// api puts a question to the API of JetStream. A fault that it answers is the
// error; ErrNoJetStream says that nobody answers such questions.
func (j *jetStream) api(ctx context.Context, c *conn, question string, in, out any) error {
	payload, err := json.Marshal(in)
	if err != nil {
		return err
	}
	m, err := j.request(ctx, c, &nats.Msg{Subject: "$JS.API." + question, Data: payload})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoJetStream
	case err != nil:
		return err
	}
	var failed struct {
		Error *fault `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("the answer to %s is no JSON: %s", question, netreason.Short(err.Error()))
	}
	if f := failed.Error; f != nil {
		if f.Number == faultNotEnabled || f.Number == faultNotForAccount {
			return ErrNoJetStream
		}
		return f
	}
	return json.Unmarshal(m.Data, out)
}

// stored is a message as a stream keeps it.
type stored struct {
	Subject  string `json:"subject"`
	Sequence uint64 `json:"seq"`
	Header   []byte `json:"hdrs"`
	Data     []byte `json:"data"`
}

// sought names one message of a stream.
type sought struct {
	Sequence uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"` // from Sequence on
}

// message reads one message from the leader of a stream, which is where
// decisions are made; a direct read may come from a replica that is behind.
func (j *jetStream) message(ctx context.Context, c *conn, stream string, which sought) (m stored, found bool, err error) {
	var out struct {
		Message stored `json:"message"`
	}
	if err := j.awaitWhole(ctx, c, stream); err != nil {
		return stored{}, false, err
	}
	err = j.api(ctx, c, "STREAM.MSG.GET."+stream, which, &out)
	switch {
	case isFault(err, faultNoMessage):
		return stored{}, false, nil
	case isFault(err, faultNoStream):
		j.mu.Lock()
		delete(j.whole, stream)
		j.mu.Unlock()
	}
	return out.Message, err == nil, err
}

// awaitWhole waits until a stream is there as a whole. Servers of version 2.9
// die of a question for a message of a stream that somebody is creating just
// then.
func (j *jetStream) awaitWhole(ctx context.Context, c *conn, stream string) error {
	j.mu.Lock()
	known := j.whole[stream] == c
	j.mu.Unlock()
	if known {
		return nil
	}
	if _, err := j.info(ctx, c, stream); err != nil && !isDenied(err) { // who may read it all the same has to ask blindly
		return err
	}
	j.mu.Lock()
	j.whole[stream] = c
	j.mu.Unlock()
	return nil
}

// info tells of a stream. While somebody is creating it, servers of version 2.9 say
// that it was created at no time, which is no identity: then it waits.
func (j *jetStream) info(ctx context.Context, c *conn, stream string) (streamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for {
		var i streamInfo
		err := j.api(ctx, c, "STREAM.INFO."+stream, struct{}{}, &i)
		if err != nil || !i.Created.IsZero() {
			return i, err
		}
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return streamInfo{}, fmt.Errorf("the stream %s is being created for too long: %w", stream, ctx.Err())
		}
	}
}

// readers ask for messages at a time, each for a share of what is missing.
const readers = 64

// eachMessage reads the messages of a stream on a subject from first to last, in
// no order; read is called on several goroutines. Each reader takes a run of them
// and asks its way through it, for there may be gaps.
func (j *jetStream) eachMessage(ctx context.Context, c *conn, stream, subject string, first, last uint64, read func(stored)) error {
	if first > last {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := max(1, (last-first+readers)/readers)
	var all sync.WaitGroup
	for from := first; from <= last; from += run {
		all.Go(func() {
			for seq := from; seq < from+run && seq <= last; seq++ {
				m, found, err := j.message(ctx, c, stream, sought{Sequence: seq, Next: subject})
				if err != nil {
					cancel(err)
					return
				}
				if !found || m.Sequence >= from+run || m.Sequence > last {
					return
				}
				seq = m.Sequence
				read(m)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// store publishes to a stream and gives the sequence at which it stands. Any
// error that is no fault, and most that are, leave open whether it does.
func (j *jetStream) store(ctx context.Context, c *conn, stream, subject string, payload []byte, header nats.Header) (uint64, error) {
	if header == nil {
		header = nats.Header{}
	}
	// A stream of another name over this subject must not take it.
	header.Set(nats.ExpectedStreamHdr, stream)
	m, err := j.request(ctx, c, &nats.Msg{Subject: subject, Header: header, Data: payload})
	for since := time.Now(); errors.Is(err, nats.ErrNoResponders); {
		if ctx.Err() != nil || time.Since(since) > deafAfterBirth {
			return 0, errNoStream
		}
		pause(ctx, deafAfterBirth/50)
		m, err = j.request(ctx, c, &nats.Msg{Subject: subject, Header: header, Data: payload})
	}
	if err != nil {
		return 0, err
	}
	var ack struct {
		Stream    string `json:"stream"`
		Sequence  uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
		Error     *fault `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case err != nil:
		return 0, errors.New("the server's answer to a write cannot be read")
	case ack.Error != nil:
		return 0, ack.Error
	case ack.Stream != stream || ack.Sequence == 0 || ack.Duplicate:
		return 0, fmt.Errorf("something else than stream %s answered a write", stream)
	}
	return ack.Sequence, nil
}

// deafAfterBirth is for how long a server may tell of a stream that it creates
// for somebody else before that stream hears what is written to it: seen with
// nats-server 2.9.10, some milliseconds.
const deafAfterBirth = time.Second

// errNoStream says that a write went to nobody: nothing was stored.
var errNoStream = errors.New("no stream takes it")

// lastSequence is the condition of a write that replaces what stands at seq; 0:
// that there is nothing.
func lastSequence(seq uint64) nats.Header {
	return nats.Header{nats.ExpectedLastSubjSeqHdr: {fmt.Sprint(seq)}}
}
