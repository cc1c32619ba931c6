package termtext

// Bytes and runes that steer a terminal's parser.
const (
	bell       = 0x07
	cancel     = 0x18
	substitute = 0x1a
	escape     = 0x1b

	c1ShiftTwo   = 0x8e
	c1ShiftThree = 0x8f
	c1DCS        = 0x90
	c1SOS        = 0x98
	c1CSI        = 0x9b
	c1ST         = 0x9c
	c1OSC        = 0x9d
	c1PM         = 0x9e
	c1APC        = 0x9f
)

// sequenceEnd is the index behind the escape sequence that r, at s[i], starts;
// i if it starts none. A sequence ends where the parser of a VT500 ends it:
//
//   - CSI with its final byte, the strings OSC, DCS, SOS, PM and APC with ST,
//     OSC with BEL too, a single shift with the character behind it;
//   - CAN and SUB cancel a sequence and belong to it;
//   - ESC, and a C1 control inside a string, cancel it and are read afresh;
//   - what never ends takes all the rest along: so would the terminal.
//
// C1 controls count in their encoded form, U+0080 to U+009F. Their raw bytes
// are invalid UTF-8, which no terminal in UTF-8 obeys.
func sequenceEnd(s string, i int, r rune) int {
	switch r {
	case escape:
		return escapeEnd(s, i+1)
	case c1CSI:
		return controlEnd(s, i+2)
	case c1OSC:
		return stringEnd(s, i+2, true)
	case c1DCS, c1SOS, c1PM, c1APC:
		return stringEnd(s, i+2, false)
	case c1ShiftTwo, c1ShiftThree:
		return shiftEnd(s, i+2)
	}
	return i
}

// escapeEnd reads on behind ESC.
func escapeEnd(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch c := s[i]; {
	case c == '[':
		return controlEnd(s, i+1)
	case c == ']':
		return stringEnd(s, i+1, true)
	case c == 'P' || c == 'X' || c == '^' || c == '_':
		return stringEnd(s, i+1, false)
	case c == 'N' || c == 'O':
		return shiftEnd(s, i+1)
	case c >= 0x20 && c < 0x30:
		for i < len(s) && s[i] >= 0x20 && s[i] < 0x30 {
			i++
		}
		if i < len(s) && s[i] >= 0x30 && s[i] < 0x7f {
			i++
		}
		return i
	case c >= 0x30 && c < 0x7f:
		return i + 1
	}
	return i
}

// controlEnd reads on behind CSI. Controls inside it go with it.
func controlEnd(s string, i int) int {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == escape || c >= 0x80:
			return i
		case c == cancel || c == substitute || c >= 0x40 && c < 0x7f:
			return i + 1
		}
	}
	return i
}

// stringEnd reads on behind the introducer of a control string.
func stringEnd(s string, i int, bellEnds bool) int {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == bell && bellEnds, c == cancel, c == substitute:
			return i + 1
		case c == escape:
			if i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
			return i
		case c == 0xc2 && i+1 < len(s) && s[i+1] >= 0x80 && s[i+1] < 0xa0:
			if s[i+1] == c1ST {
				return i + 2
			}
			return i
		}
	}
	return i
}

// shiftEnd reads on behind a single shift, which draws one character from
// another set.
func shiftEnd(s string, i int) int {
	if i < len(s) && s[i] >= 0x20 && s[i] < 0x7f {
		return i + 1
	}
	return i
}
