package query

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error says where a query cannot be understood, and what is allowed there.
type Error struct {
	Pos  int // in characters, from 1
	Text string
}

// Error is one sentence with its position.
func (e *Error) Error() string { return fmt.Sprintf("at %d: %s", e.Pos, e.Text) }

// maxText bounds a query; no person types as much.
const maxText = 4096

// The operators of fields, longest first.
const (
	opIs      = ":"
	opEqual   = "="
	opNot     = "!="
	opLess    = "<"
	opAtMost  = "<="
	opMore    = ">"
	opAtLeast = ">="
)

func operators() []string {
	return []string{opAtMost, opAtLeast, opNot, opLess, opMore, opEqual, opIs}
}

// valueKind is how a value was written.
type valueKind uint8

const (
	bare     valueKind = iota
	quoted             // "..."
	contains           // ~...
	pattern            // /.../
)

type value struct {
	kind valueKind
	text string
	pos  int // byte offset in the query
}

// parser reads a query from left to right.
type parser struct {
	in  string
	pos int // byte offset
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Pos: utf8.RuneCountInString(p.in[:min(at, len(p.in))]) + 1, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) rest() string { return p.in[p.pos:] }

func (p *parser) end() bool { return p.pos >= len(p.in) }

func (p *parser) skipSpace() {
	p.pos = len(p.in) - len(strings.TrimLeftFunc(p.rest(), unicode.IsSpace))
}

// operator reads an operator, if one stands here.
func (p *parser) operator() (string, bool) {
	for _, op := range operators() {
		if strings.HasPrefix(p.rest(), op) {
			p.pos += len(op)
			return op, true
		}
	}
	return "", false
}

// name reads the name of a field and the operator after it, or nothing. Spaces
// may stand before a comparison if the name is that of a field.
func (p *parser) name(known func(string) bool) (name, op string, found bool) {
	start := p.pos
	for !p.end() && (p.in[p.pos]|0x20 >= 'a' && p.in[p.pos]|0x20 <= 'z' || p.in[p.pos] == '_') {
		p.pos++
	}
	name = p.in[start:p.pos]
	if op, found = p.operator(); !found && known(name) {
		p.skipSpace()
		if op, found = p.operator(); found && op == opIs {
			found = false
		}
	}
	if !found {
		p.pos = start
		return "", "", false
	}
	p.skipSpace()
	return name, op, true
}

// upTo reads up to a character that stops it.
func (p *parser) upTo(stop func(rune) bool) value {
	v := value{pos: p.pos}
	end := strings.IndexFunc(p.rest(), stop)
	if end < 0 {
		end = len(p.rest())
	}
	v.text = p.in[p.pos : p.pos+end]
	p.pos += end
	return v
}

// delimited reads "..." or /.../; the delimiter stands here. Within quotes a
// backslash takes the next character as it is; within slashes only \/ does.
func (p *parser) delimited(kind valueKind, name string) (value, error) {
	start, delimiter := p.pos, p.in[p.pos]
	var b strings.Builder
	for p.pos++; !p.end(); p.pos++ {
		switch c := p.in[p.pos]; {
		case c == delimiter:
			p.pos++
			return value{kind, b.String(), start}, nil
		case c == '\\' && p.pos+1 < len(p.in):
			p.pos++
			if kind == pattern && p.in[p.pos] != delimiter {
				b.WriteByte('\\')
			}
			b.WriteByte(p.in[p.pos])
		default:
			b.WriteByte(c)
		}
	}
	return value{}, p.fail(start, "the %s is not closed; end it with %c", name, delimiter)
}

// term reads a quoted phrase, a regular expression or, with bareEnd, a bare text.
func (p *parser) term(bareEnd func(rune) bool) (value, error) {
	switch {
	case p.end():
		return value{pos: p.pos}, nil
	case p.in[p.pos] == '"':
		return p.delimited(quoted, "phrase")
	case p.in[p.pos] == '/':
		return p.delimited(pattern, "regular expression")
	}
	return p.upTo(bareEnd), nil
}

// values reads the values after a field's operator, separated by commas.
func (p *parser) values(of string) ([]value, error) {
	var list []value
	for {
		start, tilde := p.pos, false
		if strings.HasPrefix(p.rest(), "~") {
			p.pos++
			tilde = true
		}
		v, err := p.term(func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		if err != nil {
			return nil, err
		}
		if v.text == "" && v.kind == bare {
			return nil, p.fail(start, "nothing stands after %s; give a value", of)
		}
		if v.pos = start; tilde && v.kind != pattern {
			v.kind = contains
		}
		list = append(list, v)
		if !strings.HasPrefix(p.rest(), ",") {
			return list, nil
		}
		p.pos++
		of = "the comma"
	}
}
