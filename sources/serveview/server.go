package serveview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Engine is what a view is answered from.
type Engine interface {
	// Look gives one answer in which everything that was put in is applied.
	Look(ctx context.Context, a watchdog.Ask) (watchdog.Window, error)
	// Changes grows with everything that a window could show.
	Changes() uint64
	Post(ev watchdog.Event)
}

// About is what a serve says of itself.
type About struct {
	Name     string `json:"name"`
	Sweeper  string `json:"sweeper"`
	ReadOnly bool   `json:"read_only"`
	Version  string `json:"version"`
	PID      int    `json:"pid"`
	Trial    bool   `json:"trial"` // it keeps what came in, for trials
	// Release is the command that it runs for each session that it settles lost or
	// expired; empty: none.
	Release []string `json:"release"`
}

// Line is one line of a child's output.
type Line struct {
	Seq        int64               `json:"seq"`
	At         time.Time           `json:"at"`
	Generation watchdog.Generation `json:"generation"` // 0 not known when it was written
	Stream     string              `json:"stream"`     // stdout, stderr
	Text       string              `json:"text"`       // cleaned
	Partial    bool                `json:"partial"`    // it has not ended yet
}

// Dump is one capture, as dumps --json lists it.
type Dump struct {
	ID         string              `json:"id"` // names it among all
	SessionID  watchdog.ID         `json:"session_id"`
	Generation watchdog.Generation `json:"generation"` // 0 not known
	At         time.Time           `json:"at"`
	Reason     string              `json:"reason"`
	Method     *string             `json:"method"`
	Bytes      int64               `json:"bytes"`
	Truncated  bool                `json:"truncated"`
	Format     *string             `json:"format"`
	Verdict    *string             `json:"verdict"`
	Culprit    *string             `json:"culprit"`
	LoopThread string              `json:"loop_thread,omitempty"` // as was configured; empty: recognised
}

// Children gives what a serve keeps of the sessions that it supervises. Its
// methods read memory or files of this machine.
type Children interface {
	Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]Line, error)
	Dumps(ctx context.Context, id watchdog.ID) ([]Dump, error)
	Dump(ctx context.Context, name string) ([]byte, error)
}

// Options say what is served. Engine is needed; Children and Late may be nil.
type Options struct {
	Engine Engine
	// Late lists what came after the end of a session, newest first; of all if id
	// is empty.
	Late     func(ctx context.Context, id watchdog.ID, limit int) ([]watchdog.Late, error)
	About    About
	Children Children
	Registry func() Registry // nil: none is kept
	// Do asks for an action, as Engine.Do; nil: nothing can be acted on here.
	Do func(ctx context.Context, c watchdog.Command) (watchdog.Action, error)
	// Note writes what an operator says of an alert where colleagues see it; nil:
	// it cannot be kept. Its error may be a *watchdog.NewerNote.
	Note func(ctx context.Context, n watchdog.AlertNote) error
	// Raised gives the alerts that were raised after the first so many, as far as
	// they are kept, how many were raised by now, and what is closed when there are
	// more. nil: none are.
	Raised func(after uint64) (news []watchdog.Raise, now uint64, changed <-chan struct{})
	// Handover sums up so long until now; nil: nobody can.
	Handover func(ctx context.Context, since time.Duration) (watchdog.Handover, error)
	// Trial judges what came in by other thresholds; nil: nothing is kept for that.
	Trial Trials
	// Audit appends one entry to the audit file, as a line of JSON, and returns
	// once it stands there. nil: none is kept.
	Audit  func(entry any) error
	Logger *slog.Logger
}

// The rhythm of a stream: ten windows a second at most, one at least, and five
// times the work as rest, as for a screen in this process.
const (
	streamPause   = 100 * time.Millisecond
	streamRefresh = time.Second
	streamRest    = 5
	maxStreams    = 64
	streamUnread  = 15 * time.Second // how long a stream that nobody reads is kept
	maxAskBytes   = 16 << 10
)

// Server answers the paths under /v1/.
type Server struct {
	o      Options
	trying chan struct{} // held by the trial that runs

	mu      sync.Mutex
	streams map[string]*stream
}

// stream is one screen's wish.
type stream struct {
	mu    sync.Mutex
	ask   watchdog.Ask
	asked chan struct{} // a token: the wish changed

	// Under the lock of the server.
	watched int       // how many read it
	wished  time.Time // when it was last asked for or left
}

// NewServer makes a server.
func NewServer(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.About.Trial = o.Trial != nil
	return &Server{o: o, trying: make(chan struct{}, 1), streams: map[string]*stream{}}
}

// Handler serves the paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	handle("GET /v1/about", func(w http.ResponseWriter, _ *http.Request) error { return send(w, s.o.About) })
	handle("POST /v1/look", s.look)
	handle("GET /v1/windows", s.windows)
	handle("POST /v1/ask", s.ask)
	handle("GET /v1/sessions", s.sessions)
	handle("GET /v1/sessions/{id}", s.session(wire.EncodeDetail))
	handle("GET /v1/sessions/{id}/why", s.session(wire.EncodeWhy))
	handle("GET /v1/events", s.events)
	handle("GET /v1/late", s.late)
	handle("POST /v1/release", s.release)
	handle("GET /v1/registry", s.registry)
	handle("GET /v1/actions", s.actions)
	handle("POST /v1/actions", s.act)
	handle("POST /v1/notes", s.note)
	handle("GET /v1/raised", s.raisedAlerts)
	handle("GET /v1/handover", s.handover)
	handle("GET /v1/trial", s.trialReach)
	handle("POST /v1/trial", s.try)
	handle("GET /v1/logs", s.logs)
	handle("GET /v1/dumps", s.dumps)
	handle("GET /v1/dumps/{name...}", s.dump)
	return mux
}

// failure is an answer that is not a success.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

func fail(w http.ResponseWriter, err error) {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{http.StatusServiceUnavailable, err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": f.text}) // who asked is gone
}

func send(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who asked is gone
	return nil
}

// readAsk reads an ask in words.
func readAsk(w http.ResponseWriter, r *http.Request) (watchdog.Ask, error) {
	var words asked
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAskBytes)).Decode(&words); err != nil {
		return watchdog.Ask{}, &failure{http.StatusBadRequest, "the body is not an ask in JSON: {\"height\":20,\"query\":\"verdict:stalled\"}"}
	}
	a, err := words.compile()
	if err != nil {
		return a, &failure{http.StatusBadRequest, err.Error()}
	}
	return a, nil
}

func (s *Server) look(w http.ResponseWriter, r *http.Request) error {
	a, err := readAsk(w, r)
	if err != nil {
		return err
	}
	win, err := s.o.Engine.Look(r.Context(), a)
	if err != nil {
		return err
	}
	body, err := encodeWindow(&win)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // who asked is gone
	return nil
}

// ask changes what a stream shows. One that has not begun yet finds it there.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) error {
	a, err := readAsk(w, r)
	if err != nil {
		return err
	}
	st, err := s.stream(r.URL.Query().Get("stream"))
	if err != nil {
		return err
	}
	st.mu.Lock()
	st.ask = a
	st.mu.Unlock()
	select {
	case st.asked <- struct{}{}:
	default:
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stream gives the stream of a name, made if there is none.
func (s *Server) stream(name string) (*stream, error) {
	if len(name) < 8 || len(name) > 64 {
		return nil, &failure{http.StatusBadRequest, "name the stream: ?stream= and 8 to 64 random characters"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for other, st := range s.streams { // a wish that came as its screen went
		if st.watched == 0 && now.Sub(st.wished) > streamUnread {
			delete(s.streams, other)
		}
	}
	st := s.streams[name]
	if st == nil {
		if len(s.streams) >= maxStreams {
			return nil, &failure{http.StatusServiceUnavailable, fmt.Sprintf("%d screens look through this serve already; close one", maxStreams)}
		}
		st = &stream{asked: make(chan struct{}, 1)}
		s.streams[name] = st
	}
	st.wished = now
	return st, nil
}

// watch counts who reads a stream. One that nobody reads stays for a while: its
// screen may come back.
func (s *Server) watch(st *stream, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.watched, st.wished = st.watched+by, time.Now()
}

// windows streams what a stream asks for, until it is closed.
func (s *Server) windows(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("stream")
	st, err := s.stream(name)
	if err != nil {
		return err
	}
	s.watch(st, 1)
	defer s.watch(st, -1)
	events := startEvents(w)
	ticker := time.NewTicker(streamPause)
	defer ticker.Stop()
	var seen uint64
	var answered, rest time.Time
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-st.asked:
		case now := <-ticker.C:
			if s.o.Engine.Changes() == seen && now.Sub(answered) < streamRefresh || now.Before(rest) {
				continue
			}
		}
		began := time.Now()
		seen = s.o.Engine.Changes()
		st.mu.Lock()
		a := st.ask
		st.mu.Unlock()
		win, err := s.o.Engine.Look(r.Context(), a)
		if err != nil {
			return nil // the serve ends, or who asked is gone
		}
		body, err := encodeWindow(&win)
		if err != nil {
			s.o.Logger.Error("a window could not be spelled", "error", err)
			return nil
		}
		if events.send(body) != nil {
			return nil
		}
		answered = time.Now()
		rest = answered.Add(answered.Sub(began) * streamRest)
	}
}

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) error {
	words := asked{Height: -1, KeepEnded: true, Query: r.URL.Query().Get("filter")}
	a, err := words.compile()
	if err != nil {
		return &failure{http.StatusBadRequest, err.Error()}
	}
	win, err := s.o.Engine.Look(r.Context(), a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return wire.EncodeList(w, win)
}

// session answers for one session with an encoding of the command line.
func (s *Server) session(encode func(io.Writer, watchdog.Window) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		win, err := s.o.Engine.Look(r.Context(), watchdog.Ask{Focus: watchdog.ID(r.PathValue("id")), KeepEnded: true})
		if err != nil {
			return err
		}
		if win.Focus == nil {
			return &failure{http.StatusNotFound, "no such session was seen"}
		}
		w.Header().Set("Content-Type", "application/json")
		return encode(w, win)
	}
}

// release lets held groups be settled.
func (s *Server) release(w http.ResponseWriter, r *http.Request) error {
	var asked struct{ By, Reason string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAskBytes)).Decode(&asked); err != nil || asked.Reason == "" {
		return &failure{http.StatusBadRequest, `give a reason: {"by":"ops1","reason":"the host is gone for good"}`}
	}
	did := releasing{Event: "brake.release", By: asked.By, Reason: asked.Reason}
	if s.o.About.ReadOnly {
		did.Fate = "refused"
		return errors.Join(&failure{http.StatusForbidden, "this serve is read-only; nothing can be released through it"}, s.audited(did))
	}
	win, err := s.o.Engine.Look(r.Context(), watchdog.Ask{})
	if err != nil {
		return err
	}
	for _, g := range win.Groups {
		if g.HeldFor != 0 {
			did.Held += g.N
		}
	}
	did.Fate = "effective"
	if did.Held == 0 {
		did.Fate = "ineffective"
	}
	if err := s.audited(did); err != nil {
		return err // what leaves no trace is not done
	}
	s.o.Engine.Post(watchdog.BrakeReleased{By: asked.By, Reason: asked.Reason, At: win.Now.Mono})
	s.o.Logger.Warn("the brake was released", "by", asked.By, "reason", asked.Reason, "held", did.Held)
	return send(w, map[string]int{"released": did.Held})
}

// releasing is the line of a release in the audit file.
type releasing struct {
	Event     string  `json:"event"`
	Timestamp float64 `json:"timestamp"` // Unix seconds
	By        string  `json:"by"`
	Reason    string  `json:"reason"`
	Held      int     `json:"held"` // sessions that were
	Fate      string  `json:"fate"`
}

// audited writes down what an operator wanted.
func (s *Server) audited(did releasing) error {
	if s.o.Audit == nil {
		return nil
	}
	did.Timestamp = float64(time.Now().UnixMilli()) / 1000
	if err := s.o.Audit(did); err != nil {
		return fmt.Errorf("nothing was done, since it cannot be written to the audit file: %w", err)
	}
	return nil
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	if s.o.Children == nil {
		return &failure{http.StatusNotFound, "this serve supervises nothing, so it has no logs"}
	}
	asked := r.URL.Query()
	from, _ := strconv.ParseInt(asked.Get("from"), 10, 64) // from the beginning
	most, err := strconv.Atoi(asked.Get("most"))
	if err != nil || most < 1 || most > maxLines {
		most = maxLines
	}
	lines, err := s.o.Children.Logs(r.Context(), watchdog.ID(asked.Get("id")), from, most)
	if err != nil {
		return &failure{http.StatusNotFound, err.Error()}
	}
	if lines == nil {
		lines = []Line{}
	}
	return send(w, lines)
}

const maxLines = 2000

func (s *Server) dumps(w http.ResponseWriter, r *http.Request) error {
	if s.o.Children == nil {
		return send(w, []Dump{})
	}
	dumps, err := s.o.Children.Dumps(r.Context(), watchdog.ID(r.URL.Query().Get("id")))
	if err != nil {
		return err
	}
	if dumps == nil {
		dumps = []Dump{}
	}
	return send(w, dumps)
}

func (s *Server) dump(w http.ResponseWriter, r *http.Request) error {
	if s.o.Children == nil {
		return &failure{http.StatusNotFound, "this serve supervises nothing, so it has no dumps"}
	}
	text, err := s.o.Children.Dump(r.Context(), r.PathValue("name"))
	if err != nil {
		return &failure{http.StatusNotFound, err.Error()}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text) // who asked is gone
	return nil
}
