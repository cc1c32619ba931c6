package serveview

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// clientOf looks through a handler.
func clientOf(t *testing.T, h http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := NewClient(ClientOptions{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestNotesGoThroughAServe(t *testing.T) {
	board := watchdog.NewMemoryBoard(nil)
	n := watchdog.AlertNote{Key: "a.b:c#1/stalled", Kind: watchdog.NoteSnooze, Author: "ops1", Text: "vendor called", Evidence: 1<<64 - 1,
		At: time.Now().UTC().Truncate(time.Millisecond), Until: time.Now().UTC().Truncate(time.Millisecond).Add(time.Hour)}
	c := clientOf(t, NewServer(Options{Note: board.Put}).Handler())
	if err := c.PutNote(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_ = board.Watch(ctx, func(notes []watchdog.AlertNote) {
		cancel()
		if len(notes) != 1 || notes[0] != n {
			t.Errorf("%+v stands", notes)
		}
	})
	older := n
	older.At = n.At.Add(-time.Second)
	if err := c.PutNote(t.Context(), older); err == nil || !strings.Contains(err.Error(), "a newer note stands there: snooze by ops1") {
		t.Errorf("an older one is answered with %v", err)
	}
	if err := c.PutNote(t.Context(), watchdog.AlertNote{}); err == nil {
		t.Error("nothing is put")
	}
	local := clientOf(t, NewServer(Options{Note: func(context.Context, watchdog.AlertNote) error { return &watchdog.KeptHere{Why: "no JetStream"} }}).Handler())
	var here *watchdog.KeptHere
	if err := local.PutNote(t.Context(), n); !errors.As(err, &here) || here.Why != "no JetStream" {
		t.Errorf("a note that the serve's machine alone keeps: %v", err)
	}
	readOnly := clientOf(t, NewServer(Options{Note: board.Put, About: About{ReadOnly: true}}).Handler())
	if err := readOnly.PutNote(t.Context(), n); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a serve that may not write answers %v", err)
	}
	for _, body := range []string{"", "{}", `{"key":"a"}`, strings.Repeat("x", 1<<20)} {
		res := httptest.NewRecorder()
		NewServer(Options{Note: board.Put}).Handler().ServeHTTP(res, httptest.NewRequest(http.MethodPost, "/v1/notes", strings.NewReader(body)))
		if res.Code < 400 || res.Code >= 500 {
			t.Errorf("%.20q is answered with %d", body, res.Code)
		}
	}
}

// raises is what a serve raised.
type raises struct {
	mu      sync.Mutex
	all     []watchdog.Raise
	changed chan struct{}
}

func (r *raises) add(id watchdog.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, watchdog.Raise{Alert: watchdog.Alert{Key: watchdog.AlertKey(id), ID: id, Text: "STALLED", Note: &watchdog.AlertNote{Author: "ops1"}}, Again: "snooze over"})
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *raises) after(n uint64) ([]watchdog.Raise, uint64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]watchdog.Raise(nil), r.all[min(n, uint64(len(r.all))):]...), uint64(len(r.all)), r.changed
}

func TestRaisedAlertsReachScreens(t *testing.T) {
	r := &raises{changed: make(chan struct{})}
	r.add("before")
	server := httptest.NewServer(NewServer(Options{Raised: r.after}).Handler())
	defer server.Close()
	c, err := NewClient(ClientOptions{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan watchdog.Raise, 10)
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.Raised(ctx, func(raise watchdog.Raise) { told <- raise })
	}()
	next := func() watchdog.ID {
		t.Helper()
		select {
		case raise := <-told:
			if raise.Again != "snooze over" || raise.Alert.Note == nil || raise.Alert.Note.Author != "ops1" {
				t.Errorf("%+v is told", raise)
			}
			return raise.Alert.ID
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is told")
			return ""
		}
	}
	// What came before the stream stood is history; so the first may be missed.
	for i := 0; len(told) == 0 && i < 200; i++ {
		r.add("first")
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	for id := next(); len(told) > 0; id = next() {
		if id != "first" {
			t.Errorf("%s is told", id)
		}
	}
	server.CloseClientConnections() // and what is raised until it is back is told then
	r.add("meanwhile")
	r.add("last")
	for id := next(); id != "last"; id = next() {
		if id == "before" {
			t.Error("history is told")
		}
	}
	cancel()
	<-over
	if res, err := http.Get(server.URL + "/v1/raised?after=99999"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("a screen that knows more than was raised: %v", err)
	} else {
		_ = res.Body.Close()
	}
}
