package orders

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestWordsComeOnceAndInOrder(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	word := func(f watchdog.Fate, by string, after time.Duration) watchdog.Answer {
		return watchdog.Answer{Command: "c1", Fate: f, By: by, At: at.Add(after)}
	}
	requested := word(watchdog.FateRequested, "us", 0)
	delivered := word(watchdog.FateDelivered, "run@a", time.Second)
	begun := word(watchdog.FateAcknowledged, "run@a", 2*time.Second)
	goesOn := word(watchdog.FateAcknowledged, "run@a", 3*time.Second)

	var heard []watchdog.Answer
	w := NewWords(func(a watchdog.Answer) { heard = append(heard, a) })
	if w.Say(requested); w.Taken() {
		t.Error("what was only requested is taken")
	}
	w.Say(delivered)
	w.Say(delivered) // sent again
	if !w.Taken() {
		t.Error("what was delivered is not taken")
	}
	w.Say(begun)
	w.Say(delivered)                                            // late
	w.Say(goesOn)                                               // it tells that it goes on
	w.Say(word(watchdog.FateEffective, "run@a", 4*time.Second)) // the result is not a word on the way
	if diff := cmp.Diff([]watchdog.Answer{requested, delivered, begun, goesOn}, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func TestWordsThatNobodyHears(t *testing.T) {
	w := NewWords(nil)
	w.Say(watchdog.Answer{Fate: watchdog.FateDelivered})
	if !w.Taken() {
		t.Error("it is not taken")
	}
}
