package watchdog_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func isNewer(err error) bool {
	var newer *watchdog.NewerNote
	return errors.As(err, &newer)
}

func TestNotesOnABoard(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 12, 44, 0, time.UTC)
	at := func(days float64) time.Time { return now.Add(time.Duration(days * 24 * float64(time.Hour))) }
	note := func(key watchdog.AlertKey, kind watchdog.NoteKind, at, until time.Time) watchdog.AlertNote {
		return watchdog.AlertNote{Key: key, Kind: kind, Author: "ops1", At: at, Until: until}
	}
	never := time.Time{}
	for _, c := range []struct {
		name               string
		note               watchdog.AlertNote
		lapsed, disposable bool
	}{
		{"an ack of today", note("a", watchdog.NoteAck, at(0), never), false, false},
		{"an ack of last month", note("a", watchdog.NoteAck, at(-30.1), never), false, true},
		{"a snooze that holds", note("a", watchdog.NoteSnooze, at(-1), at(0.1)), false, false},
		{"a snooze that is over", note("a", watchdog.NoteSnooze, at(-1), at(-0.1)), true, false},
		{"a mute of long ago that holds", note("a", watchdog.NoteMute, at(-90), at(1)), false, false},
		{"a mute that was over last month", note("a", watchdog.NoteMute, at(-90), at(-31)), true, true},
		{"what was taken back lately", note("a", watchdog.NoteClear, at(-1), never), true, false},
		{"what was taken back last week", note("a", watchdog.NoteClear, at(-7.1), never), true, true},
	} {
		if got := c.note.Lapsed(now); got != c.lapsed {
			t.Errorf("%s: lapsed is %v", c.name, got)
		}
		if got := c.note.Disposable(now); got != c.disposable {
			t.Errorf("%s: disposable is %v", c.name, got)
		}
	}
	older, newer := note("a", watchdog.NoteAck, at(-1), never), note("a", watchdog.NoteAck, at(0), never)
	byTwo := newer
	byTwo.Author = "ops2"
	for _, pair := range [][2]watchdog.AlertNote{{older, newer}, {newer, byTwo}} {
		if pair[0].Order(pair[1]) >= 0 || pair[1].Order(pair[0]) <= 0 || pair[0].Order(pair[0]) != 0 {
			t.Errorf("%+v does not stand behind %+v", pair[0], pair[1])
		}
		if err := pair[0].MayReplace(pair[1], now); !isNewer(err) {
			t.Errorf("an older note is answered with %v", err)
		}
		if err := pair[1].MayReplace(pair[0], now); err != nil {
			t.Errorf("a newer note is answered with %v", err)
		}
	}
	if err := newer.MayReplace(note("a", watchdog.NoteAck, at(2), never), now); err != nil {
		t.Errorf("a note of the future cannot be replaced: %v", err)
	}
	got := watchdog.StandingNotes([]watchdog.AlertNote{
		newer, older, note("c", watchdog.NoteClear, at(0), never), note("c", watchdog.NoteAck, at(-1), never), note("b", watchdog.NoteAck, at(2), never),
		note("aa", watchdog.NoteSnooze, at(-1), at(-0.1)),
	}, now)
	if want := []watchdog.AlertNote{newer, note("aa", watchdog.NoteSnooze, at(-1), at(-0.1))}; !slices.Equal(got, want) {
		t.Errorf("%+v stands", got)
	}
}

// TestTooManyNotes gives up what has lapsed first, then what is oldest.
func TestTooManyNotes(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 12, 44, 0, time.UTC)
	var all []watchdog.AlertNote
	for i := range watchdog.MaxNotes {
		all = append(all, watchdog.AlertNote{Key: watchdog.AlertKey(fmt.Sprint(i)), At: now.Add(-time.Duration(i) * time.Second)})
	}
	lapsed := watchdog.AlertNote{Key: "lapsed", Kind: watchdog.NoteSnooze, At: now, Until: now.Add(-time.Second)}
	if got := watchdog.SurplusNotes(append(all, lapsed), now); len(got) != 1 || got[0] != lapsed {
		t.Errorf("%d notes go, the first is %+v", len(got), got[0])
	}
	more := watchdog.AlertNote{Key: "more", At: now}
	if got := watchdog.SurplusNotes(append(all, lapsed, more), now); len(got) != 2 || got[1].Key != all[len(all)-1].Key {
		t.Errorf("%d notes go: %+v", len(got), got)
	}
	if got := watchdog.StandingNotes(append(all, lapsed, more), now); len(got) != watchdog.MaxNotes {
		t.Errorf("%d notes stand", len(got))
	}
}
