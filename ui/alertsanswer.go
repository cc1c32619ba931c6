package ui

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// noteLimit is how long the board has to take a note.
	noteLimit = 10 * time.Second
	// longestSnooze and longestMute bound what is kept quiet by mistake.
	longestSnooze = 7 * 24 * time.Hour
	longestMute   = 30 * 24 * time.Hour
	// takeBack is typed to take an answer back.
	takeBack = "-"
)

// alertAnswered says what became of notes.
type alertAnswered struct {
	gen  uint64
	said string // what was done
	n    int    // notes that were taken
	of   int
	here string // that they were kept where few see them; empty
	err  error
}

// answerable says why nothing can be answered here; empty: it can.
func answerable(m *Model, what string) string {
	switch {
	case m.about.Replay != nil:
		return what + ": off, this is a recording"
	case m.about.ReadOnly:
		return what + ": off, " + m.contextName() + " is READ-ONLY: it would write on the bus, for colleagues to see"
	case m.feed == nil || !m.have:
		return "nothing is watched yet"
	}
	return ""
}

// needsAlert refuses before any question.
func needsAlert(what string) func(*Model) string {
	return func(m *Model) string {
		if off := answerable(m, what); off != "" {
			return off
		}
		if len(m.answering()) > 0 {
			return ""
		}
		switch l := m.alertLine(); {
		case m.top() == viewAlerts && l != nil && l.mute != nil:
			return what + ": a mute is no alert; " + m.keys.firstKey("mute") + " changes it"
		case m.top() == viewAlerts:
			return what + ": there is no alert under the cursor"
		case len(m.marks.ids) > 0:
			return what + ": none of the marked has an alert"
		case m.table.cursor == "":
			return what + ": there is no session under the cursor"
		}
		return what + ": " + string(m.table.cursor) + " has no alert"
	}
}

// needsMutable: a session can be muted before it has an alert.
func needsMutable(m *Model) string {
	if off := answerable(m, "muting"); off != "" {
		return off
	}
	if m.top() == viewAlerts && m.alertLine() == nil || m.top() != viewAlerts && m.table.cursor == "" {
		return "muting: there is nothing under the cursor; :mute PATTERN END NOTE mutes what is not there yet"
	}
	return ""
}

// answering are the alerts that the next answer is of: those of the marked, or the
// one under the cursor. The members of a group share one.
func (m *Model) answering() []watchdog.Alert {
	if m.top() == viewAlerts || len(m.marks.ids) == 0 {
		if a := m.alertHere(); a != nil {
			return []watchdog.Alert{*a}
		}
		return nil
	}
	var out []watchdog.Alert
	seen := map[watchdog.AlertKey]bool{}
	for i := range m.picked {
		if a := m.picked[i].Alert; a != nil && m.marks.has(m.picked[i].ID) && !seen[a.Key] {
			seen[a.Key] = true
			out = append(out, *a)
		}
	}
	return out
}

// answeringName is "STALLED indexer #2", or how many they are.
func answeringName(list []watchdog.Alert) string {
	if len(list) == 1 {
		return alertName(&list[0])
	}
	return counted(len(list), "alert")
}

// answeredHint tells what stands already.
func (m *Model) answeredHint(list []watchdog.Alert) string {
	if len(list) != 1 || list[0].Note == nil {
		return ""
	}
	return " (now " + standingText(&list[0], m.window.Now.Wall, false) + "; " + takeBack + " takes that back)"
}

// askNote opens one line for an answer. What it is an answer to is fixed now.
func (m *Model) askNote(label, hint, text string, take func(*Model, string) (tea.Cmd, bool)) tea.Cmd {
	gen := m.gen
	m.prompt = &prompt{
		label: label, hint: hint, in: newInput(text),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, text string) (tea.Cmd, bool) {
			if gen != m.gen {
				return m.refuse("nothing was written: another source is shown now"), true
			}
			return take(m, text)
		},
	}
	return nil
}

// openAck acknowledges, with a note if there is one.
func (m *Model) openAck() tea.Cmd {
	list := m.answering()
	return m.askNote("note", "ACKNOWLEDGE "+answeringName(list)+m.answeredHint(list)+": a note, or just enter; esc: not", "",
		func(m *Model, text string) (tea.Cmd, bool) {
			if text == takeBack {
				return m.clearNotes(list), true
			}
			m.pastAlert()
			return m.putNotes(list, "acknowledged: "+answeringName(list), watchdog.AlertNote{Kind: watchdog.NoteAck, Text: text}), true
		})
}

// openSnooze asks for how long.
func (m *Model) openSnooze() tea.Cmd {
	list := m.answering()
	return m.askNote("for", "SNOOZE "+answeringName(list)+m.answeredHint(list)+": 10m, 1h, or until 06:00Z; then a note", "",
		func(m *Model, text string) (tea.Cmd, bool) {
			if text == takeBack {
				return m.clearNotes(list), true
			}
			end, note, _ := strings.Cut(text, " ")
			until, err := m.endOf(end, longestSnooze)
			if err != nil {
				m.prompt.err = err.Error()
				return nil, false
			}
			n := watchdog.AlertNote{Kind: watchdog.NoteSnooze, Until: until, Text: strings.TrimSpace(note)}
			m.pastAlert()
			return m.putNotes(list, "snoozed until "+untilText(&n, m.window.Now.Wall)+": "+answeringName(list), n), true
		})
}

// pastAlert goes on to the next alert of the queue: the one that is answered just
// now leaves its place, and the cursor with it would leave the rest.
func (m *Model) pastAlert() {
	if m.top() != viewAlerts {
		return
	}
	s, g := &m.alerts, &m.pagers[viewAlerts]
	for i := g.cur + 1; i < len(s.lines); i++ {
		if s.lines[i].alert >= 0 && s.lines[i].alert != s.lines[g.cur].alert {
			g.cur = i
			return
		}
	}
}

// endOf reads an end: a duration, or a time of day in UTC.
func (m *Model) endOf(text string, longest time.Duration) (time.Time, error) {
	now := time.Unix(0, m.window.Now.Wall).UTC()
	if text == "" {
		return now, errors.New("give an end: 10m, 1h, or a time such as 06:00Z")
	}
	until, ok := now, false
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 365 {
			until, ok = now.Add(time.Duration(n)*24*time.Hour), true
		}
	}
	if d, err := time.ParseDuration(text); !ok && err == nil && d > 0 {
		until, ok = now.Add(d), true
	}
	if at, err := time.Parse("15:04", strings.TrimSuffix(text, "Z")); !ok && err == nil {
		until = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
		if !until.After(now) {
			until = until.AddDate(0, 0, 1)
		}
		ok = true
	}
	switch {
	case !ok:
		return now, errors.New(fit(text, 20) + " is no end: write 10m, 1h, 2d, or a time such as 06:00Z")
	case until.Sub(now) > longest:
		return now, errors.New("at most " + count(int(longest/(24*time.Hour))) + " days: what is quiet for longer is forgotten")
	}
	return until.Truncate(time.Second), nil
}

// muting is a mute that is being asked for, one line after the other.
type muting struct {
	key   watchdog.AlertKey
	what  string // in words
	until time.Time
	on    bool // it stands already
}

func (m *Model) openMute() tea.Cmd { return m.openMuteWith("") }

// openMuteWith asks what is to be muted, until when, and why. Typed behind the
// name of the action all three may stand in one line.
func (m *Model) openMuteWith(line string) tea.Cmd {
	if line != "" {
		return m.muteLine(line)
	}
	pattern, key := "", watchdog.AlertKey("")
	switch l, a := m.alertLine(), m.alertHere(); {
	case m.top() == viewAlerts && l.mute != nil:
		pattern, _ = l.mute.Key.Pattern()
		return m.askMuteEnd(muting{key: l.mute.Key, what: pattern, on: true})
	case m.top() == viewAlerts && l.member != "":
		pattern = watchdog.EscapePattern(l.member)
	case m.top() == viewAlerts && a.Cause == watchdog.CauseGroup:
		pattern = commonPattern(a.Members)
	case m.top() == viewAlerts && a.ID == "":
		key = a.Key
		return m.askMuteEnd(muting{key: key, what: alertName(a), on: a.Standing == watchdog.AlertMuted})
	case m.top() == viewAlerts:
		pattern = watchdog.EscapePattern(a.ID)
	default:
		pattern = watchdog.EscapePattern(m.table.cursor)
	}
	return m.askNote("mute", "MUTE which sessions? a pattern such as etl-* takes in later ones too; esc: not", pattern,
		func(m *Model, text string) (tea.Cmd, bool) {
			mute, err := mutingOf(text)
			if err != nil {
				m.prompt.err = err.Error()
				return nil, false
			}
			return m.askMuteEnd(mute), false
		})
}

func mutingOf(pattern string) (muting, error) {
	n := watchdog.AlertNote{Key: watchdog.MatchKey(pattern), Kind: watchdog.NoteMute, At: time.Unix(1, 0)}
	return muting{key: n.Key, what: pattern}, n.Check()
}

// commonPattern takes in every one of some sessions, or nothing if they share no
// beginning.
func commonPattern(ids []watchdog.ID) string {
	if len(ids) == 0 {
		return ""
	}
	prefix := string(ids[0])
	for _, id := range ids[1:] {
		for !strings.HasPrefix(string(id), prefix) {
			_, size := utf8.DecodeLastRuneInString(prefix)
			prefix = prefix[:len(prefix)-size]
		}
	}
	if prefix == "" || len(ids) == 1 {
		return watchdog.EscapePattern(watchdog.ID(prefix))
	}
	return watchdog.EscapePattern(watchdog.ID(prefix)) + "*"
}

// askMuteEnd asks until when: nothing is muted for ever.
func (m *Model) askMuteEnd(mute muting) tea.Cmd {
	hint := "MUTE " + mute.what + " until when? 30m, 2h, 06:00Z; it always has an end"
	if mute.on {
		hint = "MUTE " + mute.what + ": a new end, or " + takeBack + " to hear of it again"
	}
	return m.askNote("until", hint, "", func(m *Model, text string) (tea.Cmd, bool) {
		if text == takeBack {
			return m.putNotes([]watchdog.Alert{{Key: mute.key}}, "heard again: "+mute.what, watchdog.AlertNote{Kind: watchdog.NoteClear}), true
		}
		until, err := m.endOf(text, longestMute)
		if err != nil {
			m.prompt.err = err.Error()
			return nil, false
		}
		mute.until = until
		return m.askMuteNote(mute), false
	})
}

// askMuteNote asks why: a mute without a word is a riddle to the next shift.
func (m *Model) askMuteNote(mute muting) tea.Cmd {
	end := untilText(&watchdog.AlertNote{Until: mute.until}, m.window.Now.Wall)
	return m.askNote("why", "MUTE "+mute.what+" to "+end+": why? it stands beside the mute for colleagues", "",
		func(m *Model, text string) (tea.Cmd, bool) {
			if text == "" {
				m.prompt.err = "type why; without a note nothing is muted"
				return nil, false
			}
			return m.mute(mute, text), true
		})
}

func (m *Model) mute(mute muting, note string) tea.Cmd {
	n := watchdog.AlertNote{Kind: watchdog.NoteMute, Until: mute.until, Text: note}
	return m.putNotes([]watchdog.Alert{{Key: mute.key}}, "muted to "+untilText(&n, m.window.Now.Wall)+": "+mute.what, n)
}

// muteLine takes "etl-* 06:00Z deploy".
func (m *Model) muteLine(line string) tea.Cmd {
	if off := answerable(m, "muting"); off != "" {
		return m.refuse(off)
	}
	pattern, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	mute, err := mutingOf(pattern)
	if err != nil {
		return m.refuse("not muted: " + err.Error())
	}
	end, note, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if end == "" {
		return m.askMuteEnd(mute)
	}
	if mute.until, err = m.endOf(end, longestMute); err != nil {
		return m.refuse("not muted: " + err.Error())
	}
	if note = strings.TrimSpace(note); note == "" {
		return m.askMuteNote(mute)
	}
	return m.mute(mute, note)
}

// clearNotes takes answers back.
func (m *Model) clearNotes(list []watchdog.Alert) tea.Cmd {
	var own []watchdog.Alert
	for _, a := range list {
		switch {
		case a.Note == nil:
		case a.Standing == watchdog.AlertMuted:
			own = append(own, watchdog.Alert{Key: a.Note.Key})
		default:
			own = append(own, watchdog.Alert{Key: a.Note.Key, Evidence: a.Evidence})
		}
	}
	if len(own) == 0 {
		return m.say("nothing was answered, so nothing is taken back")
	}
	return m.putNotes(own, "open again: "+answeringName(list), watchdog.AlertNote{Kind: watchdog.NoteClear})
}

// putNotes writes one note for each alert, off the screen's goroutine.
func (m *Model) putNotes(list []watchdog.Alert, said string, n watchdog.AlertNote) tea.Cmd {
	feed, gen := m.feed, m.gen
	n.At = time.Unix(0, m.window.Now.Wall).UTC()
	m.say("writing a note")
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), noteLimit)
		defer cancel()
		done := alertAnswered{gen: gen, said: said, of: len(list)}
		for i := range list {
			n.Key, n.Evidence = list[i].Key, list[i].Evidence
			err := feed.Note(ctx, n)
			if here := (*watchdog.KeptHere)(nil); errors.As(err, &here) {
				done.here, err = "; "+here.Error(), nil
			}
			if err != nil {
				done.err = err
				break
			}
			done.n++
		}
		return done
	}
}

// answered tells what became of an answer.
func (m *Model) answered(msg *alertAnswered) tea.Cmd {
	switch {
	case msg.gen != m.gen:
		return nil
	case msg.err != nil && msg.n > 0:
		return m.refuse(count(msg.n) + " of " + count(msg.of) + " were written, then: " + msg.err.Error())
	case msg.err != nil:
		return m.refuse("not written: " + msg.err.Error())
	}
	m.say(msg.said + msg.here)
	return m.ask()
}
