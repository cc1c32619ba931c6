package ui

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func exportScreen(t *testing.T, w watchdog.Window, width int) (*screen, *[]Export) {
	t.Helper()
	var got []Export
	s := newScreen(t, w, About{Name: "prod"}, width, 24, func(o *Options) {
		o.Export = func(e Export) (string, error) { got = append(got, e); return "/home/ops1/" + e.Path, nil }
	})
	return s, &got
}

// All that matches is written, not only the rows that are seen.
func TestExportWritesAllThatMatches(t *testing.T) {
	s, got := exportScreen(t, fleet(500), 80)
	s.press("/", "j", "o", "b", "enter", "E")
	if in := s.m.prompt.in.String(); in != "sessions-20261130T031244Z.json" {
		t.Fatalf("the name that is offered is %q", in)
	}
	s.press("enter")
	if a := s.feed.last(); a.Height != -1 || a.Match == nil {
		t.Fatalf("asked %+v", a)
	}
	s.press("j") // the answer may come to a later ask
	s.show(fleet(500))
	if len(*got) != 1 || (*got)[0].Len() != 500 || (*got)[0].Path != "sessions-20261130T031244Z.json" {
		t.Fatalf("%d exports: %+v", len(*got), s.m.note)
	}
	if s.m.note.text != "500 sessions written to /home/ops1/sessions-20261130T031244Z.json" {
		t.Errorf("said %q", s.m.note.text)
	}
	s.show(fleet(500))
	if a := s.feed.last(); a.Height < 0 || len(*got) != 1 {
		t.Error("everything is asked for on")
	}
}

func TestExportHasTheShownColumns(t *testing.T) {
	w := sickWindow()
	w.Matched = len(w.Rows)
	s, got := exportScreen(t, w, 120)
	s.press("E", "ctrl+u", "x", ".", "t", "x", "t", "enter")
	if s.m.prompt == nil || !strings.Contains(s.m.prompt.err, ".csv") {
		t.Error("another end of the name was taken")
	}
	s.press("ctrl+u", "a", ".", "c", "s", "v", "enter")
	s.show(w)
	e := (*got)[0]
	if diff := cmp.Diff("verdict since_secs session_id generation uptime_secs beat_age_secs work_age_secs credits_remaining host why current_task", strings.Join(e.Heading, " ")); diff != "" {
		t.Error(diff)
	}
	want := []string{"stalled", "131", "user:42:chat:research-eu-1f9c", "3", "11400", "11", "431", "8.43", "eu2-07", "publisher says: tool web.fetch", ""}
	if diff := cmp.Diff(want, e.Cells(2)); diff != "" {
		t.Error(diff)
	}
}

func TestExportOfEvents(t *testing.T) {
	s, got := exportScreen(t, eventfulWindow(), 80)
	s.press("3")
	s.show(eventsOf(eventfulWindow(), s.feed.last()))
	s.press("E")
	if in := s.m.prompt.in.String(); !strings.HasPrefix(in, "events-") {
		t.Errorf("the name that is offered is %q", in)
	}
	s.press("enter")
	if a := s.feed.last(); a.Events != eventsMost {
		t.Fatalf("asked %+v", a)
	}
	s.show(eventsOf(eventfulWindow(), s.feed.last()))
	if len(*got) != 1 || (*got)[0].Sessions != nil || (*got)[0].Len() != len(s.m.events.list) || len((*got)[0].Cells(0)) != len((*got)[0].Heading) {
		t.Fatalf("%+v", *got)
	}
}

func TestExportSaysWhatWentWrong(t *testing.T) {
	s := newScreen(t, fleet(3), About{}, 80, 24, func(o *Options) {
		o.Export = func(Export) (string, error) { return "", errors.New("/x is there already; give a name that is free") }
	})
	s.press("E", "enter")
	s.show(fleet(3))
	if !s.m.note.bad || !strings.Contains(s.m.note.text, "not exported: /x is there already") {
		t.Errorf("%+v", s.m.note)
	}
	s.press("Z", "E")
	if s.m.prompt != nil || !strings.Contains(s.m.note.text, "frozen") {
		t.Errorf("a frozen table is exported: %+v", s.m.note)
	}
}
