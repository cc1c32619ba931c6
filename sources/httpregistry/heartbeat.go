package httpregistry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// refusal is an answer that is not a success.
type refusal struct {
	code  int
	text  string
	retry time.Duration // Retry-After; 0 none
	gone  *gone
	// marked: the hash says that the session is over, and the ledger, which has
	// the word, cannot be asked.
	marked bool
}

func (r *refusal) Error() string { return r.text }

// gone is the typed body of a 410: only an end that stands in the ledger, or a
// newer generation, gives one.
type gone struct {
	Error      string  `json:"error"`
	SessionID  string  `json:"session_id"`
	Generation uint32  `json:"generation"`
	Outcome    *string `json:"outcome"`
	Reason     string  `json:"reason"`
	At         *string `json:"at"`
}

// goneError is the word in the body of a 410 that is ours.
const goneError = "session_gone"

func invalid(format string, args ...any) *refusal {
	return &refusal{code: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

// away answers that a store cannot be asked now. It never ends a session.
func away(what string, err error) *refusal {
	return &refusal{code: http.StatusServiceUnavailable, retry: 2 * time.Second,
		text: fmt.Sprintf("%s cannot be asked now: %s; send the heartbeat again", what, netreason.Short(err.Error()))}
}

// heartbeat answers POST /heartbeat.
func (r *Registry) heartbeat(w http.ResponseWriter, req *http.Request) error {
	body, err := r.body(w, req)
	if err != nil {
		return err
	}
	beat, err := decodeHeartbeat(body)
	if err != nil {
		return err
	}
	id := watchdog.ID(beat.ID)
	allowed := grantOf(req)
	if !r.tokens.covers(allowed, id) {
		return &refusal{code: http.StatusUnauthorized, text: "this token is of another session; send the token that POST /sessions gave"}
	}
	if allowed.generation != 0 {
		if beat.Generation != 0 && beat.Generation != allowed.generation {
			return invalid("generation %d is not that of the token (%d); send no generation, or that one", beat.Generation, allowed.generation)
		}
		beat.Generation = allowed.generation
	}
	if err := r.Heartbeat(req.Context(), &beat); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// body reads a JSON body of at most what a beat may have.
func (r *Registry) body(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, &refusal{code: http.StatusUnsupportedMediaType, text: "send JSON with Content-Type: application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, wire.MaxBeatBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &refusal{code: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is over %d bytes; send less", wire.MaxBeatBytes)}
	case err != nil:
		return nil, invalid("the body could not be read; send it whole")
	}
	return body, nil
}

// decodeHeartbeat reads a heartbeat: session_id and timestamp, and any optional
// field of a beat. A heartbeat that says no state is one of a running agent.
func decodeHeartbeat(body []byte) (watchdog.Beat, error) {
	var head struct {
		ID *string `json:"session_id"`
	}
	body = bytes.TrimSpace(body)
	if err := json.Unmarshal(body, &head); err != nil || len(body) == 0 || body[0] != '{' {
		return watchdog.Beat{}, invalid(`the body is not a JSON object; send {"session_id":"...","timestamp":1718823042.331}`)
	}
	if head.ID == nil || !wire.ValidID(*head.ID) {
		return watchdog.Beat{}, invalid("session_id is missing or cannot be an id; use 1 to 256 bytes without white space, control characters and * > { }")
	}
	var b watchdog.Beat
	raw := body
	err := wire.DecodeBeat(&b, []byte(*head.ID), body)
	if err == watchdog.RefusedState && !hasState(body) {
		body = append([]byte(`{"state":"running",`), body[1:]...)
		err = wire.DecodeBeat(&b, []byte(*head.ID), body)
	}
	if err != nil {
		return watchdog.Beat{}, invalid("the heartbeat is refused (%s); see the fields of a beat", err)
	}
	b.Raw = raw
	return b, nil
}

// hasState reports whether the body names a state at all, null included.
func hasState(body []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return true
	}
	_, ok := fields["state"]
	return ok
}

// Heartbeat takes in one heartbeat, from HTTP or from a child that we supervise.
// Its error is the answer: gone, or not now.
func (r *Registry) Heartbeat(ctx context.Context, b *watchdog.Beat) error {
	id := watchdog.ID(b.ID)
	at := r.o.Clock.Now()
	b.Source, b.Received, b.AgeKind = watchdog.SourceHTTP, at.Mono, watchdog.AgeExact
	for range 3 { // a hash that changed between two looks is looked at again
		g, retry, err := r.admit(ctx, id, b, time.Unix(0, at.Wall))
		if retry {
			continue
		}
		if g != 0 {
			b.Generation = g
		}
		var no *refusal
		if errors.As(err, &no) && no.gone == nil && !r.proves(no, b) {
			return err
		}
		if b.Interval == 0 {
			b.Interval = r.o.Interval
		}
		r.o.Sink.Beats([]watchdog.Beat{*b}) // one that came late is kept in quarantine
		return err
	}
	return &refusal{code: http.StatusServiceUnavailable, retry: time.Second, text: "the session changes just now; send the heartbeat again"}
}

// proves reports whether a heartbeat that cannot be answered now, because a store
// is away, shows all the same that its session lives: a publisher that beats is
// not silent because of our troubles. What was read of its head says whether it
// is of an older generation, or late.
func (r *Registry) proves(no *refusal, b *watchdog.Beat) bool {
	if no.code != http.StatusServiceUnavailable || no.marked {
		return false
	}
	cached, ok := r.heads.get(watchdog.ID(b.ID))
	if !ok {
		return true
	}
	if h := cached.head; h.Ended || h.Generation > 1 && b.Generation != h.Generation || b.Generation > h.Generation {
		return false
	}
	b.Generation = cached.head.Generation
	return true
}

// admit decides one heartbeat and renews the hash if it counts. again says that
// somebody else changed the hash meanwhile.
func (r *Registry) admit(ctx context.Context, id watchdog.ID, b *watchdog.Beat, now time.Time) (g watchdog.Generation, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*storeTimeout)
	defer cancel()
	before, found, err := r.o.Store.Entry(ctx, id)
	if err != nil {
		return 0, false, away("the session store", err)
	}
	if found && !before.open() {
		g, again, err = r.admitMarked(ctx, id, b, before, now)
		var no *refusal
		if errors.As(err, &no) {
			no.marked = true
		}
		return g, again, err
	}
	head, stale, err := r.head(ctx, id, !found)
	switch {
	case err != nil && !found:
		return 0, false, away("the ledger", err)
	case err != nil:
		head = watchdog.Head{ID: id} // the hash says alive: its number is told later
	case head.Ended && !stale:
		return head.Generation, false, r.goneAnswer(ctx, id, head, b)
	}
	if err := r.current(ctx, head, b); err != nil {
		return 0, false, err
	}
	if head.Generation == 0 && err == nil {
		if head.Generation, err = r.claim(ctx, id, b, now); err != nil {
			return 0, false, away("the ledger", err)
		}
	}
	stood, existed, err := r.o.Store.Beat(ctx, r.entry(id, b, now))
	switch {
	case err != nil:
		return 0, false, away("the session store", err)
	case existed && !stood.open():
		return 0, true, nil
	case !existed:
		r.rate.opened(now)
	}
	return head.Generation, false, nil
}

// admitMarked decides a heartbeat of a session whose hash says reaped or
// expired: the ledger has the word.
func (r *Registry) admitMarked(ctx context.Context, id watchdog.ID, b *watchdog.Beat, before Entry, now time.Time) (watchdog.Generation, bool, error) {
	head, _, err := r.head(ctx, id, true)
	if err != nil {
		return 0, false, away("the ledger", err)
	}
	if !head.Ended && before.broken() {
		// An operator broke the glass, and the reaper has not come by yet.
		if err := r.expire(ctx, before, head); err != nil {
			return 0, false, away("the ledger", err)
		}
		if head, _, err = r.head(ctx, id, true); err != nil {
			return 0, false, away("the ledger", err)
		}
	}
	if head.Ended {
		return head.Generation, false, r.goneAnswer(ctx, id, head, b)
	}
	if err := r.current(ctx, head, b); err != nil {
		return 0, false, err
	}
	if head.Generation == 0 {
		if head.Generation, err = r.claim(ctx, id, b, now); err != nil {
			return 0, false, away("the ledger", err)
		}
	}
	// A newer generation lives: the mark was of an older one.
	if err := r.o.Store.Register(ctx, r.entry(id, b, now)); err != nil {
		return 0, false, away("the session store", err)
	}
	r.rate.opened(now)
	return head.Generation, false, nil
}

// current refuses a heartbeat of a generation that is not the head's.
func (r *Registry) current(ctx context.Context, head watchdog.Head, b *watchdog.Beat) error {
	switch {
	case b.Generation > head.Generation && head.Generation > 0, b.Generation > 1 && head.Generation == 0:
		return invalid("generation %d was never given out (the newest is %d); ask POST /sessions for one", b.Generation, head.Generation)
	case head.Generation <= 1 || b.Generation == head.Generation:
		return nil
	}
	old := b.Generation
	if old == 0 {
		old = head.Generation - 1
	}
	g := &gone{Error: goneError, SessionID: string(head.ID), Generation: uint32(old),
		Reason: fmt.Sprintf("generation %d is current; send its generation or its token", head.Generation)}
	rec, found, err := r.o.Ends.Record(ctx, head.ID, old)
	if err != nil {
		return away("the ledger", err)
	}
	if found {
		g.fill(rec)
	}
	return &refusal{code: http.StatusGone, text: g.Reason, gone: g}
}

// goneAnswer is the 410 of a head that ended: the record must stand.
func (r *Registry) goneAnswer(ctx context.Context, id watchdog.ID, head watchdog.Head, b *watchdog.Beat) error {
	if b.Generation > head.Generation {
		return invalid("generation %d was never given out (the newest is %d); ask POST /sessions for one", b.Generation, head.Generation)
	}
	g := head.Generation
	if b.Generation != 0 {
		g = b.Generation
	}
	rec, found, err := r.o.Ends.Record(ctx, id, g)
	switch {
	case err != nil:
		return away("the ledger", err)
	case !found:
		return away("the ledger", fmt.Errorf("it says that generation %d has ended and has no record of it", g))
	}
	body := &gone{Error: goneError, SessionID: string(id), Generation: uint32(g), Reason: rec.Reason}
	body.fill(rec)
	return &refusal{code: http.StatusGone, text: rec.Reason, gone: body}
}

func (g *gone) fill(rec watchdog.Record) {
	outcome, at := rec.Outcome.String(), wire.FormatTime(rec.At)
	g.Outcome, g.At = &outcome, &at
}

// claim asks for the number of a session's first generation.
func (r *Registry) claim(ctx context.Context, id watchdog.ID, b *watchdog.Beat, now time.Time) (watchdog.Generation, error) {
	c := watchdog.Claim{ID: id, BootID: string(b.BootID), Cadence: r.o.Interval, Sources: watchdog.SourceHTTP.Set()}
	if b.Uptime >= 0 {
		c.Start = now.Add(-time.Duration(min(b.Uptime, 1<<31)) * time.Second)
	}
	g, err := r.o.Ends.Claim(ctx, c)
	if err == nil {
		r.SawHead(watchdog.Head{ID: id, Generation: g})
	}
	return g, err
}

func (r *Registry) entry(id watchdog.ID, b *watchdog.Beat, now time.Time) Entry {
	return Entry{ID: id, AgentID: string(b.Agent), LastSeen: now, TTL: r.o.TTL, Status: Alive}
}
