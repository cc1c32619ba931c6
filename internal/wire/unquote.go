package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// escapeLen is the length of the escape at the start of src, 0 if it is none.
func escapeLen(src []byte) int {
	if len(src) < 2 {
		return 0
	}
	switch src[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(src) >= 6 && hexRune(src[2:6]) >= 0 {
			return 6
		}
	}
	return 0
}

// hexRune reads four hexadecimal digits; -1 if they are none.
func hexRune(digits []byte) rune {
	r := rune(0)
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = (c | 0x20) - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unquote resolves the escapes of a scanned text. Each lone surrogate becomes
// U+FFFD; invalid UTF-8 is left to cleaning.
func unquote(src []byte) []byte {
	out := make([]byte, 0, len(src))
	for i := 0; i < len(src); {
		c := src[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		if c = src[i+1]; c != 'u' {
			out = append(out, plainEscape(c))
			i += 2
			continue
		}
		r := hexRune(src[i+2 : i+6])
		i += 6
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+6 <= len(src) && src[i] == '\\' && src[i+1] == 'u' {
				pair = utf16.DecodeRune(r, hexRune(src[i+2:i+6]))
			}
			if r = pair; pair != utf8.RuneError {
				i += 6
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}
