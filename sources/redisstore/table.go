package redisstore

import (
	"slices"
	"time"
)

// keyKind says how a key is asked for.
type keyKind uint8

const (
	keyBeat  keyKind = iota // its value is read by MGET
	keyGiant                // its value is too large for a beat: only its length is read
)

// entry is what is known of one key.
type entry struct {
	hash     uint64        // of the value's bytes; of the length for a giant
	lastSeen time.Duration // Mono of the last poll that found it
	poll     uint64        // number of that poll
	goneAt   time.Duration // Mono of the first good poll without it
	slot     uint16        // of a Cluster
	kind     keyKind
	beat     bool  // its last value was a beat
	missed   uint8 // successive good polls without it: 0, 1, 2
}

// keyTable holds the known keys. Positions move when a key is forgotten, so
// they are good for one poll only.
type keyTable struct {
	index    map[string]int32
	keys     []any // strings, boxed once: they are arguments of every poll
	entries  []entry
	bySlot   []int32 // positions ordered by slot, for a Cluster
	sorted   bool    // bySlot is right
	withSlot bool
}

func newKeyTable(withSlot bool) *keyTable {
	return &keyTable{index: make(map[string]int32), withSlot: withSlot}
}

func (t *keyTable) len() int { return len(t.entries) }

func (t *keyTable) key(i int32) string { return t.keys[i].(string) }

// has reports whether a key is known, a gone one too.
func (t *keyTable) has(key string) bool {
	_, ok := t.index[key]
	return ok
}

// add makes a key known.
func (t *keyTable) add(key string, e entry) int32 {
	if t.withSlot {
		e.slot = slotOf(key)
	}
	i := int32(len(t.entries))
	t.index[key] = i
	t.keys = append(t.keys, key)
	t.entries = append(t.entries, e)
	t.sorted = false
	return i
}

// forget removes the key at i; the last one takes its place.
func (t *keyTable) forget(i int32) {
	delete(t.index, t.key(i))
	last := int32(len(t.entries) - 1)
	if i != last {
		t.keys[i], t.entries[i] = t.keys[last], t.entries[last]
		t.index[t.key(i)] = i
	}
	t.keys[last] = nil
	t.keys, t.entries = t.keys[:last], t.entries[:last]
	t.sorted = false
}

// alive counts the keys that the last good poll found and that hold beats.
func (t *keyTable) alive() int {
	n := 0
	for i := range t.entries {
		if e := &t.entries[i]; e.missed == 0 && e.beat {
			n++
		}
	}
	return n
}

// found counts the keys that the poll of this number found, whatever they hold.
func (t *keyTable) found(poll uint64) int {
	n := 0
	for i := range t.entries {
		if t.entries[i].poll == poll {
			n++
		}
	}
	return n
}

// forgetGone removes keys that have been gone since before a moment.
func (t *keyTable) forgetGone(before time.Duration) {
	for i := int32(t.len()) - 1; i >= 0; i-- {
		if e := &t.entries[i]; e.missed >= 2 && e.goneAt < before {
			t.forget(i)
		}
	}
}

// order lists the positions by slot, so that keys of one slot stand together.
func (t *keyTable) order() []int32 {
	if t.sorted {
		return t.bySlot
	}
	t.bySlot = t.bySlot[:0]
	for i := range t.entries {
		t.bySlot = append(t.bySlot, int32(i))
	}
	slices.SortFunc(t.bySlot, func(a, b int32) int { return int(t.entries[a].slot) - int(t.entries[b].slot) })
	t.sorted = true
	return t.bySlot
}
