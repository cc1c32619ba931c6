package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// MaxAlarmAlerts is how many alerts one alarm lists, and maxAlarmTexts how many
// its sentence tells; the others are counted.
const (
	MaxAlarmAlerts = 20
	maxAlarmTexts  = 3
)

// Alarm is what leaves the house when alerts open: one alert, or a digest of
// several that came too fast to be told one by one.
type Alarm struct {
	ID      string // of this telling: the same when it is tried again
	At      time.Time
	Cluster string           // what is watched, as people call it
	Writer  string           // who tells; empty unknown
	Raised  []watchdog.Raise // at least one, at most MaxAlarmAlerts, the most pressing first
	More    int              // alerts that are counted and not listed
}

// NewAlarm makes the alarm of what was raised. more is how many alerts there are
// besides.
func NewAlarm(raised []watchdog.Raise, more int) Alarm {
	raised = slices.Clone(raised)
	slices.SortStableFunc(raised, func(a, b watchdog.Raise) int { return int(a.Alert.Attention) - int(b.Alert.Attention) })
	if over := len(raised) - MaxAlarmAlerts; over > 0 {
		raised, more = raised[:MaxAlarmAlerts], more+over
	}
	return Alarm{Raised: raised, More: more}
}

// Text is the alarm in a sentence or some.
func (a Alarm) Text() string {
	told := a.Raised[:min(len(a.Raised), maxAlarmTexts)]
	var texts []string
	for _, r := range told {
		texts = append(texts, raiseText(r))
	}
	all := len(a.Raised) + a.More
	if all == 1 {
		return texts[0]
	}
	if rest := all - len(told); rest > 0 {
		texts = append(texts, fmt.Sprintf("And %d more.", rest))
	}
	return fmt.Sprintf("%d alerts: ", all) + strings.Join(texts, " ")
}

func raiseText(r watchdog.Raise) string {
	text := termtext.Clean(r.Alert.Text)
	if r.Again != "" {
		text += " Open again: " + termtext.Clean(r.Again) + "."
	}
	return text
}

type alarm struct {
	ID         string      `json:"id"`
	At         string      `json:"at"`
	Session    text        `json:"session_id"`
	Generation ordinal     `json:"generation"`
	Kind       string      `json:"kind"`
	From       text        `json:"from"`
	To         text        `json:"to"`
	Text       string      `json:"text"`
	Cluster    text        `json:"cluster"`
	Writer     text        `json:"writer"`
	Alerts     []alarmItem `json:"alerts"`
	More       int         `json:"more"`
}

type alarmItem struct {
	Key        string        `json:"key"`
	Session    text          `json:"session_id"`
	Generation ordinal       `json:"generation"`
	Cause      string        `json:"cause"`
	Sessions   ordinal       `json:"sessions"`
	Since      instant       `json:"since"`
	Text       string        `json:"text"`
	Again      text          `json:"again"`
	Found      bool          `json:"found"` // it stood already when the writer first looked
	Shared     text          `json:"shared"`
	Held       bool          `json:"held"`
	HeldFor    secs          `json:"held_secs"`
	Members    []watchdog.ID `json:"members"`
}

// EncodeAlarm spells an alarm as one JSON object: an event as events --json prints
// them, of kind alert or alerts, and what it is about. Its session is null where
// it is about several.
func EncodeAlarm(a Alarm) ([]byte, error) {
	out := alarm{ID: a.ID, At: FormatTime(a.At), Kind: "alerts", Text: a.Text(), Cluster: text(termtext.Clean(a.Cluster)), Writer: text(termtext.Clean(a.Writer)),
		Alerts: make([]alarmItem, len(a.Raised)), More: a.More}
	for i, r := range a.Raised {
		out.Alerts[i] = itemOf(r)
	}
	if len(a.Raised) == 1 && a.More == 0 {
		one := out.Alerts[0]
		out.Kind, out.Session, out.Generation, out.To = "alert", one.Session, one.Generation, text(one.Cause)
	}
	return marshal(out)
}

func itemOf(r watchdog.Raise) alarmItem {
	a := &r.Alert
	item := alarmItem{Key: termtext.Clean(string(a.Key)), Session: text(termtext.Clean(string(a.ID))), Generation: ordinal(a.Generation), Cause: a.Cause.String(),
		Sessions: ordinal(a.N), Text: raiseText(r), Again: text(termtext.Clean(r.Again)), Found: r.Found, Shared: text(termtext.Clean(a.Shared)),
		Held: a.HeldFor != 0, HeldFor: secs(a.HeldFor), Members: []watchdog.ID{}}
	if a.Began != 0 {
		item.Since = instant(time.Unix(0, a.Began))
	}
	if a.HeldFor == 0 {
		item.HeldFor = -1
	}
	for _, id := range a.Members {
		item.Members = append(item.Members, watchdog.ID(termtext.Clean(string(id))))
	}
	return item
}
