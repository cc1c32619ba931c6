package wire

import (
	"math"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Limits of a beat.
const (
	MaxBeatBytes = 16 << 10
	MaxDepth     = 32 // levels of objects and arrays, the beat's own object included

	// MaxAge is the oldest that a beat can say something to be: what is older is
	// a point in time, or nonsense, and no age. MaxDeclared bounds what it says of
	// its own settings; longer ones mean for ever, and are cut down to it.
	MaxAge      = 5 * 365 * 24 * time.Hour
	MaxDeclared = 365 * 24 * time.Hour
)

// DecodeBeat reads the beat that arrived for the session id: what follows the
// prefix of its subject or key. It sets every field of b but Source, Received,
// AgeKind and Age, which are the caller's. The slices of b share the bytes of
// payload where they can, so payload must not change while b is in use.
//
// The error is a watchdog.Refusal, by the order of the package comment; b then
// holds nothing of use. Beats of the usual shape cost no allocation.
func DecodeBeat[T ~string | ~[]byte](b *watchdog.Beat, id T, payload []byte) error {
	clear(b)
	if len(payload) > MaxBeatBytes {
		return watchdog.RefusedSize
	}
	d := decoder{scanner: scanner{src: payload}, beat: b}
	if !d.object() {
		return d.why
	}
	switch {
	case d.duplicate:
		return watchdog.RefusedDuplicate
	case !d.mistyped(fieldID) && (b.ID == nil || string(b.ID) != string(id) || !ValidID(b.ID)):
		return watchdog.RefusedID
	case !d.mistyped(fieldState) && b.StateText == nil:
		return watchdog.RefusedState
	case d.wrong != 0:
		return watchdog.RefusedType
	case d.outOfRange:
		return watchdog.RefusedRange
	}
	return nil
}

// clear is Reset without what is the caller's.
func clear(b *watchdog.Beat) {
	source, received, ageKind, age := b.Source, b.Received, b.AgeKind, b.Age
	*b = watchdog.Beat{}
	b.Source, b.Received, b.AgeKind, b.Age = source, received, ageKind, age
	b.Uptime, b.Credits, b.Seq, b.Idle, b.LoopLag = -1, math.NaN(), -1, -1, -1
}

// decoder reads one beat.
type decoder struct {
	scanner
	beat       *watchdog.Beat
	token      token
	seen       uint32 // one bit for each field
	wrong      uint32 // likewise: required fields of another type
	duplicate  bool
	outOfRange bool
}

func (d *decoder) mistyped(f field) bool { return d.wrong&(1<<f) != 0 }

// object reads the whole payload.
func (d *decoder) object() bool {
	if d.space() != '{' {
		return d.fail(watchdog.RefusedJSON)
	}
	d.pos++
	if d.space() == '}' {
		d.pos++
		return d.end()
	}
	for next := fieldID; ; {
		f, ok := d.name(next)
		if !ok || !d.colon() || !d.value(&d.token) {
			return false
		}
		if f < fieldCount {
			d.take(f)
			next = f + 1
		}
		c := d.space()
		d.pos++
		if c == '}' {
			return d.end()
		}
		if c != ',' {
			return d.fail(watchdog.RefusedJSON)
		}
		d.space()
	}
}

// end makes sure that nothing follows the object.
func (d *decoder) end() bool {
	if d.space(); d.pos < len(d.src) {
		return d.fail(watchdog.RefusedJSON)
	}
	return true
}

// name reads the name of a field. Producers keep an order, mostly ours, so the
// field behind the last known one is tried first.
func (d *decoder) name(next field) (field, bool) {
	src, i := d.src, d.pos
	if i >= len(src) || src[i] != '"' {
		return 0, d.fail(watchdog.RefusedJSON)
	}
	if next < fieldCount {
		known := fieldNames[next]
		if end := i + 1 + len(known); end < len(src) && src[end] == '"' && string(src[i+1:end]) == known {
			d.pos = end + 1
			return next, true
		}
	}
	if !d.text(&d.token) {
		return 0, false
	}
	name := src[d.token.start:d.token.end]
	if d.token.escaped {
		name = unquote(name)
	}
	return fieldOf(name), true
}

// take puts the scanned value into its field.
func (d *decoder) take(f field) {
	if d.seen&(1<<f) != 0 {
		d.duplicate = true
		return
	}
	d.seen |= 1 << f
	if d.token.kind == kindNull {
		return
	}
	ok := false
	switch f {
	case fieldUptime, fieldCredits, fieldGeneration, fieldSeq, fieldPID,
		fieldIdle, fieldInterval, fieldStallTimeout, fieldWaitingMax, fieldLoopLag:
		ok = d.token.kind == kindNumber && d.takeNumber(f)
	case fieldCommands:
		ok = d.token.kind == kindArray && d.takeCommands()
	default:
		ok = d.token.kind == kindText && d.takeText(f)
	}
	switch {
	case ok:
	case f.optional():
		d.beat.Dropped++
	default:
		d.wrong |= 1 << f
	}
}

// takeText reports whether the scanned text may stand in f.
func (d *decoder) takeText(f field) bool {
	b := d.beat
	text := d.src[d.token.start:d.token.end:d.token.end]
	if d.token.escaped {
		text = unquote(text)
	}
	if f == fieldID {
		b.ID = text // compared as it is: cleaning must not make it fit
		return true
	}
	if !d.token.plain || len(text) > termtext.MaxGraphemes {
		text = termtext.Clean(text)
	}
	switch f {
	case fieldState:
		b.StateText, b.State = text, watchdog.StateOf(text)
	case fieldTask:
		b.Task = text
	case fieldBootID:
		if len(text) == 0 {
			return false
		}
		b.BootID = text
	case fieldWaitingFor:
		wait, ok := watchdog.WaitOf(text)
		if !ok {
			return false
		}
		b.WaitingFor = wait
	case fieldAgent:
		b.Agent = text
	case fieldHost:
		b.Host = text
	case fieldMessage:
		b.Message = text
	}
	return true
}

// takeCommands reports whether the scanned array is of texts. Words that are not
// known are of a newer version.
func (d *decoder) takeCommands() bool {
	list := scanner{src: d.src[:d.token.end], pos: d.token.start}
	var (
		takes watchdog.OpSet
		t     token
	)
	for list.space() != 0 { // it was scanned before, so it is well formed
		if !list.value(&t) || t.kind != kindText {
			return false
		}
		word := list.src[t.start:t.end]
		if t.escaped {
			word = unquote(word)
		}
		takes |= opOf(word)
		list.space()
		list.pos++ // the comma, or beyond the end
	}
	d.beat.Takes, d.beat.TakesSaid = takes, true
	return true
}

// opOf is the set of the op of a word; empty if it is not known.
func opOf(word []byte) watchdog.OpSet {
	switch watchdog.Op(word) {
	case watchdog.OpStop:
		return watchdog.OpSetOf(watchdog.OpStop)
	case watchdog.OpKill:
		return watchdog.OpSetOf(watchdog.OpKill)
	case watchdog.OpExpire:
		return watchdog.OpSetOf(watchdog.OpExpire)
	case watchdog.OpRestart:
		return watchdog.OpSetOf(watchdog.OpRestart)
	case watchdog.OpDump:
		return watchdog.OpSetOf(watchdog.OpDump)
	}
	return 0
}

// takeNumber reports whether the scanned number may stand in f. A required one
// out of range is told apart from one of the wrong type.
func (d *decoder) takeNumber(f field) bool {
	b, n := d.beat, &d.token.number
	switch f {
	case fieldCredits:
		if credits, ok := n.float(d.digits()); ok {
			b.Credits = credits
		}
		return true
	case fieldUptime:
		uptime, _, ok := n.scaled(d.digits(), 0)
		if d.outOfRange = n.negative || !ok; !d.outOfRange {
			b.Uptime = uptime
		}
		return true
	case fieldGeneration:
		v, ok := d.whole(1)
		if ok = ok && v <= math.MaxUint32; ok {
			b.Generation = watchdog.Generation(v)
		}
		return ok
	case fieldSeq:
		return d.takeWhole(&b.Seq, 0)
	case fieldPID:
		return d.takeWhole(&b.PID, 1)
	case fieldIdle:
		return d.takeAge(&b.Idle, seconds)
	case fieldInterval:
		return d.takeDeclared(&b.Interval)
	case fieldStallTimeout:
		return d.takeDeclared(&b.StallTimeout)
	case fieldWaitingMax:
		return d.takeDeclared(&b.WaitingMax)
	case fieldLoopLag:
		return d.takeAge(&b.LoopLag, milliseconds)
	}
	return false
}

// digits is the spelling of the scanned number.
func (d *decoder) digits() []byte { return d.src[d.token.start:d.token.end] }

// whole is the scanned number if it is an integer of at least least.
func (d *decoder) whole(least int64) (v int64, ok bool) {
	n := &d.token.number
	if n.negative {
		return 0, false
	}
	v, exact, ok := n.scaled(d.digits(), 0)
	return v, ok && exact && v >= least
}

func (d *decoder) takeWhole(into *int64, least int64) bool {
	v, ok := d.whole(least)
	if ok {
		*into = v
	}
	return ok
}

// Powers of ten that turn a unit into nanoseconds.
const (
	seconds      = 9
	milliseconds = 6
)

// takeAge reads an age, 0 or more and MaxAge at most.
func (d *decoder) takeAge(into *time.Duration, unit int) bool {
	v, _, ok := d.duration(unit)
	if !ok || v > MaxAge {
		return false
	}
	*into = v
	return true
}

// takeDeclared reads a setting, above 0: what is smaller than a nanosecond is
// rounded up to it.
func (d *decoder) takeDeclared(into *time.Duration) bool {
	v, exact, ok := d.duration(seconds)
	if !ok || v == 0 && exact {
		return false
	}
	*into = min(max(v, 1), MaxDeclared)
	return true
}

// duration is the scanned number in a unit, the longest there is if it is longer;
// ok is false below 0, and beyond a float64.
func (d *decoder) duration(unit int) (v time.Duration, exact, ok bool) {
	n := &d.token.number
	if n.negative {
		return 0, false, false
	}
	if !n.short {
		if _, ok := n.float(d.digits()); !ok {
			return 0, false, false
		}
	}
	nanos, exact, fits := n.scaled(d.digits(), unit)
	if !fits {
		nanos = math.MaxInt64
	}
	return time.Duration(nanos), exact, true
}
