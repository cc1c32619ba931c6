package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sessionwatch/sessionwatch/internal/spelling"
)

// value is what a key of the file holds: a scalar, a list or a block.
type value interface {
	reset()                                       // to its default
	decode(d *decoder, path string, n *yaml.Node) // from the file
	// leaves visits what has no keys below it, in the order of the table.
	leaves(path string, visit func(path string, f leaf))
}

// leaf is a value that is shown as one line.
type leaf interface {
	value
	show() string // as YAML on one line, secrets hidden; empty: not set
}

// texter is a leaf that a flag or a variable can set.
type texter interface {
	leaf
	parse(text string) (fault string)
}

// scalar is a leaf that stands as one word in the file.
type scalar[T any] struct {
	dst  *T
	def  T
	want string // "a duration such as 90s or 5m"
	// read gives the value or says what is wrong. The tag is that of YAML, or
	// empty for text from a flag or variable.
	read  func(text, tag string) (v T, fault string)
	write func(T) string
}

func (s *scalar[T]) reset() { *s.dst = s.def }

func (s *scalar[T]) decode(d *decoder, path string, n *yaml.Node) {
	if !d.scalar(path, n, s.want) {
		return
	}
	v, fault := s.read(n.Value, n.ShortTag())
	if fault != "" {
		d.fault(n.Line, path, "%s", fault)
		return
	}
	*s.dst = v
}

func (s *scalar[T]) leaves(path string, visit func(string, leaf)) { visit(path, s) }

func (s *scalar[T]) show() string { return s.write(*s.dst) }

func (s *scalar[T]) parse(text string) string {
	v, fault := s.read(text, "")
	if fault == "" {
		*s.dst = v
	}
	return fault
}

// text is any text; numbers must be quoted, so that no value changes its
// spelling on the way.
func text(dst *string, def string) value { return textLike(dst, def, "text", nil) }

// textLike is text that a check accepts. The check returns what is wrong and
// what to do, or nothing.
func textLike(dst *string, def, want string, check func(string) string) value {
	return &scalar[string]{dst: dst, def: def, want: want, write: yamlText,
		read: func(t, tag string) (string, string) {
			if tag != "" && tag != "!!str" {
				return "", quoted(t) + " is " + kindWord(tag) + "; put it into quotes"
			}
			if strings.ContainsRune(t, 0) {
				return "", "holds a NUL byte; remove it"
			}
			if check != nil && t != "" {
				return t, check(t)
			}
			return t, ""
		}}
}

// pathValue is the name of a file or directory.
type pathValue struct{ scalar[string] }

func filePath(dst *string) value {
	return &pathValue{*textLike(dst, "", "a file name", nil).(*scalar[string])}
}

func (p *pathValue) decode(d *decoder, path string, n *yaml.Node) {
	p.scalar.decode(d, path, n)
	if !d.bad[path] {
		*p.dst = d.path(*p.dst)
	}
}

func (p *pathValue) leaves(path string, visit func(string, leaf)) { visit(path, p) }

// hiddenText is text that is shown only as far as cut lets through.
type hiddenText struct {
	scalar[string]
	cut func(string) string
}

func (h *hiddenText) show() string { return yamlText(h.cut(*h.dst)) }

func (h *hiddenText) leaves(path string, visit func(string, leaf)) { visit(path, h) }

// maxDuration keeps sums and products of durations far from overflow.
const maxDuration = 366 * 24 * time.Hour

const wantDuration = "a duration above 0 such as 90s or 5m"

// duration is above zero; a default of zero means "not set".
func duration(dst *time.Duration, def time.Duration) value {
	return &scalar[time.Duration]{dst: dst, def: def, want: wantDuration, read: readDuration,
		write: func(d time.Duration) string {
			if d == 0 {
				return ""
			}
			return formatDuration(d)
		}}
}

func readDuration(t, tag string) (time.Duration, string) {
	if n, err := strconv.ParseFloat(t, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) && tag != "!!bool" {
		if n <= 0 {
			return 0, t + " is not above 0; give " + wantDuration
		}
		return 0, t + " has no unit; write " + t + "s for seconds"
	}
	d, err := time.ParseDuration(t)
	switch {
	case err != nil || (tag != "" && tag != "!!str"):
		return 0, quoted(t) + " is not a duration; give " + wantDuration
	case d <= 0:
		return 0, t + " is not above 0; give " + wantDuration
	case d > maxDuration:
		return 0, t + " is over " + formatDuration(maxDuration) + ", the longest duration; give a shorter one"
	}
	return d, ""
}

// formatDuration is time.Duration's text without units that are zero.
func formatDuration(d time.Duration) string {
	t := d.String()
	if strings.HasSuffix(t, "m0s") {
		t = t[:len(t)-2]
	}
	if strings.HasSuffix(t, "h0m") {
		t = t[:len(t)-2]
	}
	return t
}

// seconds reads a plain number of seconds, as WATCHDOG_STALL_TIMEOUT and
// --watchdog-timeout hold it.
func seconds(t string) (time.Duration, string) {
	n, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, quoted(t) + " is not a number of seconds; give one above 0 such as 300"
	}
	if d := n * float64(time.Second); d >= 1 && d <= float64(maxDuration) {
		return time.Duration(d), ""
	}
	return 0, quoted(t) + " is not above 0 and within a year; give a number of seconds such as 300"
}

func integer(dst *int, def, lowest, highest int) value {
	want := "a whole number of at least " + strconv.Itoa(lowest)
	if highest < math.MaxInt {
		want = "a whole number from " + strconv.Itoa(lowest) + " to " + strconv.Itoa(highest)
	}
	return &scalar[int]{dst: dst, def: def, want: want, write: strconv.Itoa,
		read: func(t, tag string) (int, string) {
			n, err := strconv.ParseInt(t, 0, 64)
			switch {
			case tag == "!!str":
				return 0, quoted(t) + " is text; give " + want + ", without quotes"
			case err != nil || (tag != "" && tag != "!!int") || int64(int(n)) != n:
				return 0, quoted(t) + " does not fit; give " + want
			case int(n) < lowest || int(n) > highest:
				return 0, t + " is out of range; give " + want
			}
			return int(n), ""
		}}
}

// share is a number above 0 and at most 1.
func share(dst *float64, def float64) value {
	const want = "a share above 0 and at most 1, such as 0.5"
	return &scalar[float64]{dst: dst, def: def, want: want,
		write: func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) },
		read: func(t, tag string) (float64, string) {
			f, err := strconv.ParseFloat(t, 64)
			if err != nil || (tag != "" && tag != "!!float" && tag != "!!int") {
				return 0, quoted(t) + " is not a number; give " + want
			}
			if !(f > 0 && f <= 1) {
				return 0, t + " is out of range; give " + want
			}
			return f, ""
		}}
}

func boolean(dst *bool, def bool) value {
	return &scalar[bool]{dst: dst, def: def, want: "true or false", write: strconv.FormatBool,
		read: func(t, tag string) (bool, string) {
			switch v := strings.ToLower(t); {
			case tag == "!!bool" || tag == "":
				if v == "true" || v == "false" {
					return v == "true", ""
				}
				fallthrough
			default:
				return false, quoted(t) + " is " + kindOf(tag) + "; write true or false, without quotes"
			}
		}}
}

func kindOf(tag string) string {
	if tag == "" {
		return "text"
	}
	return kindWord(tag)
}

// looseBoolean also takes the words that people write into service files.
func looseBoolean(dst *bool, def bool) value {
	return &scalar[bool]{dst: dst, def: def, want: "true or false", write: strconv.FormatBool,
		read: func(t, tag string) (bool, string) {
			switch strings.ToLower(strings.TrimSpace(t)) {
			case "true", "yes", "on", "1":
				return true, ""
			case "false", "no", "off", "0":
				return false, ""
			}
			return false, quoted(t) + " is neither yes nor no; give true, yes, on, 1 or false, no, off, 0"
		}}
}

// choice is one of a closed set of words.
func choice[T ~string](dst *T, def T, words ...T) value {
	want := "one of " + listed(words)
	return &scalar[T]{dst: dst, def: def, want: want, write: func(v T) string { return yamlText(string(v)) },
		read: func(t, _ string) (T, string) {
			names := make([]string, len(words))
			for i, w := range words {
				if t == string(w) {
					return w, ""
				}
				names[i] = string(w)
			}
			return "", quoted(t) + " is not known; give " + want + spelling.DidYouMean(t, names)
		}}
}

// bytesUnits are the units of a size, largest first.
var bytesUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// size is a number of bytes with a unit.
func size(dst *int64, def int64) value {
	const want = "a size such as 16MiB or 500kB"
	return &scalar[int64]{dst: dst, def: def, want: want, write: formatSize,
		read: func(t, tag string) (int64, string) {
			for _, u := range bytesUnits {
				digits, found := strings.CutSuffix(t, u.name)
				if !found {
					continue
				}
				n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
				if err != nil || n < 1 || n > (1<<40)/u.size {
					return 0, quoted(t) + " is not a size above 0 and at most 1024GiB; give " + want
				}
				return n * u.size, ""
			}
			return 0, quoted(t) + " has no unit; give " + want
		}}
}

func formatSize(n int64) string {
	for _, u := range bytesUnits {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// yamlText is a text as YAML on one line: plain if that reads back as the same
// text, else in double quotes.
func yamlText(t string) string {
	plain := t != ""
	for i := range len(t) {
		c := t[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '/' || c == '_'
		inner := c >= '0' && c <= '9' || c == '.' || c == '-' || c == ':' && i+1 < len(t)
		if !letter && (i == 0 || !inner) {
			plain = false
		}
	}
	switch strings.ToLower(t) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		plain = false
	}
	if plain {
		return t
	}
	out, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t, Style: yaml.DoubleQuotedStyle})
	if one := strings.TrimSuffix(string(out), "\n"); err == nil && !strings.ContainsRune(one, '\n') {
		return one
	}
	return strconv.QuoteToASCII(t)
}
