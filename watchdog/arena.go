package watchdog

// arena keeps short texts in large chunks, so that the garbage collector sees
// a few slices instead of a million strings. A text is changed in place when
// it fits its slot. References count in units of 16 bytes; 0 is no text.
type arena struct {
	chunks [][]byte
	next   uint32 // first free unit of the last chunk
	free   [len(slotUnits)][]uint32
}

const (
	unitBytes  = 16
	chunkUnits = 1 << 16 // 1 MiB
	slotHeader = 3       // class, length low, length high
)

// slotUnits are the slot sizes; the largest holds the longest cleaned text.
var slotUnits = [...]uint32{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 68}

func (a *arena) slot(ref uint32) []byte {
	c, off := (ref-1)/chunkUnits, (ref-1)%chunkUnits*unitBytes
	return a.chunks[c][off:]
}

// get gives the text; it is valid until the next put or release of ref.
func (a *arena) get(ref uint32) []byte {
	if ref == 0 {
		return nil
	}
	s := a.slot(ref)
	n := int(s[1]) | int(s[2])<<8
	return s[slotHeader : slotHeader+n]
}

// put stores text, in old's slot if it fits there, and gives its reference.
// A text longer than the largest slot is cut.
func (a *arena) put(old uint32, text []byte) uint32 {
	const longest = int(unitBytes*68) - slotHeader
	if len(text) > longest {
		text = text[:longest]
	}
	if len(text) == 0 {
		a.release(old)
		return 0
	}
	class := classFor(len(text))
	if old != 0 && uint8(class) != a.slot(old)[0] {
		a.release(old)
		old = 0
	}
	if old == 0 {
		old = a.alloc(class)
	}
	s := a.slot(old)
	s[0], s[1], s[2] = uint8(class), uint8(len(text)), uint8(len(text)>>8)
	copy(s[slotHeader:], text)
	return old
}

func classFor(n int) int {
	for c, u := range slotUnits {
		if n+slotHeader <= int(u*unitBytes) {
			return c
		}
	}
	return len(slotUnits) - 1
}

func (a *arena) alloc(class int) uint32 {
	if k := len(a.free[class]); k > 0 {
		ref := a.free[class][k-1]
		a.free[class] = a.free[class][:k-1]
		return ref
	}
	units := slotUnits[class]
	if len(a.chunks) == 0 || a.next+units > chunkUnits {
		a.chunks = append(a.chunks, make([]byte, chunkUnits*unitBytes))
		a.next = 0
	}
	ref := uint32(len(a.chunks)-1)*chunkUnits + a.next + 1
	a.next += units
	return ref
}

// release gives a slot back.
func (a *arena) release(ref uint32) {
	if ref == 0 {
		return
	}
	class := a.slot(ref)[0]
	a.free[class] = append(a.free[class], ref)
}
