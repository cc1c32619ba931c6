package process

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Stream is where a line came from.
type Stream uint8

// The streams of a child. In a terminal both are one: Stdout.
const (
	Stdout Stream = iota
	Stderr
)

// String is the word for people and logs.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Line is one line of output, safe to show.
type Line struct {
	Seq        int64 // 1, 2, 3 ... over all generations of this supervisor's life
	At         time.Time
	Generation watchdog.Generation // 0 not known when it was written
	Stream     Stream
	Text       string
	Cut        bool // the line goes on in the next one of its stream
	Partial    bool // it has not ended yet; Seq is that of the next line
}

// maxLine bounds one line; what is longer is cut into several.
const maxLine = 16 << 10

// lineCost is what a line costs beside its text.
const lineCost = 80

// output holds what the generations of one session wrote: the head and the
// tail of the lines within a bound of bytes, cleaned, and the tail of the
// bytes as they came.
type output struct {
	mu   sync.Mutex
	max  int // bytes of lines; an eighth of it holds the head
	head []Line
	tail lineRing
	used int // bytes of the head

	seq        int64
	dropped    int64 // lines between head and tail
	generation watchdog.Generation
	streams    [2]cutter
	lastErr    string // last line of stderr
	raw        *rawTail

	// The sink may take its time: it is told under a lock of its own, so that who
	// reads, or supervises, never waits for it.
	order sync.Mutex // taken before mu
	sink  func(Line) // also told, in order; nil none
	fresh []Line     // what it is to be told
}

func newOutput(bytes, rawBytes int, sink func(Line)) *output {
	return &output{max: bytes, raw: newRawTail(rawBytes), sink: sink}
}

// begin starts a generation: its bytes are its own, its lines follow.
func (o *output) begin(g watchdog.Generation) *rawTail {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.generation, o.lastErr = g, ""
	o.streams = [2]cutter{}
	o.raw = newRawTail(o.raw.max)
	return o.raw
}

// number tells the generation that was not known at its begin.
func (o *output) number(g watchdog.Generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.generation = g
}

// write takes in what was read of a stream. Only the sink can hold it up.
func (o *output) write(s Stream, chunk []byte, at time.Time) {
	o.inOrder(func() {
		o.raw.write(chunk)
		o.streams[s].cut(chunk, func(text string, cut bool) { o.add(s, text, cut, at) })
	})
}

// end takes in what never got its line break.
func (o *output) end(at time.Time) {
	o.inOrder(func() {
		for s := range o.streams {
			if rest := o.streams[s].rest; len(rest) > 0 {
				o.add(Stream(s), string(rest), false, at)
				o.streams[s].rest = nil
			}
		}
	})
}

// inOrder lets f add lines under the lock, and tells the sink of them after it.
func (o *output) inOrder(f func()) {
	o.order.Lock()
	defer o.order.Unlock()
	o.mu.Lock()
	f()
	o.mu.Unlock()
	for i := range o.fresh {
		o.sink(o.fresh[i])
	}
	clear(o.fresh)
	o.fresh = o.fresh[:0]
}

func (o *output) add(s Stream, text string, cut bool, at time.Time) {
	o.seq++
	l := Line{Seq: o.seq, At: at, Generation: o.generation, Stream: s, Text: strings.Clone(termtext.CleanLong(text)), Cut: cut}
	if s == Stderr && strings.TrimSpace(l.Text) != "" {
		o.lastErr = l.Text
	}
	if o.sink != nil {
		o.fresh = append(o.fresh, l)
	}
	cost := len(l.Text) + lineCost
	if o.dropped == 0 && o.tail.len() == 0 && o.used+cost <= o.max/8 {
		o.head = append(o.head, l)
		o.used += cost
		return
	}
	o.tail.push(l)
	for o.tail.len() > 1 && o.used+o.tail.bytes > o.max {
		o.tail.pop()
		o.dropped++
	}
}

// lines gives up to limit lines whose Seq is at least from, oldest first, or with
// a negative from the newest limit lines. What has not ended yet stands last.
func (o *output) lines(from int64, limit int) []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.head) + o.tail.len()
	at := func(i int) Line {
		if i < len(o.head) {
			return o.head[i]
		}
		return o.tail.at(i - len(o.head))
	}
	first := 0
	if from < 0 {
		first = max(0, n-limit)
	} else {
		for hi := n; first < hi; { // Seq ascends
			if mid := (first + hi) / 2; at(mid).Seq < from {
				first = mid + 1
			} else {
				hi = mid
			}
		}
	}
	out := make([]Line, 0, min(n-first, limit))
	for i := first; i < n && len(out) < limit; i++ {
		out = append(out, at(i))
	}
	for s := range o.streams {
		if rest := o.streams[s].rest; len(rest) > 0 && len(out) < limit {
			out = append(out, Line{Seq: o.seq + 1, At: time.Now(), Generation: o.generation, Stream: Stream(s),
				Text: termtext.CleanLong(string(rest)), Partial: true})
		}
	}
	return out
}

// last is the last line of stderr, cut to what fits in a status.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Clone(termtext.Clean(o.lastErr))
}

// lineRing is a queue of lines that knows its bytes.
type lineRing struct {
	lines []Line
	first int
	bytes int
}

func (r *lineRing) len() int      { return len(r.lines) - r.first }
func (r *lineRing) at(i int) Line { return r.lines[r.first+i] }

func (r *lineRing) push(l Line) {
	r.lines = append(r.lines, l)
	r.bytes += len(l.Text) + lineCost
}

func (r *lineRing) pop() {
	r.bytes -= len(r.lines[r.first].Text) + lineCost
	r.lines[r.first] = Line{}
	if r.first++; r.first > len(r.lines)/2 {
		n := copy(r.lines, r.lines[r.first:])
		clear(r.lines[n:])
		r.lines, r.first = r.lines[:n], 0
	}
}

// cutter cuts a stream into lines. LF, CR LF and CR end one: progress bars write
// the last.
type cutter struct {
	rest []byte
	cr   bool // the last byte was a CR: an LF that follows belongs to it
}

func (c *cutter) cut(chunk []byte, line func(text string, cut bool)) {
	for len(chunk) > 0 {
		if c.cr && chunk[0] == '\n' {
			chunk = chunk[1:]
		}
		c.cr = false
		i := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if i >= 0 {
			part = chunk[:i]
		}
		for len(c.rest)+len(part) > maxLine {
			n := maxLine - len(c.rest)
			line(string(c.rest)+string(part[:n]), true)
			c.rest, part = c.rest[:0], part[n:]
		}
		if i < 0 {
			c.rest = append(c.rest, part...)
			return
		}
		// An empty line that a CR ends is a cursor going home, and no line.
		if text := string(c.rest) + string(part); text != "" || chunk[i] == '\n' {
			line(text, false)
		}
		c.rest = c.rest[:0]
		c.cr = chunk[i] == '\r'
		chunk = chunk[i+1:]
	}
}

// rawTail keeps the newest bytes of one generation as they came. It grows as
// needed up to max.
type rawTail struct {
	mu    sync.Mutex
	max   int
	buf   []byte
	start int64 // position of buf[0]
}

func newRawTail(most int) *rawTail { return &rawTail{max: most} }

func (r *rawTail) write(chunk []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if over := len(chunk) - r.max; over > 0 {
		r.start += int64(len(r.buf) + over)
		r.buf, chunk = r.buf[:0], chunk[over:]
	}
	// Cut only when twice the bound is reached, so that a byte is moved once.
	if len(r.buf)+len(chunk) > 2*r.max {
		drop := len(r.buf) + len(chunk) - r.max
		n := copy(r.buf, r.buf[drop:])
		r.buf = r.buf[:n]
		r.start += int64(drop)
	}
	r.buf = append(r.buf, chunk...)
}

// Mark is the position behind the newest byte.
func (r *rawTail) Mark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start + int64(len(r.buf))
}

// Since copies what was written from position mark on and is still kept.
func (r *rawTail) Since(mark int64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := min(max(mark-r.start, int64(len(r.buf)-r.max), 0), int64(len(r.buf)))
	return bytes.Clone(r.buf[from:])
}
