package wire

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// The oracle is a second reader of beats that shares no code with the first:
// slow, recursive, building a whole tree, numbers as fractions of any size.

type member struct {
	name  string
	value any
}

// A tree is nil (null, NaN and their like), bool, string (text), numeral,
// []any or []member.
type numeral string

type oracle struct {
	src string
	pos int
}

// refuse leaves the oracle by panic, so that its grammar reads like one.
func refuse(r watchdog.Refusal) { panic(r) }

func (o *oracle) space() {
	for o.pos < len(o.src) && strings.ContainsRune(" \t\r\n", rune(o.src[o.pos])) {
		o.pos++
	}
}

func (o *oracle) take(word string) bool {
	if strings.HasPrefix(o.src[o.pos:], word) {
		o.pos += len(word)
		return true
	}
	return false
}

func (o *oracle) must(word string) {
	if !o.take(word) {
		refuse(watchdog.RefusedJSON)
	}
}

func (o *oracle) value(depth int) any {
	for word, v := range map[string]any{"null": nil, "NaN": nil, "Infinity": nil, "-Infinity": nil, "true": true, "false": false} {
		if o.take(word) {
			return v
		}
	}
	switch {
	case strings.HasPrefix(o.src[o.pos:], `"`):
		return o.text()
	case strings.HasPrefix(o.src[o.pos:], "{"):
		return o.object(depth + 1)
	case strings.HasPrefix(o.src[o.pos:], "["):
		return o.array(depth + 1)
	}
	return o.numeral()
}

func (o *oracle) object(depth int) []member {
	if depth > 32 {
		refuse(watchdog.RefusedDepth)
	}
	members := []member{}
	o.must("{")
	o.space()
	if o.take("}") {
		return members
	}
	for {
		name := o.text()
		o.space()
		o.must(":")
		o.space()
		members = append(members, member{name, o.value(depth)})
		o.space()
		if o.take("}") {
			return members
		}
		o.must(",")
		o.space()
	}
}

func (o *oracle) array(depth int) []any {
	if depth > 32 {
		refuse(watchdog.RefusedDepth)
	}
	items := []any{}
	o.must("[")
	o.space()
	if o.take("]") {
		return items
	}
	for {
		items = append(items, o.value(depth))
		o.space()
		if o.take("]") {
			return items
		}
		o.must(",")
		o.space()
	}
}

func (o *oracle) text() string {
	o.must(`"`)
	var out []rune // raw bytes beyond UTF-8 are kept as -1-byte
	for {
		if o.pos >= len(o.src) || o.src[o.pos] < 0x20 {
			refuse(watchdog.RefusedJSON)
		}
		if o.take(`"`) {
			break
		}
		if o.take(`\`) {
			out = append(out, o.escape())
			continue
		}
		r, size := utf8.DecodeRuneInString(o.src[o.pos:])
		if r == utf8.RuneError && size == 1 {
			r = -1 - rune(o.src[o.pos])
		}
		out = append(out, r)
		o.pos += size
	}
	var s strings.Builder
	for i := 0; i < len(out); i++ {
		switch r := out[i]; {
		case r < 0:
			s.WriteByte(byte(-1 - r))
		case utf16.IsSurrogate(r):
			if i+1 < len(out) {
				if pair := utf16.DecodeRune(r, out[i+1]); pair != utf8.RuneError {
					s.WriteRune(pair)
					i++
					continue
				}
			}
			s.WriteRune(utf8.RuneError)
		default:
			s.WriteRune(r)
		}
	}
	return s.String()
}

func (o *oracle) escape() rune {
	for letter, r := range map[string]rune{`"`: '"', `\`: '\\', "/": '/', "b": '\b', "f": '\f', "n": '\n', "r": '\r', "t": '\t'} {
		if o.take(letter) {
			return r
		}
	}
	o.must("u")
	if len(o.src)-o.pos < 4 {
		refuse(watchdog.RefusedJSON)
	}
	v, err := strconv.ParseUint(o.src[o.pos:o.pos+4], 16, 16)
	if err != nil || strings.ContainsAny(o.src[o.pos:o.pos+4], "+-_") {
		refuse(watchdog.RefusedJSON)
	}
	o.pos += 4
	return rune(v)
}

func (o *oracle) digits() {
	start := o.pos
	for o.pos < len(o.src) && o.src[o.pos] >= '0' && o.src[o.pos] <= '9' {
		o.pos++
	}
	if o.pos == start {
		refuse(watchdog.RefusedJSON)
	}
}

func (o *oracle) numeral() numeral {
	start := o.pos
	o.take("-")
	if !o.take("0") {
		o.digits()
	}
	if o.take(".") {
		o.digits()
	}
	if o.take("e") || o.take("E") {
		if !o.take("+") {
			o.take("-")
		}
		o.digits()
	}
	return numeral(o.src[start:o.pos])
}

// rat is the exact value; exponents that no double can hold are cut down, which
// changes no answer.
func (n numeral) rat() *big.Rat {
	mantissa, exponent, found := strings.Cut(strings.ToLower(string(n)), "e")
	r, ok := new(big.Rat).SetString(mantissa)
	if !ok {
		panic("oracle: " + n)
	}
	if !found {
		return r
	}
	e, ok := new(big.Int).SetString(exponent, 10)
	if !ok {
		panic("oracle: " + n)
	}
	const most = 2 * MaxBeatBytes
	if e.CmpAbs(big.NewInt(most)) > 0 {
		e = big.NewInt(int64(most * e.Sign()))
	}
	power := new(big.Int).Exp(big.NewInt(10), new(big.Int).Abs(e), nil)
	if e.Sign() < 0 {
		return r.Quo(r, new(big.Rat).SetInt(power))
	}
	return r.Mul(r, new(big.Rat).SetInt(power))
}

// read is the whole rule, written down a second time.
func (o *oracle) read(id string) (b watchdog.Beat, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case watchdog.Refusal:
			err = r
		default:
			panic(r)
		}
	}()
	b.Reset()
	if len(o.src) > 16384 {
		refuse(watchdog.RefusedSize)
	}
	o.space()
	members := o.object(1)
	o.space()
	if o.pos != len(o.src) {
		refuse(watchdog.RefusedJSON)
	}
	known := " session_id state uptime_secs credits_remaining current_task generation boot_id seq idle_secs heartbeat_interval_secs" +
		" stall_timeout_secs waiting_for waiting_max_secs loop_lag_ms agent_id host pid message commands "
	fields := map[string]any{}
	for _, m := range members {
		if m.name == "" || strings.Contains(m.name, " ") || !strings.Contains(known, " "+m.name+" ") {
			continue
		}
		if _, twice := fields[m.name]; twice {
			refuse(watchdog.RefusedDuplicate)
		}
		fields[m.name] = m.value
	}
	o.five(&b, fields, id)
	o.optional(&b, fields)
	return b, nil
}

func (o *oracle) five(b *watchdog.Beat, fields map[string]any, id string) {
	var mistyped bool
	text := func(name string) (string, bool) {
		v := fields[name]
		s, ok := v.(string)
		mistyped = mistyped || v != nil && !ok
		return s, v != nil
	}
	got, given := text("session_id")
	if !mistyped && (!given || got != id || !oracleID(id)) {
		refuse(watchdog.RefusedID)
	}
	b.ID = []byte(got)
	noIDType := mistyped
	mistyped = false
	state, given := text("state")
	if !given {
		refuse(watchdog.RefusedState)
	}
	mistyped = mistyped || noIDType
	b.StateText = []byte(termtext.Clean(state))
	b.State = watchdog.StateOf(b.StateText)
	if task, given := text("current_task"); given {
		b.Task = []byte(termtext.Clean(task))
	}
	for _, name := range []string{"uptime_secs", "credits_remaining"} {
		_, number := fields[name].(numeral)
		mistyped = mistyped || fields[name] != nil && !number
	}
	if mistyped {
		refuse(watchdog.RefusedType)
	}
	if n, ok := fields["credits_remaining"].(numeral); ok {
		if f, err := strconv.ParseFloat(string(n), 64); err == nil {
			b.Credits = f
			if f == 0 {
				b.Credits = 0 // never -0
			}
		}
	}
	if n, ok := fields["uptime_secs"].(numeral); ok {
		r := n.rat()
		floor := new(big.Int).Div(r.Num(), r.Denom())
		if floor.Sign() < 0 || !floor.IsInt64() {
			refuse(watchdog.RefusedRange)
		}
		b.Uptime = floor.Int64()
	}
}

// oracleID is ValidID, rune by rune.
func oracleID(id string) bool {
	if id == "" || len(id) > 256 || !utf8.ValidString(id) || termtext.Clean(id) != id || len([]rune(id)) > 512 {
		return false
	}
	for _, token := range strings.Split(id, ".") {
		if token == "" {
			return false
		}
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("*>{}", r) || unicode.Is(unicode.Variation_Selector, r)
	}) < 0
}

func (o *oracle) optional(b *watchdog.Beat, fields map[string]any) {
	try := func(name string, read func(v any) bool) {
		if v := fields[name]; v != nil && !read(v) {
			b.Dropped++
		}
	}
	text := func(name string, into *[]byte, empty bool) {
		try(name, func(v any) bool {
			s, ok := v.(string)
			s = termtext.Clean(s)
			if !ok || s == "" && !empty {
				return false
			}
			*into = []byte(s)
			return true
		})
	}
	whole := func(name string, least, most int64, set func(int64)) {
		try(name, func(v any) bool {
			n, ok := v.(numeral)
			if !ok {
				return false
			}
			r := n.rat()
			if !r.IsInt() || r.Cmp(new(big.Rat).SetInt64(least)) < 0 || r.Cmp(new(big.Rat).SetInt64(most)) > 0 {
				return false
			}
			set(r.Num().Int64())
			return true
		})
	}
	duration := func(name string, unit time.Duration, above bool, most time.Duration, into *time.Duration) {
		try(name, func(v any) bool {
			n, ok := v.(numeral)
			if !ok {
				return false
			}
			r := n.rat()
			if f, _ := r.Float64(); r.Sign() < 0 || r.Sign() == 0 && above || math.IsInf(f, 0) {
				return false
			}
			r.Mul(r, new(big.Rat).SetInt64(int64(unit)))
			floor := new(big.Int).Div(r.Num(), r.Denom())
			switch {
			case floor.Cmp(big.NewInt(int64(most))) > 0 && !above:
				return false // no age
			case floor.Cmp(big.NewInt(int64(most))) > 0:
				*into = most
			case floor.Sign() == 0 && above:
				*into = 1
			default:
				*into = time.Duration(floor.Int64())
			}
			return true
		})
	}
	whole("generation", 1, math.MaxUint32, func(v int64) { b.Generation = watchdog.Generation(v) })
	text("boot_id", &b.BootID, false)
	whole("seq", 0, math.MaxInt64, func(v int64) { b.Seq = v })
	whole("pid", 1, math.MaxInt64, func(v int64) { b.PID = v })
	duration("idle_secs", time.Second, false, MaxAge, &b.Idle)
	duration("loop_lag_ms", time.Millisecond, false, MaxAge, &b.LoopLag)
	duration("heartbeat_interval_secs", time.Second, true, MaxDeclared, &b.Interval)
	duration("stall_timeout_secs", time.Second, true, MaxDeclared, &b.StallTimeout)
	duration("waiting_max_secs", time.Second, true, MaxDeclared, &b.WaitingMax)
	text("agent_id", &b.Agent, true)
	text("host", &b.Host, true)
	text("message", &b.Message, true)
	try("commands", func(v any) bool {
		list, ok := v.([]any)
		var ops []watchdog.Op
		for _, item := range list {
			word, isText := item.(string)
			ok = ok && isText
			ops = append(ops, watchdog.Op(word))
		}
		if ok {
			b.Takes, b.TakesSaid = watchdog.OpSetOf(ops...), true
		}
		return ok
	})
	try("waiting_for", func(v any) bool {
		word, _ := v.(string)
		b.WaitingFor = map[string]watchdog.Wait{
			"human": watchdog.WaitHuman, "tool": watchdog.WaitTool, "rate_limit": watchdog.WaitRateLimit, "other": watchdog.WaitOther,
		}[word]
		return b.WaitingFor != watchdog.WaitNone
	})
}

// differ says how two readings of one payload differ; empty if they do not.
func differ(id string, payload []byte) string {
	var fast watchdog.Beat
	fastErr := DecodeBeat(&fast, id, payload)
	slow, slowErr := (&oracle{src: string(payload)}).read(id)
	if fastErr != slowErr {
		return fmt.Sprintf("%q for %q: %v, the oracle says %v", payload, id, fastErr, slowErr)
	}
	if fastErr != nil {
		return ""
	}
	// Bit for bit, so that NaN is itself and -0 is not 0.
	fastCredits, slowCredits := math.Float64bits(fast.Credits), math.Float64bits(slow.Credits)
	fast.Credits, slow.Credits = 0, 0
	f, s := fmt.Sprintf("%#v", fast), fmt.Sprintf("%#v", slow)
	if f != s || fastCredits != slowCredits {
		return fmt.Sprintf("%q for %q:\n fast %s %x\n slow %s %x", payload, id, f, fastCredits, s, slowCredits)
	}
	return ""
}
