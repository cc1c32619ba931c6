package recording

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

var tickPrefix = []byte(`{"tick":`)

// Length reads a recording to its end and gives the recorded time in it. It
// decodes clock readings alone, so what else is wrong with the file is not
// found. ErrStopped once stop is closed.
func Length(r *Reader, stop <-chan struct{}) (time.Duration, error) {
	started := r.Header().Started.Mono
	end := started
	for n := 0; ; n++ {
		if n%stopEvery == 0 && stopped(stop) {
			return 0, ErrStopped
		}
		line, err := r.readLine()
		if errors.Is(err, io.EOF) {
			return min(end-started, maxLength), nil
		}
		if err != nil {
			return 0, err
		}
		if !bytes.HasPrefix(line, tickPrefix) {
			continue
		}
		e, err := r.dialect.readEntry(line)
		if err != nil {
			return 0, r.fault(err)
		}
		if tick, ok := e.Event.(watchdog.Ticked); ok {
			end = max(end, tick.Now.Mono)
		}
	}
}
