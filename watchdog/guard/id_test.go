package guard

import (
	"testing"
	"unicode"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Every character that the guard takes in an id is one that the wire format
// takes, alone and between others.
func TestNoCharacterOfAnIDIsRefusedOnTheWire(t *testing.T) {
	taken := 0
	for r := range rune(unicode.MaxRune + 1) {
		for _, id := range []string{string(r), "a" + string(r) + "b", string(r) + string(r)} {
			if checkID(watchdog.ID(id)) == nil {
				taken++
				if !wire.ValidID(id) {
					t.Errorf("%U in %q is taken", r, id)
				}
			}
		}
	}
	if taken < 100_000 {
		t.Errorf("only %d ids are taken", taken)
	}
}
