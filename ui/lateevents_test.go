package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fakeLate is a quarantine.
type fakeLate struct {
	list  []watchdog.Late
	err   error
	asked []watchdog.ID
}

func (f *fakeLate) Late(_ context.Context, id watchdog.ID, most int) ([]watchdog.Late, error) {
	f.asked = append(f.asked, id)
	if f.err != nil {
		return nil, f.err
	}
	var out []watchdog.Late
	for _, l := range f.list {
		if (id == "" || l.ID == id) && len(out) < most {
			out = append(out, l)
		}
	}
	return out, nil
}

func quarantine() *fakeLate {
	return &fakeLate{list: []watchdog.Late{
		{ID: "batch-job-9", Generation: 1, Source: watchdog.SourceNATS, At: at.Add(-20 * time.Second), LateBy: 38 * time.Minute, Raw: []byte(`{"session_id":"batch-job-9","state":"running"}`)},
		{ID: "batch-job-7", Source: watchdog.SourceRedis, At: at.Add(-90 * time.Second), LateBy: 40 * time.Minute, MaybeNew: true, Raw: []byte("{\"x\":\"\x1b[2J\"}")},
	}}
}

func TestLateEventsAreHiddenUntilAsked(t *testing.T) {
	q := quarantine()
	s := newScreen(t, eventfulWindow(), About{Name: "prod", Late: q}, 160, 40)
	s.press("3")
	s.show(eventsOf(eventfulWindow(), s.feed.last()))
	if len(q.asked) != 0 || strings.Contains(ansi.Strip(s.m.frame()), "QUARANTINED") {
		t.Error("they are shown unasked")
	}
	s.press("L")
	s.show(eventsOf(eventfulWindow(), s.feed.last()))
	frame := s.m.frame()
	if strings.Contains(frame, "\x1b[2J") {
		t.Error("hostile bytes reached the terminal")
	}
	text := ansi.Strip(frame)
	for _, must := range []string{"with 2 quarantined", "batch-job-9 #1", "late", "QUARANTINED, late by 38m, NATS: {\"session_id\":\"batch-job-9\"", "batch-job-7 #?", "could be a new run"} {
		if !strings.Contains(text, must) {
			t.Errorf("lacks %q:\n%s", must, text)
		}
	}
	if !slices.IsSortedFunc(s.m.events.list, func(a, b watchdog.Transition) int { return int(b.At.Wall - a.At.Wall) }) {
		t.Error("they do not stand at their time")
	}
	s.press("L")
	if strings.Contains(ansi.Strip(s.m.frame()), "QUARANTINED") {
		t.Error("they cannot be hidden again")
	}
	s.press("L", "esc", "e")
	if last := q.asked[len(q.asked)-1]; last != s.m.table.cursor {
		t.Errorf("the events of one session ask for those of %q", last)
	}
}

func TestLateEventsSayWhatIsWrong(t *testing.T) {
	s := newScreen(t, eventfulWindow(), About{Name: "prod"}, 120, 40)
	s.press("3", "L")
	if !strings.Contains(s.m.note.text, "nobody keeps them here") {
		t.Errorf("L says %q", s.m.note.text)
	}
	s = newScreen(t, eventfulWindow(), About{Name: "prod", Late: &fakeLate{err: errors.New("the disk is gone")}}, 120, 40)
	s.press("3", "L")
	if !strings.Contains(ansi.Strip(s.m.frame()), "the quarantine cannot be read: the disk is gone") {
		t.Error("the trouble is not shown")
	}
}
