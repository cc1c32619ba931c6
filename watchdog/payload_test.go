package watchdog

import (
	"fmt"
	"testing"
	"time"
)

func payloadsOf(t *Tracker, id ID) []Payload { return t.Look(Ask{Focus: id, Payload: true}).Payloads }

// Bytes are kept of the session in focus alone: the newest beat of each source,
// and the last one that was refused.
func TestPayloadsAreKeptOfWhatIsInFocus(t *testing.T) {
	e := NewEngine(EngineConfig{Start: Instant{Mono: time.Hour}})
	tr := e.tracker
	send := func(id, raw string, source Source, at time.Duration) {
		var b Beat
		b.Reset()
		b.ID, b.State, b.Source, b.Received, b.Raw = []byte(id), StateRunning, source, at, []byte(raw)
		tr.ApplyBeats([]Beat{b})
	}
	send("a", "before", SourceNATS, time.Hour)
	if got := payloadsOf(tr, "a"); len(got) != 0 {
		t.Fatalf("kept before anybody looked: %+v", got)
	}
	if !e.Watches("a") || e.Watches("b") {
		t.Error("it is not what is in focus that is watched")
	}
	raw := []byte("one")
	send("a", string(raw), SourceNATS, time.Hour+time.Second)
	send("b", "other", SourceNATS, time.Hour+time.Second)
	send("a", "two", SourceRedis, time.Hour+2*time.Second)
	send("a", "three", SourceNATS, time.Hour+3*time.Second)
	e.NoteRefused(SourceNATS, "a", []byte("{"), 1, RefusedJSON, time.Hour+4*time.Second)
	e.NoteRefused(SourceNATS, "b", []byte("{"), 1, RefusedJSON, time.Hour+4*time.Second)
	tr.Advance(Instant{Mono: time.Hour + 10*time.Second})
	got := payloadsOf(tr, "a")
	want := []struct {
		raw     string
		age     time.Duration
		refused bool
	}{{"{", 6 * time.Second, true}, {"three", 7 * time.Second, false}, {"two", 8 * time.Second, false}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		if string(got[i].Raw) != w.raw || got[i].Age != w.age || got[i].Refused != w.refused || got[i].Size != len(w.raw) {
			t.Errorf("%d is %+v, not %+v", i, got[i], w)
		}
	}
	if tr.Look(Ask{Focus: "a"}).Payloads != nil {
		t.Error("they came unasked")
	}
	if got := payloadsOf(tr, "b"); len(got) != 0 {
		t.Errorf("kept of another: %+v", got)
	}
}

// What is read again replaces nothing that was seen to come, and a giant is cut.
func TestStandingAndGiantPayloads(t *testing.T) {
	e := NewEngine(EngineConfig{Start: Instant{Mono: time.Hour}})
	e.tracker.Look(Ask{Focus: "a"})
	e.NoteStanding(SourceRedis, "a", []byte("x"), time.Hour)
	if got := payloadsOf(e.tracker, "a"); len(got) != 1 || !got[0].Standing {
		t.Fatalf("%+v", got)
	}
	var b Beat
	b.Reset()
	b.ID, b.State, b.Source, b.Received, b.Raw = []byte("a"), StateRunning, SourceRedis, time.Hour+time.Second, []byte("y")
	e.tracker.ApplyBeats([]Beat{b})
	e.NoteStanding(SourceRedis, "a", []byte("y"), time.Hour+2*time.Second)
	if got := payloadsOf(e.tracker, "a"); len(got) != 1 || got[0].Standing || string(got[0].Raw) != "y" {
		t.Fatalf("%+v", got)
	}
	e.NoteRefused(SourceNATS, "a", make([]byte, 1<<20), 1<<20, RefusedSize, time.Hour)
	for _, p := range payloadsOf(e.tracker, "a") {
		if p.Refused && (len(p.Raw) != PayloadMost || p.Size != 1<<20) {
			t.Errorf("%d bytes are kept of %d", len(p.Raw), p.Size)
		}
	}
}

// However many sessions are looked at, memory is bounded, and what nobody looks
// at any more is forgotten.
func TestPayloadsAreForgotten(t *testing.T) {
	var p payloads
	for i := range 10 * payloadWatched {
		p.watch(ID(fmt.Sprint(i)), time.Duration(i))
	}
	if n := len(*p.watched.Load()); n != payloadWatched {
		t.Errorf("%d are watched", n)
	}
	p.watch("late", time.Hour)
	if n := len(*p.watched.Load()); n != 1 {
		t.Errorf("%d are still watched an hour later", n)
	}
}
