package ui

import (
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// holdStill is how long the order of rows stays after a cursor move, so that
// the row that is looked at does not slip away under the finger.
const holdStill = time.Second

// table is the part of the matched order that is at hand, and the cursor in
// it. The cursor belongs to a session; positions only say where it is seen.
type table struct {
	rows    []watchdog.Row
	offset  int // position of rows[0] in the matched order
	matched int
	top     int // position of the first visible row

	cursor  watchdog.ID
	at      int  // last known position of the cursor; -1 none
	touched bool // the operator moved it; before that it rests on the first row

	asked     int         // offset of the last ask
	validSeq  uint64      // answers to older asks show another order
	anchored  watchdog.ID // anchor of the newest ask
	cursorSeq uint64      // answers to older asks say nothing of the cursor
	seek      int         // position that the cursor goes to when its row is there; -1 none
	chase     bool        // the next answer shows where the cursor is: bring it into sight
	pending   int         // presses of next (or, negative, previous) that wait for an answer

	heldUntil time.Duration
	frozen    bool
	frozenAt  int64 // wall clock

	names nameCuts
}

func (t *table) reset() {
	*t = table{at: -1, seek: -1, names: t.names}
}

// ask describes the rows that should be at hand: three screens of them.
func (t *table) ask(seq uint64, page int) watchdog.Ask {
	page = max(page, 1)
	want := t.top
	if t.seek >= 0 {
		want = t.seek
	}
	if want < t.asked || want+page > t.asked+3*page || (want-t.asked < page/2 && t.asked > 0) || t.asked+3*page-want-page < page/2 {
		t.asked = max(want-page, 0)
	}
	a := watchdog.Ask{Seq: seq, Offset: t.asked, Height: 3 * page, Focus: t.cursor}
	if t.touched && t.seek < 0 {
		a.Anchor = t.cursor
	}
	if a.Anchor != t.anchored {
		t.anchored, t.cursorSeq = a.Anchor, seq
	}
	return a
}

// index is where the cursor is in rows; -1 not there.
func (t *table) index() int {
	if i := t.at - t.offset; i >= 0 && i < len(t.rows) && t.rows[i].ID == t.cursor {
		return i
	}
	for i := range t.rows {
		if t.rows[i].ID == t.cursor {
			return i
		}
	}
	return -1
}

// current is the row under the cursor; nil none.
func (t *table) current() *watchdog.Row {
	if i := t.index(); i >= 0 && t.cursor != "" {
		return &t.rows[i]
	}
	return nil
}

// take uses the rows of a window. gone is the session that the cursor was on
// and that is no longer in the matched order.
func (t *table) take(w *watchdog.Window, page int, now time.Duration) (gone watchdog.ID) {
	if w.AskSeq < t.validSeq || t.frozen {
		return ""
	}
	if now < t.heldUntil && w.Offset == t.offset && t.seek < 0 && !t.chase && len(t.rows) > 0 {
		t.refresh(w)
		return ""
	}
	t.rows, t.offset, t.matched = w.Rows, w.Offset, w.Matched
	t.names.stale = true
	gone = t.place(w)
	t.clampTop(page)
	return gone
}

// refresh takes new facts into the order that is shown.
func (t *table) refresh(w *watchdog.Window) {
	fresh := make(map[watchdog.ID]int, len(w.Rows))
	for i := range w.Rows {
		fresh[w.Rows[i].ID] = i
	}
	for i := range t.rows {
		if j, ok := fresh[t.rows[i].ID]; ok {
			t.rows[i] = w.Rows[j]
		}
	}
	t.matched = w.Matched
}

// place finds the cursor in the rows that were just taken.
func (t *table) place(w *watchdog.Window) (gone watchdog.ID) {
	switch {
	case t.seek >= 0:
		want := min(t.seek, t.matched-1)
		if i := want - t.offset; i >= 0 && i < len(t.rows) {
			t.cursor, t.at, t.seek = t.rows[i].ID, want, -1
		}
		return ""
	case !t.touched || t.cursor == "":
		t.cursor, t.at = "", -1
		if len(t.rows) > 0 {
			t.cursor, t.at = t.rows[0].ID, t.offset
		}
		return ""
	}
	if i := t.index(); i >= 0 {
		t.at = t.offset + i
		t.chase = false
		return ""
	}
	if w.AskSeq < t.cursorSeq || w.Anchor >= 0 {
		return "" // it is there, outside of these rows, or was not asked for yet
	}
	t.chase = false
	return t.fallBack()
}

// fallBack puts the cursor on the row that took the place of its session.
func (t *table) fallBack() (gone watchdog.ID) {
	gone = t.cursor
	if len(t.rows) == 0 {
		t.cursor, t.at = "", -1
		return gone
	}
	i := min(max(t.at-t.offset, 0), len(t.rows)-1)
	t.cursor, t.at = t.rows[i].ID, t.offset+i
	return gone
}

// clampTop keeps the cursor in sight and the rows inside the order.
func (t *table) clampTop(page int) {
	page = max(page, 1)
	if t.at >= 0 && t.index() >= 0 {
		if t.at < t.top {
			t.top = t.at
		} else if t.at >= t.top+page {
			t.top = t.at - page + 1
		}
	}
	t.top = max(min(t.top, t.matched-page), 0)
}

// move steps the cursor by n rows; to a row that is not at hand it goes when
// the answer is there.
func (t *table) move(n, page int, now time.Duration) {
	if t.matched == 0 {
		return
	}
	from := t.at
	if t.seek >= 0 {
		from = t.seek
	}
	if from < 0 {
		from = t.top
	}
	t.goTo(from+n, page, now)
}

func (t *table) goTo(position, page int, now time.Duration) {
	if t.matched == 0 {
		return
	}
	position = min(max(position, 0), t.matched-1)
	t.touched, t.chase, t.pending = true, false, 0
	t.heldUntil = now + holdStill
	if i := position - t.offset; i >= 0 && i < len(t.rows) {
		t.cursor, t.at, t.seek = t.rows[i].ID, position, -1
		t.clampTop(page)
		return
	}
	if t.frozen {
		i := min(max(position-t.offset, 0), len(t.rows)-1)
		if i >= 0 {
			t.cursor, t.at = t.rows[i].ID, t.offset+i
			t.clampTop(page)
		}
		return
	}
	t.seek = position
}

// follow puts the cursor on a session that may not be at hand.
func (t *table) follow(id watchdog.ID, page int, now time.Duration) {
	t.cursor, t.touched, t.seek = id, true, -1
	t.heldUntil = now + holdStill
	if i := t.index(); i >= 0 {
		t.at = t.offset + i
		t.clampTop(page)
		return
	}
	t.chase = true
}

// visible gives the rows on the screen and the position of the first.
func (t *table) visible(page int) []watchdog.Row {
	from := t.top - t.offset
	if from < 0 || from >= len(t.rows) {
		return nil
	}
	return t.rows[from:min(from+page, len(t.rows))]
}
