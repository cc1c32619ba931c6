package recording

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// maxSpan bounds every duration and clock reading that is read from a file: 36
// years, far from what would overflow when added.
const maxSpan = time.Duration(1) << 60

// maxElements bounds a list inside one entry.
const maxElements = 10_000

// codec turns the structs of the watchdog package into JSON and back by their
// fields, so that a new field needs no line here. Names are snake case, zero
// values are left out, and enumerations are words: a renumbered constant does
// not change what an old recording means.
type codec struct {
	words map[reflect.Type][]string // by value; "" is not written and not read
	text  func(string) string       // makes text from a file safe
	id    func(string) (watchdog.ID, bool)
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	instantType  = reflect.TypeFor[watchdog.Instant]()
	timeType     = reflect.TypeFor[time.Time]()
	idType       = reflect.TypeFor[watchdog.ID]()
)

// wordsOf lists the words of an enumeration whose values count up from 0.
func wordsOf[T fmt.Stringer](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

func (c *codec) append(dst []byte, v reflect.Value) ([]byte, error) {
	switch v.Type() {
	case instantType:
		return appendInstant(dst, v.Interface().(watchdog.Instant)), nil
	case durationType:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case timeType:
		dst = append(dst, '"')
		dst = v.Interface().(time.Time).UTC().AppendFormat(dst, time.RFC3339Nano)
		return append(dst, '"'), nil
	}
	if words, ok := c.words[v.Type()]; ok {
		n := v.Uint()
		if n >= uint64(len(words)) {
			return dst, fmt.Errorf("%s has no word for %d", v.Type(), n)
		}
		return appendString(dst, words[n]), nil
	}
	switch v.Kind() {
	case reflect.String:
		return appendString(dst, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if isEnumeration(v.Type()) {
			return dst, fmt.Errorf("%s has no words; add them to the codec", v.Type())
		}
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return append(dst, "null"...), nil
		}
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 64), nil
	case reflect.Slice, reflect.Array:
		return c.appendList(dst, v)
	case reflect.Struct:
		return c.appendStruct(dst, v)
	case reflect.Pointer: // nil ones are left out
		return c.append(dst, v.Elem())
	}
	return dst, fmt.Errorf("cannot record a %s", v.Type())
}

// isEnumeration holds for small named integers that speak in words.
func isEnumeration(t reflect.Type) bool {
	return t.PkgPath() != "" && t.Implements(reflect.TypeFor[fmt.Stringer]())
}

func (c *codec) appendList(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = c.append(dst, v.Index(i)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (c *codec) appendStruct(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendString(dst, snake(v.Type().Field(i).Name)), ':')
		var err error
		if dst, err = c.append(dst, v.Field(i)); err != nil {
			return dst, fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
		}
	}
	return append(dst, '}'), nil
}

func (c *codec) read(data []byte, v reflect.Value) error {
	switch v.Type() {
	case instantType:
		at, err := readInstant(data)
		v.Set(reflect.ValueOf(at))
		return err
	case durationType:
		d, err := readSpan(data)
		v.SetInt(int64(d))
		return err
	case idType:
		return c.readID(data, v)
	case timeType:
		at, err := readTime(data)
		v.Set(reflect.ValueOf(at))
		return err
	}
	if words, ok := c.words[v.Type()]; ok {
		return readWord(data, words, v)
	}
	switch v.Kind() {
	case reflect.String:
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return errShape
		}
		v.SetString(c.text(s))
		return nil
	case reflect.Bool, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if err := json.Unmarshal(data, v.Addr().Interface()); err != nil {
			return errShape
		}
		return nil
	case reflect.Slice, reflect.Array:
		return c.readList(data, v)
	case reflect.Struct:
		return c.readStruct(data, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return c.read(data, v.Elem())
	}
	return fmt.Errorf("cannot read a %s", v.Type())
}

func (c *codec) readID(data []byte, v reflect.Value) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return errShape
	}
	id, ok := c.id(s)
	if !ok {
		return fmt.Errorf("%q is not a session id", c.text(s))
	}
	v.SetString(string(id))
	return nil
}

func readWord(data []byte, words []string, v reflect.Value) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return errShape
	}
	for i, w := range words {
		if w == s {
			v.SetUint(uint64(i))
			return nil
		}
	}
	return fmt.Errorf("%.40q is not one of %s", s, strings.Join(words, ", "))
}

func (c *codec) readList(data []byte, v reflect.Value) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return errShape
	}
	if v.Kind() == reflect.Slice {
		if len(raw) > maxElements {
			return fmt.Errorf("a list of %d is longer than %d", len(raw), maxElements)
		}
		v.Set(reflect.MakeSlice(v.Type(), len(raw), len(raw)))
	} else if len(raw) > v.Len() {
		return fmt.Errorf("a list of %d is longer than %d", len(raw), v.Len())
	}
	for i := range raw {
		if err := c.read(raw[i], v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *codec) readStruct(data []byte, v reflect.Value) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return errShape
	}
	for i := range v.NumField() {
		name := snake(v.Type().Field(i).Name)
		field, ok := raw[name]
		if !ok {
			continue
		}
		if string(field) == "null" {
			if v.Field(i).Kind() == reflect.Float64 {
				v.Field(i).SetFloat(math.NaN()) // written so: it was not known
			}
			continue
		}
		if err := c.read(field, v.Field(i)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

type instantLine struct {
	Mono int64     `json:"mono"`
	Boot int64     `json:"boot"`
	Wall time.Time `json:"wall"`
}

func appendInstant(dst []byte, at watchdog.Instant) []byte {
	dst = append(dst, `{"mono":`...)
	dst = strconv.AppendInt(dst, int64(at.Mono), 10)
	dst = append(dst, `,"boot":`...)
	dst = strconv.AppendInt(dst, int64(at.Boot), 10)
	dst = append(dst, `,"wall":"`...)
	dst = time.Unix(0, at.Wall).UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, `"}`...)
}

func readInstant(data []byte) (watchdog.Instant, error) {
	var l instantLine
	if err := json.Unmarshal(data, &l); err != nil {
		return watchdog.Instant{}, errShape
	}
	return l.instant()
}

func (l instantLine) instant() (watchdog.Instant, error) {
	at := watchdog.Instant{Mono: time.Duration(l.Mono), Boot: time.Duration(l.Boot)}
	if !within(at.Mono) || !within(at.Boot) {
		return at, errSpan
	}
	if err := checkYear(l.Wall); err != nil {
		return at, err
	}
	at.Wall = l.Wall.UnixNano()
	return at, nil
}

// checkYear refuses what UnixNano cannot hold, with room on both sides.
func checkYear(at time.Time) error {
	if y := at.UTC().Year(); y < 1700 || y > 2250 {
		return fmt.Errorf("the year %d cannot be", y)
	}
	return nil
}

func readTime(data []byte) (time.Time, error) {
	var at time.Time
	if err := json.Unmarshal(data, &at); err != nil {
		return time.Time{}, errShape
	}
	return at.UTC(), checkYear(at)
}

func readSpan(data []byte) (time.Duration, error) {
	var n int64
	if err := json.Unmarshal(data, &n); err != nil {
		return 0, errShape
	}
	if d := time.Duration(n); within(d) {
		return d, nil
	}
	return 0, errSpan
}

func within(d time.Duration) bool { return d > -maxSpan && d < maxSpan }

// appendString writes s as JSON without the escapes that only HTML needs.
func appendString(dst []byte, s string) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return append(dst, `""`...)
	}
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}

// snake turns BrakeHold into brake_hold, LastID into last_id and RedisTTL into
// redis_ttl.
func snake(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
