package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// handoverLine is one line of a hand-over.
type handoverLine struct {
	text    string // all of it, but for the word in front
	word    string // what kind of thing it is; empty: none stands there
	means   meaning
	heading bool
	dim     bool
	id      watchdog.ID // of which it tells; "" of none
}

// handoverWord is how wide the word in front is.
const handoverWord = 11

func (l *handoverLine) plain() string {
	if l.word == "" {
		return l.text
	}
	return " " + padded(l.word, handoverWord) + l.text
}

func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(width-cells(text), 1))
}

// HandoverText is a hand-over as text without escape codes, a line each. Name is
// what is watched, by who hands over; both may be empty.
func HandoverText(h *watchdog.Handover, name, by string) []string {
	list := handoverLines(h, name, by)
	out := make([]string, len(list))
	for i := range list {
		out[i] = strings.TrimRight(termtext.CleanLong(list[i].plain()), " ")
	}
	return out
}

// handoverLines writes a hand-over down.
func handoverLines(h *watchdog.Handover, name, by string) []handoverLine {
	t := handoverTimes{h.Until}
	title := "HANDOVER " + name + "  " + t.minute(h.Since) + "-" + t.minute(h.Until)
	if by != "" {
		title += "  " + by
	}
	out := []handoverLine{{heading: true, text: strings.ReplaceAll(title, "HANDOVER   ", "HANDOVER  ")}}
	out = append(out, handoverReach(h, t)...)
	for _, part := range [][]handoverLine{t.open(h), t.happened(h), t.actions(h), t.quiet(h), t.blind(h)} {
		out = append(out, part...)
	}
	if h.Unlisted > 0 {
		out = append(out, handoverLine{dim: true, text: " " + count(h.Unlisted) + " more are counted and not listed"})
	}
	return out
}

// handoverReach says from when on everything is known, if that is not all.
func handoverReach(h *watchdog.Handover, t handoverTimes) []handoverLine {
	var out []handoverLine
	say := func(text string) { out = append(out, handoverLine{dim: true, text: " " + text}) }
	switch {
	case !h.Known.After(h.Since):
	case h.Known.Before(h.Looks):
		say("a history is kept since " + t.minute(h.Known) + "; before that nothing is known here")
	case h.Known.After(h.Looks):
		say("more happened than is kept: nothing is known of before " + t.minute(h.Known))
	default:
		say("this process looks since " + t.minute(h.Known) + "; before that nothing is known here")
	}
	for _, d := range h.Doubts {
		say(d)
	}
	if !h.Seeing {
		out = append(out, handoverLine{text: " no source is seen now: what is open may be of before"})
	}
	return out
}

// handoverTimes writes times as they are read at the end of a hand-over.
type handoverTimes struct{ end time.Time }

// minute is "03:13Z", with its day where that is another one.
func (t handoverTimes) minute(at time.Time) string {
	if d := t.end.Sub(at); d > 24*time.Hour || d < -24*time.Hour {
		return at.UTC().Format("2006-01-02 15:04Z")
	}
	return at.UTC().Format("15:04Z")
}

func (t handoverTimes) second(at time.Time) string { return wall(at.UnixNano(), t.end.UnixNano()) }

// handoverHead is "OPEN 9, 1 of them acknowledged"; with nothing "OPEN none".
func handoverHead(name string, parts ...string) handoverLine {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	if len(said) == 0 {
		said = []string{"none"}
	}
	return handoverLine{heading: true, text: padded(name, handoverWord-1) + strings.Join(said, ", ")}
}

// some counts what there is; empty if there is nothing.
func some(n int, word string) string {
	if n == 0 {
		return ""
	}
	return counted(n, word)
}

func handoverName(id watchdog.ID, g watchdog.Generation) string {
	return string(id) + " " + generation(g)
}

func (t handoverTimes) open(h *watchdog.Handover) []handoverLine {
	acked := ""
	if h.Acked > 0 {
		acked = count(h.Acked) + " of them acknowledged"
	}
	out := []handoverLine{handoverHead("OPEN", some(h.OpenTotal, "alert"), acked)}
	for i := range h.Open {
		a := &h.Open[i]
		l := handoverLine{word: a.Cause, id: a.ID, means: causeMeans(a.Cause)}
		text := strings.TrimSuffix(a.Text, ".")
		if a.ID != "" {
			l.text = handoverName(a.ID, a.Generation) + "  "
			_, text, _ = strings.Cut(text, ": ")
		} else {
			l.text, text = text+"  ", ""
		}
		l.text += "since " + t.minute(a.Began)
		if a.Held {
			l.text += "  still HELD"
		}
		if a.Standing == watchdog.AlertOpen.String() {
			l.text += "  nobody has answered"
		} else {
			l.text += "  " + a.Standing + behind(" ", a.Author) + noteQuoted(a.Note)
			l.means = meansNothing
		}
		if text != "" {
			l.text += ": " + text
		}
		out = append(out, l)
	}
	return out
}

// causeMeans is the colour of a cause.
func causeMeans(word string) meaning {
	switch c, _ := watchdog.CauseOf(word); c {
	case watchdog.CauseStalled, watchdog.CauseWedged, watchdog.CauseCrashLoop, watchdog.CauseGroup, watchdog.CauseReapRate, watchdog.CauseAction:
		return meansAct
	case watchdog.CauseLost, watchdog.CauseError:
		return meansBadEnd
	case watchdog.CauseHuman, watchdog.CauseOverdue:
		return meansWait
	}
	return meansSuspect
}

func noteQuoted(text string) string {
	if text == "" {
		return ""
	}
	return " \"" + text + "\""
}

func (t handoverTimes) happened(h *watchdog.Handover) []handoverLine {
	out := []handoverLine{handoverHead("HAPPENED", some(h.Alerts, "alert"), some(h.Groups, "group"))}
	for i := range h.Happened {
		out = append(out, t.incident(&h.Happened[i]))
	}
	return out
}

// incident is "03:03Z indexer #2: no work for 5m; 9m02, then running".
func (t handoverTimes) incident(one *watchdog.HandoverIncident) handoverLine {
	v, _ := watchdog.VerdictOf(one.Verdict)
	l := handoverLine{word: one.Verdict, id: one.ID, text: t.minute(one.At) + "  "}
	if one.Until == nil {
		g := DefaultGlyphs(true)
		_, l.means = g.verdict(v)
	}
	if one.ID != "" {
		l.text += handoverName(one.ID, one.Generation)
		if one.Text != "" {
			l.text += ": " + one.Text
		}
	} else {
		l.word, l.text = "group", l.text+one.Text
	}
	if one.Times > 1 {
		l.text += "; " + count(one.Times) + " times"
	}
	if one.Found {
		l.text += "; it stood when it was first seen"
	}
	if one.Released != "" {
		l.text += "; " + one.Released
	}
	switch {
	case one.Until != nil && one.ID == "":
		l.text += "; over at " + t.minute(*one.Until) + ": " + one.Became
	case one.Until != nil:
		l.text += "; " + age(one.Until.Sub(one.At)) + ", then " + one.Became
	case one.Became != "":
		l.text += "; what became of it is not known"
	case v.Ended():
	default:
		l.text += "; still"
	}
	return l
}

func (t handoverTimes) actions(h *watchdog.Handover) []handoverLine {
	out := []handoverLine{handoverHead("ACTIONS", some(len(h.Actions), "action"))}
	for i := range h.Actions {
		a := &h.Actions[i]
		text := t.minute(a.At)
		if a.ID != "" {
			text += "  " + handoverName(a.ID, a.Generation)
		}
		if a.Next != 0 {
			text += " > " + generation(a.Next)
		}
		text += behind("  by ", a.By) + noteQuoted(a.Reason)
		switch {
		case a.Fate == "":
			text += ": what became of it is not known"
		case a.Fate == watchdog.FateEffective.String():
			text += ": effective in " + age(time.Duration(a.Secs*float64(time.Second)))
		case a.Final:
			text += ": " + handoverFate(a.Fate) + behind(": ", a.Detail)
		default:
			text += ": " + handoverFate(a.Fate) + " so far"
		}
		l := handoverLine{word: a.Op, text: text, id: a.ID}
		if a.Final && a.Fate != watchdog.FateEffective.String() {
			l.means = meansSuspect
		}
		out = append(out, l)
	}
	return out
}

func behind(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// handoverFate is a fate in words for people.
func handoverFate(word string) string {
	f, err := watchdog.ParseFate(word)
	if err != nil {
		return word
	}
	return f.Sentence()
}

func (t handoverTimes) quiet(h *watchdog.Handover) []handoverLine {
	out := []handoverLine{handoverHead("QUIET", some(len(h.Quiet), "note"))}
	for i := range h.Quiet {
		q := &h.Quiet[i]
		l := handoverLine{word: "muted", text: q.What + "  without an end"}
		if q.Kind == watchdog.NoteSnooze.String() {
			l.word = "snoozed"
		}
		if q.Until != nil {
			l.text = q.What + "  to " + t.minute(*q.Until)
		}
		l.text += behind("  by ", q.Author) + noteQuoted(q.Note)
		out = append(out, l)
	}
	return out
}

func (t handoverTimes) blind(h *watchdog.Handover) []handoverLine {
	nobody := ""
	if len(h.Blind) > 0 {
		nobody = "nobody accused because of it"
	}
	out := []handoverLine{handoverHead("BLIND", some(len(h.Blind), "time"), nobody)}
	for i := range h.Blind {
		b := &h.Blind[i]
		until, long := "now", t.end.Sub(b.From)
		if b.Until != nil {
			until, long = t.second(*b.Until), b.Until.Sub(b.From)
		}
		l := handoverLine{word: b.Source, text: fmt.Sprintf("%s-%s  %s", t.second(b.From), until, age(long))}
		switch {
		case b.Source != "":
			l.text += behind(": ", b.Reason)
		case b.Vague:
			l.word, l.text = "nobody", l.text+": the serve ended without a word; nobody looked for a part of it"
		default:
			l.word, l.text = "nobody", l.text+": the serve did not run, nobody looked"
		}
		if b.Until == nil {
			l.means = meansSuspect
		}
		out = append(out, l)
	}
	return out
}
