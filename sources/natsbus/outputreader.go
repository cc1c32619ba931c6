package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/lifetime"
	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// How output is listened to.
const (
	wishAgain     = wire.OutputHold / 3
	wishWithin    = 2 * time.Second  // an answer to a wish
	listenLinger  = 15 * time.Second // after the last who read
	heardMost     = 5000             // lines that are kept of one session
	heardBytes    = 4 << 20
	heardSessions = 8               // that are kept
	firstWithin   = 3 * time.Second // for the first lines of a session
)

// ErrNobodySends: no supervisor offers the output of a session here.
var ErrNobodySends = errors.New("no supervisor sends its output over NATS: sessionwatch run and serve do, for what they supervise")

// OutputReader listens to the output of sessions that others supervise, while
// somebody reads it. It connects when it is first asked.
type OutputReader struct {
	link *link
	door *door
	life lifetime.Run
	log  *slog.Logger
	mono func() time.Duration
	need chan struct{} // somebody asked
	once sync.Once

	mu        sync.Mutex
	listening map[watchdog.ID]*heard
	running   sync.WaitGroup
	over      bool
	quit      chan struct{}
}

// heard is the output of one session as far as it came.
type heard struct {
	id       watchdog.ID
	followed bool // under the lock of the reader

	mu      sync.Mutex
	lines   []wire.OutputLine // Seq is counted here: 1, 2, 3 ... in the order in which they came
	bytes   int
	seq     int64
	last    map[string]int64 // newest Seq of each sender
	awaits  bool             // the newest lines are on their way: nothing is shown before
	trouble error
	asked   time.Duration // Mono of the last reading
	changed chan struct{}
}

// OpenOutputReader makes a reader. Options that are read-only are refused: to
// listen, a wish must be published.
func OpenOutputReader(o Options, clocks watchdog.Clock, log *slog.Logger) (*OutputReader, error) {
	if o.ReadOnly {
		return nil, ErrReadOnly
	}
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	r := &OutputReader{door: newDoor(), log: orDiscard(log), mono: clock.MonoOf(clocks), need: make(chan struct{}), listening: map[watchdog.ID]*heard{}, quit: make(chan struct{})}
	r.link = newLink(p, r.mono, r.log, r, "listening to output", func(watchdog.LinkChanged) {})
	return r, nil
}

// Run waits until somebody asks, connects, and returns nil when ctx ends or
// Close is called. It may be called once.
func (r *OutputReader) Run(ctx context.Context) error {
	ctx, finish, err := r.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer finish()
	select {
	case <-ctx.Done():
	case <-r.need:
		r.link.run(ctx)
	}
	return nil
}

// Close ends Run and all listening, and waits for both.
func (r *OutputReader) Close() {
	r.mu.Lock()
	if !r.over {
		r.over = true
		close(r.quit)
	}
	r.mu.Unlock()
	r.door.lock()
	r.life.End()
	r.running.Wait()
}

// Retry connects again now. It never blocks.
func (r *OutputReader) Retry() { r.link.wake() }

// Lines gives up to most lines of a session from Seq from on, oldest first; from
// a negative one the newest. Numbers count what came here; lines that were left
// out on the way leave a gap. The first call waits a moment for the newest lines.
func (r *OutputReader) Lines(ctx context.Context, id watchdog.ID, from int64, most int) ([]wire.OutputLine, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	h, err := r.listen(id)
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(firstWithin)
	defer limit.Stop()
	for {
		h.mu.Lock()
		h.asked = r.mono()
		waits, changed, trouble := h.awaits && h.trouble == nil, h.changed, h.trouble
		lines := h.since(from, most)
		h.mu.Unlock()
		if !waits {
			if trouble != nil {
				return nil, trouble
			}
			return lines, nil
		}
		select {
		case <-changed:
		case <-limit.C: // it has written nothing yet
			h.mu.Lock()
			h.awaits = false
			h.mu.Unlock()
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.quit:
			return nil, errClosed
		}
	}
}

// listen begins to listen to a session, unless it does.
func (r *OutputReader) listen(id watchdog.ID) (*heard, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, errClosed
	}
	r.once.Do(func() { close(r.need) })
	h := r.listening[id]
	if h == nil {
		h = &heard{id: id, awaits: true, last: map[string]int64{}, asked: r.mono(), changed: make(chan struct{})}
		r.listening[id] = h
	}
	if !h.followed { // numbers go on where they were
		h.followed = true
		h.touch(r.mono())
		r.running.Go(func() { r.follow(h) })
	}
	return h, nil
}

// rested ends the listening to a session. What came stays for a while, of a few.
func (r *OutputReader) rested(h *heard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.followed = false
	for id, other := range r.listening {
		if len(r.listening) > heardSessions && !other.followed && other != h {
			delete(r.listening, id)
		}
	}
}

// follow keeps a session's output coming until nobody reads it any more.
func (r *OutputReader) follow(h *heard) {
	defer r.rested(h)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-r.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	var now *conn
	var sub *nats.Subscription
	for ctx.Err() == nil && !h.idle(r.mono()) {
		wait := wishAgain
		fresh := false
		c, err := r.connection(ctx)
		if err == nil && c != now {
			if sub, err = c.nc.Subscribe(wire.OutputSubject(h.id), h.message); err == nil {
				now, fresh = c, true
			}
		}
		if err == nil {
			err = r.wish(ctx, c, h, fresh)
		}
		if err != nil {
			wait = time.Second
			now = nil
			if sub != nil {
				_ = sub.Unsubscribe() // with its connection, or to begin anew
			}
		}
		h.tell(err)
		r.rest(ctx, h, wait)
	}
	if sub != nil {
		_ = sub.Unsubscribe() // with its connection
	}
}

func (r *OutputReader) connection(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wishWithin)
	defer cancel()
	return r.door.await(ctx, r.link)
}

// rest waits, but no longer than somebody reads.
func (r *OutputReader) rest(ctx context.Context, h *heard, wait time.Duration) {
	for until := r.mono() + wait; ctx.Err() == nil && r.mono() < until && !h.idle(r.mono()); {
		pause(ctx, min(until-r.mono(), time.Second))
	}
}

// wish asks for the output of a session.
func (r *OutputReader) wish(ctx context.Context, c *conn, h *heard, newest bool) error {
	payload, err := json.Marshal(wire.OutputWish{Newest: newest})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wishWithin)
	defer cancel()
	_, err = c.nc.RequestWithContext(ctx, wire.OutputWantSubject(h.id), payload)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNobodySends
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("its supervisor does not answer the wish for its output; it is asked again")
	}
	return err
}

func (h *heard) touch(now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = now
}

func (h *heard) idle(now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now-h.asked > listenLinger
}

// tell notes how the last wish went.
func (h *heard) tell(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = err
	h.ring()
}

func (h *heard) ring() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// message takes a line in. The newest lines that a sender keeps begin anew what
// was shown of it before; the lines of another listener's wish are known.
func (h *heard) message(m *nats.Msg) {
	l, err := wire.DecodeOutput(h.id, m.Data)
	if err != nil {
		return // anybody may write there
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.Newest && h.awaits {
		h.lines, h.bytes, h.seq = nil, 0, 0
		clear(h.last)
		h.awaits = false
	}
	last, known := h.last[l.By]
	if l.Seq <= last {
		return
	}
	if known {
		l.Dropped = l.Seq - last - 1 // it did not come, for whatever reason
	}
	if len(h.last) > 16 {
		clear(h.last) // somebody makes up senders
	}
	h.last[l.By] = l.Seq
	h.seq += l.Dropped + 1
	l.Seq = h.seq
	h.lines = append(h.lines, l)
	h.bytes += len(l.Text)
	drop := 0
	for len(h.lines)-drop > heardMost || h.bytes > heardBytes && len(h.lines)-drop > 1 {
		h.bytes -= len(h.lines[drop].Text)
		drop++
	}
	if drop > 0 {
		h.lines = append([]wire.OutputLine(nil), h.lines[drop:]...)
	}
	h.ring()
}

// since gives what came from Seq from on.
func (h *heard) since(from int64, most int) []wire.OutputLine {
	first := max(len(h.lines)-most, 0)
	if from >= 0 {
		for first = 0; first < len(h.lines) && h.lines[first].Seq < from; {
			first++
		}
	}
	return append([]wire.OutputLine(nil), h.lines[first:min(first+most, len(h.lines))]...)
}

func (r *OutputReader) up(*conn) error                        { return nil }
func (r *OutputReader) proved(c *conn)                        { r.door.open(c) }
func (r *OutputReader) answered(time.Duration, time.Duration) {}
func (r *OutputReader) troubled(_ *conn, err error) error {
	r.log.Warn("the NATS server complains about listening to output", "error", netreason.Short(err.Error()))
	return nil
}
func (r *OutputReader) tick(context.Context, *conn) error    { return nil }
func (r *OutputReader) retried(context.Context, *conn) error { return nil }
func (r *OutputReader) down()                                { r.door.shut() }
