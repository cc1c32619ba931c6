package guard

import (
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Every character that the guard takes in an id is one that the wire format
// takes. The planes without a character are left out.
func TestNoCharacterOfAnIDIsRefusedOnTheWire(t *testing.T) {
	taken := 0
	for r := range rune(0x40000) {
		if id := "a" + string(r) + "b"; checkID(watchdog.ID(id)) == nil {
			taken++
			if !wire.ValidID(id) {
				t.Errorf("%U in %q is taken", r, id)
			}
		}
	}
	for r := rune(0xe0000); r < 0xe0200; r++ { // tags and variation selectors
		if checkID(watchdog.ID("a"+string(r))) == nil {
			t.Errorf("%U is taken", r)
		}
	}
	if taken < 100_000 {
		t.Errorf("only %d characters are taken", taken)
	}
}
