package natsbus

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSpansHoldWhatWasPutIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		want := map[uint64]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "runs") {
			from := rapid.Uint64Range(1, 60).Draw(t, "from")
			to := from + rapid.Uint64Range(0, 5).Draw(t, "more")
			s = s.with(span{from, to})
			for seq := from; seq <= to; seq++ {
				want[seq] = true
			}
			if !s.valid() {
				t.Fatalf("out of order: %v", s)
			}
		}
		for seq := uint64(1); seq < 70; seq++ {
			if s.has(seq) != want[seq] {
				t.Fatalf("%v has %d: %v", s, seq, s.has(seq))
			}
			free := seq
			for want[free] {
				free++
			}
			if got := s.free(seq); got != free {
				t.Fatalf("free from %d of %v is %d, want %d", seq, s, got, free)
			}
		}
	})
}

func TestHostileSpansAreRefused(t *testing.T) {
	for _, s := range []spans{{{0, 1}}, {{5, 4}}, {{1, 3}, {4, 5}}, {{1, 3}, {2, 5}}, {{9, 9}, {1, 1}}, {{1, 18446744073709551615}, {3, 4}}} {
		if s.valid() {
			t.Errorf("%v is taken", s)
		}
	}
}
