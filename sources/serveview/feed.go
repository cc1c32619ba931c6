package serveview

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Feed shows a screen the windows of a serve. While the serve is away, or says
// nothing, it shows the last window with every source down since then, and says so:
// nothing old is shown as live.
type Feed struct {
	client *Client
	clock  watchdog.Clock

	windows chan watchdog.Window
	asked   chan struct{}
	retry   chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}

	mu    sync.Mutex
	ask   watchdog.Ask
	last  watchdog.Window
	heard time.Duration // Mono when the last window came, or it began
	lost  bool          // the stream is broken
	next  time.Duration // Mono of the next try
	why   string
	tries int
}

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 5 * time.Second
	// silentAfter is how long a serve may say nothing: one that lives sends a window
	// each second.
	silentAfter = 3 * time.Second
	// heldUp is how late a look at it may be before it is we who were held up.
	heldUp = 500 * time.Millisecond
)

// Follow begins to follow a serve; spawn starts the goroutines.
func Follow(client *Client, clock watchdog.Clock, spawn func(func())) *Feed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Feed{client: client, clock: clock, windows: make(chan watchdog.Window, 1), asked: make(chan struct{}, 1),
		retry: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}), heard: clock.Now().Mono}
	watched := make(chan struct{})
	spawn(func() {
		defer close(watched)
		f.lookOut(ctx)
	})
	spawn(func() {
		defer close(f.done)
		defer close(f.windows)
		f.run(ctx, spawn)
		<-watched
	})
	return f
}

// Ask replaces the wanted window.
func (f *Feed) Ask(a watchdog.Ask) {
	f.mu.Lock()
	f.ask = a
	f.mu.Unlock()
	wake(f.asked)
}

// Windows gives the newest answer; one that was not read is replaced.
func (f *Feed) Windows() <-chan watchdog.Window { return f.windows }

// Retry asks the serve again now.
func (f *Feed) Retry() { wake(f.retry) }

// Close ends it and waits.
func (f *Feed) Close() {
	f.cancel()
	<-f.done
	f.client.Close()
}

func wake(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// run keeps a stream standing until ctx ends.
func (f *Feed) run(ctx context.Context, spawn func(func())) {
	wait := retryFirst
	for ctx.Err() == nil {
		name := newStream()
		streaming, stop := context.WithCancel(ctx)
		asking := make(chan struct{})
		err := f.client.stream(streaming, name, func() {
			wait = retryFirst
			spawn(func() {
				defer close(asking)
				f.forwardAsks(streaming, name)
			})
			wake(f.asked)
		}, f.show)
		stop()
		if wait == retryFirst {
			select {
			case <-asking:
			case <-time.After(retryFirst):
			}
		}
		if ctx.Err() != nil {
			return
		}
		f.broke(err, wait)
		f.pause(ctx, wait)
		wait = min(2*wait, retryMost)
	}
}

// forwardAsks tells the serve each new wish.
func (f *Feed) forwardAsks(ctx context.Context, name string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.asked:
		}
		f.mu.Lock()
		a := f.ask
		f.mu.Unlock()
		if f.client.json(ctx, http.MethodPost, "/v1/ask?stream="+name, spell(&a), nil) != nil {
			select { // the stream ends too, or it is asked again
			case <-ctx.Done():
			case <-time.After(retryFirst):
				wake(f.asked)
			}
		}
	}
}

// pause waits for the next try.
func (f *Feed) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-f.retry:
			return
		case <-f.asked:
			f.tellAway()
		}
	}
}

// lookOut tells each second that the serve is away: while there is no stream, one
// is being opened, or nothing comes out of it.
func (f *Feed) lookOut(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		late := time.Since(last) > time.Second+heldUp
		if last = time.Now(); !late { // else a window may wait to be read
			f.tellAway()
		}
	}
}

// show passes a window of the serve on. Its times are the serve's own clock,
// and ages are spelled as ages, so nothing must be translated.
func (f *Feed) show(w watchdog.Window) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.heard, f.lost, f.why, f.tries = w, f.clock.Now().Mono, false, "", 0
	f.publish(w)
}

// broke notes that the stream did, and that it is tried again after next.
func (f *Feed) broke(err error, next time.Duration) {
	f.mu.Lock()
	f.lost, f.next = true, f.clock.Now().Mono+next
	f.tries++
	if err != nil {
		f.why = err.Error()
	}
	f.mu.Unlock()
	f.tellAway()
}

// tellAway shows that the serve is away, if it is.
func (f *Feed) tellAway() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now().Mono
	if f.lost || now-f.heard > silentAfter {
		f.publish(f.blind(now))
	}
}

// blind is the last window as what it is now: old. Every source is down since
// the serve was last heard, and nobody's verdict is known.
func (f *Feed) blind(now time.Duration) watchdog.Window {
	w := f.last
	w.AskSeq = f.ask.Seq
	away, why := now-f.heard, f.why
	if !f.lost {
		why = "the serve at " + f.client.o.Address + " says nothing"
	}
	w.Now.Mono += away
	w.Now.Boot += away
	w.Now.Wall += int64(away)
	w.Links = append([]watchdog.Link(nil), w.Links...)
	if len(w.Links) == 0 {
		w.Links = []watchdog.Link{{Source: watchdog.SourceLocal, Address: f.client.o.Address}}
	}
	for i := range w.Links {
		l := &w.Links[i]
		l.Phase, l.Sighted, l.Reason, l.Detail = watchdog.LinkDown, false, "the serve is away", why
		l.Since, l.Attempt, l.NextTry = away, max(f.tries, 1), max(f.next-now, 0)
	}
	live := 0
	for v, n := range w.Fleet.ByVerdict {
		if !watchdog.Verdict(v).Ended() {
			live += n
			w.Fleet.ByVerdict[v] = 0
		}
	}
	w.Fleet.ByVerdict[watchdog.Unknown] = live
	w.Fleet.NeedYou = 0
	w.Rows = append([]watchdog.Row(nil), w.Rows...)
	for i := range w.Rows {
		hide(&w.Rows[i], away)
	}
	if w.Focus != nil {
		d := *w.Focus
		hide(&d.Row, away)
		d.Evidence = watchdog.Evidence{Rule: "the serve is away", Text: d.Why}
		w.Focus = &d
	}
	return w
}

// hide makes a row say only what is still true: how long ago it was seen.
func hide(r *watchdog.Row, away time.Duration) {
	if r.Verdict.Ended() {
		return
	}
	r.Why = "the serve is away; was " + r.Verdict.String()
	r.Verdict, r.Attention, r.For = watchdog.Unknown, watchdog.AttentionUnknown, away
	r.Seeing = 0
	if r.BeatAge >= 0 {
		r.BeatAge += away
	}
	if r.WorkAge >= 0 {
		r.WorkAge += away
	}
}

// publish replaces a window that nobody read. Its caller holds the lock.
func (f *Feed) publish(w watchdog.Window) {
	select {
	case <-f.windows:
	default:
	}
	select {
	case f.windows <- w:
	default: // another goroutine was faster
	}
}
