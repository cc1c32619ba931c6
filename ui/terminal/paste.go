package terminal

import (
	"strings"
	"time"
	"unicode/utf8"
)

// inPaste passes text through and watches for the end of the paste. Control
// bytes but tab and line ends are left out: in a paste they have no meaning,
// and a stray introducer would make a decoder overlook the end.
func (f *Filter) inPaste(dst []byte, b byte) []byte {
	p := &f.paste
	if b == pasteEnd[p.match] {
		p.match++
		if p.match < len(pasteEnd) {
			return dst
		}
		f.pend = f.pend[:0]
		f.state = ground
		if p.mute {
			return dst
		}
		return append(dst, pasteEnd...)
	}
	if p.match > 0 { // it looked like the end: text after all, without its ESC
		held := pasteEnd[1:p.match]
		p.match = 0
		f.counted.PasteBytes++
		for i := range len(held) {
			dst = f.pasteByte(dst, held[i])
		}
		return f.inPaste(dst, b)
	}
	return f.pasteByte(dst, b)
}

// pasteByte passes one byte of text on, by whole runes.
func (f *Filter) pasteByte(dst []byte, b byte) []byte {
	if b < utf8.RuneSelf {
		f.dropPasted(len(f.pend))
		if b < 0x20 && b != '\t' && b != '\n' && b != '\r' || b == 0x7f {
			f.counted.PasteBytes++
			return dst
		}
		return f.passPasted(dst, b)
	}
	if runeLength(b) > 0 {
		f.dropPasted(len(f.pend))
		f.pend = append(f.pend, b)
		return dst
	}
	if len(f.pend) == 0 {
		f.counted.PasteBytes++
		return dst
	}
	f.pend = append(f.pend, b)
	if len(f.pend) < runeLength(f.pend[0]) {
		return dst
	}
	r, _ := utf8.DecodeRune(f.pend)
	if r == utf8.RuneError || r < 0xa0 {
		f.dropPasted(len(f.pend))
		return dst
	}
	dst = f.passPasted(dst, f.pend...)
	f.pend = f.pend[:0]
	return dst
}

func (f *Filter) dropPasted(n int) {
	f.counted.PasteBytes += uint64(n)
	f.pend = f.pend[:0]
}

func (f *Filter) passPasted(dst []byte, text ...byte) []byte {
	if f.paste.mute || f.paste.size+len(text) > maxPaste {
		f.counted.PasteBytes += uint64(len(text))
		return dst
	}
	f.paste.size += len(text)
	return append(dst, text...)
}

// singleKey reports whether the bytes that arrived together are one key and
// nothing more.
func singleKey(in []byte) bool {
	if len(in) == 1 {
		return true
	}
	if in[0] != esc {
		return utf8.FullRune(in) && runeLength(in[0]) == len(in)
	}
	sequence := len(in) <= 16 && (in[1] == '[' || in[1] == 'O')
	return sequence && !strings.HasPrefix(pasteEnd, string(in))
}

// leavePaste ends a paste whose end did not come. The key that asked for it is
// dropped: nobody knows what it was meant for.
func (f *Filter) leavePaste(dst, in []byte, now time.Time) []byte {
	f.counted.StuckPastes++
	mute := f.paste.mute
	f.last = now
	f.Reset()
	if in[0] == esc {
		f.lone = now // the end may still follow its ESC
	}
	if mute {
		return dst
	}
	return append(dst, pasteEnd...)
}
