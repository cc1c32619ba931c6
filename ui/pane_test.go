package ui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// tab gives the moves to the side pane, and takes them back.
func TestFocusOfTheSidePane(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 200, 60)
	cursor := s.m.table.cursor
	s.m.frame()
	s.press("tab", "j", "j", "pgdown")
	if s.m.table.cursor != cursor {
		t.Error("the cursor of the table moved")
	}
	if s.m.side.off == 0 {
		t.Error("the pane does not scroll")
	}
	if frame := ansi.Strip(s.m.frame()); !strings.Contains(frame, "> lines ") || !strings.Contains(frame, "tab goes back") {
		t.Errorf("it is not said where the moves go:\n%s", frame)
	}
	s.press("G")
	last := s.m.side.off
	s.press("j")
	if s.m.side.off != last {
		t.Error("it scrolls past its end")
	}
	s.press("g")
	if s.m.side.off != 0 || s.m.table.cursor != cursor {
		t.Error("g does not go to the first line of the pane")
	}
	s.press("esc")
	if s.m.paneFocus {
		t.Error("esc does not go back to the table")
	}
	s.press("tab", "tab", "j")
	if s.m.table.cursor == cursor {
		t.Error("the moves do not come back to the table")
	}
	s.press("tab", "d")
	s.press("j")
	if s.m.paneFocused() {
		t.Error("a pane that is hidden has the moves")
	}
	s.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	s.press("tab")
	if !strings.Contains(s.m.note.text, "no second pane") {
		t.Errorf("on a small screen tab says %q", s.m.note.text)
	}
}

// A pane of another session begins at its top, and the wheel over it scrolls it.
func TestThePaneScrollsByItself(t *testing.T) {
	w := eventfulWindow()
	s := newScreen(t, w, About{Name: "prod"}, 200, 60)
	cursor := s.m.table.cursor
	s.m.frame()
	s.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown, X: 190, Y: 20})
	if s.m.frame(); s.m.side.off == 0 || s.m.table.cursor != cursor {
		t.Errorf("the wheel over the pane moved it to %d", s.m.side.off)
	}
	s.press("j")
	if s.m.frame(); s.m.side.off != 0 {
		t.Error("the next session's pane is scrolled")
	}
}
