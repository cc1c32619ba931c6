package terminal

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Time limits of the input filter. All are measured on the reader's own
// monotonic clock, between the arrivals of bytes.
const (
	// EscapeHold is how long a lone ESC waits for the rest of a sequence
	// before it counts as the Escape key.
	EscapeHold = 50 * time.Millisecond
	// SequenceHold is how long an unfinished sequence or rune may pause and
	// still be delivered whole.
	SequenceHold = 500 * time.Millisecond
	// EscapeEcho is how long after a lone ESC, and between its bytes, what
	// looks like the rest of its sequence is swallowed.
	EscapeEcho = time.Second
	// SequenceEcho is how long a sequence that was given up may pause and
	// still have its rest swallowed.
	SequenceEcho = 5 * time.Second
	// sequenceLife bounds a sequence from its first byte, so that one that
	// never ends cannot keep the keyboard.
	sequenceLife = 10 * time.Second
	// pasteDoubt is the silence inside a paste after which a single key is
	// taken for a person who wonders why nothing happens.
	pasteDoubt = time.Second
)

// Limits in bytes.
const (
	maxSequence   = 1024    // a longer one is swallowed
	maxParameters = 24      // of a CSI, likewise: decoders stop in the midst of more
	maxHead       = 48      // of an OSC, DCS or APC before its payload
	maxPaste      = 1 << 20 // what lies beyond is not passed on
	maxExpansion  = 5       // bytes out per byte in: a lone ESC becomes escapeKey
)

const (
	esc        = 0x1b
	escapeKey  = "\x1b[27u" // the Escape key, said so that no decoder waits for more
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Counts tells what the filter did not pass on, since it was made.
type Counts struct {
	Unfinished    uint64 // sequences and runes that were not finished in time
	Continuations uint64 // rests of a sequence whose ESC had counted as a key
	Malformed     uint64 // sequences and bytes that no terminal sends
	PasteBytes    uint64 // control bytes and overlong rests of pastes
	StuckPastes   uint64 // pastes that were ended because their end never came
}

// state is what the next byte will be read as.
type state uint8

const (
	ground   state = iota
	escape         // after ESC
	control        // CSI, from its bracket on
	function       // SS3
	legacy         // CSI [ and one letter: function keys of the Linux console
	report         // CSI M and three bytes: a mouse report of old
	command        // OSC, DCS or APC before its payload
	payload        // inside of it
	closing        // after an ESC in it
	multi          // inside a rune
	pasted         // inside a bracketed paste
)

// Filter is the pure part of the input reader: bytes in, whole keys and
// sequences out. It reads no clock; every call is told the time of arrival.
//
// What it gives out is cut only between keys, and holds no unfinished one, so
// a decoder behind it never has to guess what a pause means.
type Filter struct {
	state state
	pend  []byte    // the unfinished key or sequence, ESC included
	first time.Time // arrival of its first byte
	last  time.Time // arrival of the newest byte of all

	mute    bool // the sequence is swallowed when it ends
	echo    bool // and began without its ESC
	kind    byte // of a command: ']', 'P' or '_'
	lone    time.Time
	paste   pasteState
	asked   int // the row for which a cursor report is expected; 0 none
	column  int // what it said; 0 not yet
	heard   []question
	counted Counts
}

type pasteState struct {
	mute  bool
	size  int // bytes passed on
	match int // bytes of pasteEnd seen at the tail
}

// Counts tells what was not passed on so far.
func (f *Filter) Counts() Counts { return f.counted }

// Due is when Expire has something to say if nothing arrives before.
func (f *Filter) Due() (time.Time, bool) {
	return f.last.Add(EscapeHold), f.state == escape
}

// Reset forgets what is unfinished, as after a time in which someone else read
// the terminal.
func (f *Filter) Reset() {
	f.state, f.pend, f.mute, f.echo = ground, f.pend[:0], false, false
	f.lone, f.paste = time.Time{}, pasteState{}
}

// Feed takes bytes that arrived together at now, appends to dst what is
// complete, and returns it.
func (f *Filter) Feed(dst, in []byte, now time.Time) []byte {
	if len(in) == 0 {
		return dst
	}
	dst = f.Expire(dst, now)
	if f.state == pasted && now.Sub(f.last) >= pasteDoubt && singleKey(in) {
		return f.leavePaste(dst, in, now)
	}
	f.last = now
	for _, b := range in {
		dst = f.step(dst, b, now)
	}
	return dst
}

// Expire lets time pass: it gives up what has waited too long, and appends to
// dst the Escape key if that is what a lone ESC has become.
func (f *Filter) Expire(dst []byte, now time.Time) []byte {
	idle := now.Sub(f.last)
	switch f.state {
	case ground, pasted:
	case escape:
		if idle >= EscapeHold {
			f.lone = f.last
			f.settle()
			return append(dst, escapeKey...)
		}
	default:
		patience := SequenceEcho
		if f.echo {
			patience = EscapeEcho
		}
		if idle >= patience || now.Sub(f.first) >= sequenceLife || (f.state == multi && idle >= SequenceHold) {
			f.giveUp()
			f.settle()
		} else if idle >= SequenceHold {
			f.giveUp()
		}
	}
	return dst
}

// giveUp decides that the unfinished sequence will not be delivered.
func (f *Filter) giveUp() {
	if !f.mute {
		f.counted.Unfinished++
	}
	f.mute = true
}

// settle returns to the ground.
func (f *Filter) settle() {
	f.state, f.pend, f.mute, f.echo = ground, f.pend[:0], false, false
}

// begin starts a sequence with the bytes given.
func (f *Filter) begin(s state, now time.Time, head ...byte) {
	f.state, f.first = s, now
	f.pend = append(f.pend[:0], head...)
}

func (f *Filter) step(dst []byte, b byte, now time.Time) []byte {
	switch f.state {
	case escape:
		return f.afterEscape(dst, b, now)
	case control:
		return f.inControl(dst, b, now)
	case function:
		return f.inFunction(dst, b, now)
	case legacy:
		return f.inLegacy(dst, b, now)
	case report:
		return f.inReport(dst, b, now)
	case command:
		return f.inCommand(dst, b, now)
	case payload:
		return f.inPayload(dst, b, now)
	case closing:
		return f.inClosing(dst, b, now)
	case multi:
		return f.inRune(dst, b, now)
	case pasted:
		return f.inPaste(dst, b)
	}
	return f.onGround(dst, b, now)
}

func (f *Filter) onGround(dst []byte, b byte, now time.Time) []byte {
	recent := !f.lone.IsZero() && now.Sub(f.lone) < EscapeEcho
	f.lone = time.Time{}
	if recent && f.open(b, now) {
		f.mute, f.echo = true, true
		f.counted.Continuations++
		return dst
	}
	switch {
	case b == esc:
		f.begin(escape, now, b)
	case b < utf8.RuneSelf:
		dst = append(dst, b)
	case runeLength(b) > 0:
		f.begin(multi, now, b)
	default:
		f.counted.Malformed++
	}
	return dst
}

// open begins the sequence that ESC and b introduce, if they introduce one.
func (f *Filter) open(b byte, now time.Time) bool {
	switch b {
	case '[':
		f.begin(control, now, esc, b)
	case 'O':
		f.begin(function, now, esc, b)
	case ']', 'P', '_':
		f.kind = b
		f.begin(command, now, esc, b)
	default:
		return false
	}
	return true
}

func (f *Filter) afterEscape(dst []byte, b byte, now time.Time) []byte {
	switch {
	case f.open(b, now):
	case b == esc: // the Escape key, and what follows is still open
		f.begin(escape, now, b)
		dst = append(dst, escapeKey...)
	case b < utf8.RuneSelf: // alt and a key
		f.settle()
		dst = append(dst, esc, b)
	case runeLength(b) > 0:
		f.begin(multi, now, esc, b)
	default:
		f.settle()
		f.counted.Malformed++
		dst = append(dst, escapeKey...)
	}
	return dst
}

// reject gives up a sequence at a byte that cannot belong to it and reads that
// byte anew: ctrl+c works even in the middle of one.
func (f *Filter) reject(dst []byte, b byte, now time.Time) []byte {
	if !f.mute {
		f.counted.Malformed++
	}
	f.settle()
	return f.step(dst, b, now)
}

func (f *Filter) inControl(dst []byte, b byte, now time.Time) []byte {
	switch {
	case b < 0x20 || b >= 0x7f:
		return f.reject(dst, b, now)
	case b == '[' && len(f.pend) == 2:
		f.pend = append(f.pend, b)
		f.state = legacy
	case b == 'M' && len(f.pend) == 2:
		f.pend = append(f.pend, b)
		f.state = report
	case b < 0x40:
		newest := f.pend[len(f.pend)-1]
		if disorder := b >= 0x30 && newest >= 0x20 && newest < 0x30; disorder || len(f.pend) >= maxSequence {
			f.swallow()
		}
		if len(f.pend) < maxSequence {
			f.pend = append(f.pend, b)
		}
	default:
		f.pend = append(f.pend, b)
		return f.endControl(dst)
	}
	return dst
}

// swallow goes on to the end of a sequence that is not worth delivering.
func (f *Filter) swallow() {
	if !f.mute {
		f.counted.Malformed++
	}
	f.mute = true
}

func (f *Filter) endControl(dst []byte) []byte {
	switch {
	case string(f.pend) == pasteStart:
		f.paste = pasteState{mute: f.mute}
		if !f.mute {
			dst = append(dst, pasteStart...)
		}
		f.settle()
		f.state = pasted
		return dst
	case string(f.pend) == pasteEnd: // of a paste that is over already
		f.swallow()
	case f.asked > 0 && f.isReport():
		f.hear()
		f.settle()
		return dst
	case bytes.Count(f.pend, []byte{';'})+bytes.Count(f.pend, []byte{':'}) > maxParameters:
		f.swallow()
	}
	return f.finish(dst)
}

// answers are the questions whose answers have been fed since the last call.
func (f *Filter) answers() []question {
	heard := f.heard
	f.heard = nil
	return heard
}

// AwaitColumn makes the filter keep the next report of a cursor in that row
// (CSI row ; column R), which is then given by Column.
func (f *Filter) AwaitColumn(row int) { f.asked, f.column = row, 0 }

// Column is the column of the report that was awaited, once; 0 if it has not
// come.
func (f *Filter) Column() int {
	c := f.column
	f.column = 0
	return c
}

// isReport reports whether the finished sequence is the report that is
// awaited, and keeps what it says.
func (f *Filter) isReport() bool {
	body, ok := bytes.CutPrefix(f.pend, fmt.Appendf(nil, "\x1b[%d;", f.asked))
	if !ok || !bytes.HasSuffix(body, []byte{'R'}) {
		return false
	}
	n, err := strconv.Atoi(string(body[:len(body)-1]))
	if err != nil || n < 1 {
		return false
	}
	f.asked, f.column = 0, n
	return true
}

// hear notes whether the finished sequence is an answer, be it delivered or not.
func (f *Filter) hear() {
	if what := answers(f.pend); what != noQuestion {
		f.heard = append(f.heard, what)
	}
}

// finish delivers the finished sequence, unless it is to be swallowed.
func (f *Filter) finish(dst []byte) []byte {
	f.hear()
	if !f.mute {
		dst = append(dst, f.pend...)
	}
	f.settle()
	return dst
}

func (f *Filter) inFunction(dst []byte, b byte, now time.Time) []byte {
	if b <= 0x20 || b >= 0x7f || len(f.pend) > 8 {
		return f.reject(dst, b, now)
	}
	f.pend = append(f.pend, b)
	if b >= '0' && b <= '9' {
		return dst
	}
	return f.finish(dst)
}

// inLegacy rewrites the Linux console's F1 to F5 in the common form, which
// decoders also find in the midst of other keys.
func (f *Filter) inLegacy(dst []byte, b byte, now time.Time) []byte {
	if b < 0x20 || b >= 0x7f {
		return f.reject(dst, b, now)
	}
	if b < 'A' || b > 'E' {
		f.swallow()
	}
	f.pend = append(f.pend[:2], '1', '1'+b-'A', '~')
	return f.finish(dst)
}

func (f *Filter) inReport(dst []byte, b byte, now time.Time) []byte {
	if b < 0x20 {
		return f.reject(dst, b, now)
	}
	f.pend = append(f.pend, b)
	if len(f.pend) < 6 {
		return dst
	}
	return f.finish(dst)
}

// inCommand reads the head of an OSC, DCS or APC strictly: a person who types
// alt+] and a letter is told from a terminal that answers.
func (f *Filter) inCommand(dst []byte, b byte, now time.Time) []byte {
	digit := b >= '0' && b <= '9'
	ready := false
	switch f.kind {
	case ']':
		if ready = b == ';' && len(f.pend) > 2; !ready && !digit {
			return f.reject(dst, b, now)
		}
	case 'P':
		if ready = b == 'r' || b == '|' || b == 'q'; !ready && (b < 0x20 || b > 0x3f) {
			return f.reject(dst, b, now)
		}
	default:
		if ready = b == 'G'; !ready {
			return f.reject(dst, b, now)
		}
	}
	f.pend = append(f.pend, b)
	if ready {
		f.state = payload
	} else if len(f.pend) > maxHead {
		return f.reject(dst, b, now)
	}
	return dst
}

func (f *Filter) inPayload(dst []byte, b byte, now time.Time) []byte {
	switch {
	case b == esc:
		f.state = closing
		return dst
	case b == '\a' && f.kind == ']':
		f.pend = append(f.pend, b)
		return f.finish(dst)
	case b < 0x20 || b == 0x7f:
		return f.reject(dst, b, now)
	case b >= utf8.RuneSelf: // a decoder may take a byte of a rune for the end
		f.swallow()
	case len(f.pend) < maxSequence:
		f.pend = append(f.pend, b)
	default:
		f.swallow()
	}
	return dst
}

func (f *Filter) inClosing(dst []byte, b byte, now time.Time) []byte {
	if b == '\\' {
		f.pend = append(f.pend, esc, b)
		return f.finish(dst)
	}
	f.swallow()
	f.settle()
	f.begin(escape, now, esc)
	return f.step(dst, b, now)
}

func (f *Filter) inRune(dst []byte, b byte, now time.Time) []byte {
	if b&0xc0 != 0x80 {
		return f.reject(dst, b, now)
	}
	f.pend = append(f.pend, b)
	body := bytes.TrimPrefix(f.pend, []byte{esc})
	if len(body) < runeLength(body[0]) {
		return dst
	}
	if !utf8.Valid(body) {
		f.swallow()
	}
	return f.finish(dst)
}

// runeLength is how many bytes a rune has that begins with b; 0 none does.
func runeLength(b byte) int {
	switch {
	case b >= 0xc2 && b < 0xe0:
		return 2
	case b >= 0xe0 && b < 0xf0:
		return 3
	case b >= 0xf0 && b < 0xf5:
		return 4
	}
	return 0
}
