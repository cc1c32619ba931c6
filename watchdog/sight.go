package watchdog

import (
	"maps"
	"slices"
	"time"
)

// sight is what we know of one source: its link, as it is shown, and the
// proofs from which sight follows.
type sight struct {
	configured bool
	link       Link
	nextTry    time.Duration // Mono; 0 none

	lastTrip  time.Duration // Mono of the last answer; negative never
	heard     time.Duration // Mono up to which it is proven to have told us all; never
	denied    string
	deniedAt  time.Duration
	dropUntil time.Duration // blind until then because we lost messages
	dropAt    time.Duration

	up      bool
	changed time.Duration // Mono of the last change of up
	storeAt time.Duration // Mono of the last StoreChanged; negative never
	reason  string
}

func newSight() sight { return sight{lastTrip: -1, storeAt: -1, heard: never} }

// judge decides sight from its proofs: since is when the present state began,
// which for blindness is the last proof of sight.
func (s *sight) judge(now time.Duration) (up bool, since time.Duration, reason string) {
	switch {
	case s.denied != "":
		return false, s.deniedAt, "no permission: " + s.denied
	case s.lastTrip < 0:
		return false, s.changed, "no answer yet"
	case now-s.lastTrip >= SightWindow:
		return false, s.lastTrip, "no answer"
	case now < s.dropUntil:
		return false, s.dropAt, "we lost messages"
	}
	return true, now, ""
}

// updateSight brings every source's sight up to now and opens or closes the
// blindness of every set of sources. It reports whether anything changed.
func (t *Tracker) updateSight(now time.Duration) bool {
	t.updateLinks(now)
	changed := false
	for _, src := range AllSources() {
		s := &t.sights[src]
		if !s.configured {
			continue
		}
		up, since, reason := s.judge(now)
		s.reason = reason
		if up == s.up {
			continue
		}
		changed = true
		s.up = up
		s.changed = since
		if up {
			t.sighted |= src.Set()
			t.effects = append(t.effects, SightBack{Source: src, At: t.instantAt(now)})
			t.noteSight(src.Title()+sightSeenText, now)
		} else {
			t.sighted &^= src.Set()
			t.effects = append(t.effects, SightLost{Source: src, Reason: reason, At: t.instantAt(since)})
			t.noteSight(src.Title()+sightBlindText+reason, since)
		}
	}
	if changed {
		t.updateMasks(now)
		t.lookAtSuspects()
	}
	return changed
}

// What events say of sight; a hand-over reads it again.
const (
	sightSeenText  = " is seen"
	sightBlindText = " is blind: "
)

func (t *Tracker) noteSight(text string, at time.Duration) {
	t.note(Transition{Kind: EventSight, From: Unknown, To: Unknown, At: t.instantAt(at), Text: text})
}

// updateMasks opens and closes the blindness of each set of sources.
func (t *Tracker) updateMasks(now time.Duration) {
	for m := 1; m < len(t.blind); m++ {
		set := SourceSet(m)
		b := &t.blind[m]
		if set&t.sighted != 0 {
			if b.open {
				b.End(now)
				t.unpark(set)
			}
			continue
		}
		from := time.Duration(0)
		for _, src := range AllSources() {
			if set.Has(src) {
				from = max(from, t.sights[src].changed)
			}
		}
		b.Begin(from)
	}
}

// updateLinks notes for each set of sources when its last link breaks, and when
// one stands again. An outage that is shorter than SightWindow makes nobody
// unknown; but who beats faster than that is not silent because of it.
func (t *Tracker) updateLinks(now time.Duration) {
	linked := t.linked()
	mended := false
	for m := 1; m < len(t.blind); m++ {
		set, b := SourceSet(m), &t.blind[m]
		if set&linked != 0 {
			mended = b.Mend(now) || mended
			continue
		}
		proof := time.Duration(-1)
		for _, src := range AllSources() {
			if set.Has(src) {
				// A beat that came proves as much as an answer: without it, a link
				// that breaks as often as we ask would never count as seen.
				proof = max(proof, t.sights[src].lastTrip, t.sights[src].heard)
			}
		}
		if proof >= 0 {
			b.Cut(proof)
		}
	}
	if mended {
		t.lookAtSuspects()
	}
}

// linked are the sources whose link stands, as far as we know.
func (t *Tracker) linked() SourceSet {
	var set SourceSet
	for _, src := range AllSources() {
		if s := &t.sights[src]; s.configured && s.lastTrip >= 0 && s.link.Phase != LinkDown {
			set |= src.Set()
		}
	}
	return set
}

// storeChanged takes in that a store is another one than at the last answer: it
// may have lost what was told to it since, and who tells must find it again.
func (t *Tracker) storeChanged(e StoreChanged) {
	s := t.configure(e.Source)
	s.storeAt = e.At
	if s.lastTrip < 0 {
		return
	}
	others := t.linked() &^ e.Source.Set()
	for m := 1; m < len(t.blind); m++ {
		if set := SourceSet(m); set.Has(e.Source) && set&others == 0 {
			t.blind[m].Add(s.lastTrip, e.At)
		}
	}
	t.lookAtSuspects()
}

// ownBlindness records that we ourselves could not see anything.
func (t *Tracker) ownBlindness(from, to time.Duration) {
	for m := 1; m < len(t.blind); m++ {
		t.blind[m].Add(from, to)
	}
	t.lookAtSuspects()
}

// lookAtSuspects judges again, soon, whoever is accused of something: what we
// took for their silence may turn out to have been our own blindness.
func (t *Tracker) lookAtSuspects() {
	t.unparks = append(t.unparks, slices.Sorted(maps.Keys(t.suspects))...)
}
