package serveview

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
)

// eventStream writes server-sent events.
type eventStream struct {
	w    io.Writer
	ctrl *http.ResponseController
}

// eventWithin bounds how long one event may take to leave: a reader that hangs
// must not hold its stream for ever.
const eventWithin = 15 * time.Second

func startEvents(w http.ResponseWriter) *eventStream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	e := &eventStream{w, http.NewResponseController(w)}
	_ = e.ctrl.SetReadDeadline(time.Time{}) // the request is read; the stream has no end
	w.WriteHeader(http.StatusOK)
	_ = e.ctrl.Flush() // a writer that cannot is seen at the first event
	return e
}

func (e *eventStream) send(body []byte) error {
	_ = e.ctrl.SetWriteDeadline(time.Now().Add(eventWithin)) // not every writer can; then it may wait
	if _, err := fmt.Fprintf(e.w, "data: %s\n\n", body); err != nil {
		return err
	}
	return e.ctrl.Flush()
}

// readEvents closes a stream of server-sent events after it has handed each of them
// over, until it breaks, nothing came for so long as silence, or each is not
// content; io.EOF from it says that it has heard enough, which is no error.
func (c *Client) readEvents(res *http.Response, silence time.Duration, each func(body []byte) error) error {
	defer func() { _ = res.Body.Close() }()
	silent := time.AfterFunc(silence, func() { _ = res.Body.Close() })
	defer silent.Stop()
	in := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the serve at %s: %s", c.o.Address, cmp.Or(netreason.Network(err), "it says nothing"))
		}
		body, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok {
			continue
		}
		silent.Reset(silence)
		switch err := each(body); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// unreadable is the error of an answer that makes no sense.
func (c *Client) unreadable(what string) error {
	return fmt.Errorf("the serve at %s: %s cannot be read; is it of another version?", c.o.Address, what)
}
