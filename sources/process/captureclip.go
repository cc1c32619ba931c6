package process

import (
	"fmt"
	"io"
	"os"
)

// clipWriter keeps the head and the tail of what is written to it, 3 parts to 1,
// and counts the rest: a tool or a server never waits for us, however much it
// says.
type clipWriter struct {
	limit      int64 // bytes kept
	head, tail []byte
	total      int64
}

// Write never fails.
func (w *clipWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.total += int64(n)
	if room := w.limit - w.limit/4 - int64(len(w.head)); room > 0 {
		take := min(int64(len(p)), room)
		w.head = append(w.head, p[:take]...)
		p = p[take:]
	}
	w.tail = append(w.tail, p...)
	if keep := w.limit / 4; int64(len(w.tail)) > 2*keep+4096 {
		w.tail = append(w.tail[:0], w.tail[int64(len(w.tail))-keep:]...)
	}
	return n, nil
}

// text is what was kept; cut reports that it is not all.
func (w *clipWriter) text() (text []byte, cut bool) {
	if w.total <= w.limit {
		return append(w.head, w.tail...), false
	}
	tail := w.tail[max(0, int64(len(w.tail))-w.limit/4):]
	mark := fmt.Sprintf("\n[... %d bytes left out ...]\n", w.total-int64(len(w.head))-int64(len(tail)))
	return append(append(w.head, mark...), tail...), true
}

// clip keeps the head and the tail of text within limit bytes and a line that
// says what is missing.
func clip(text []byte, limit int64) (clipped []byte, cut bool) {
	if int64(len(text)) <= limit {
		return text, false
	}
	w := &clipWriter{limit: max(0, limit)}
	_, _ = w.Write(text)
	return w.text()
}

// readStart reads at most limit bytes from the start of a file.
func readStart(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}
