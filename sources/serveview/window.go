package serveview

import (
	"encoding/json"
	"math"

	"github.com/sessionwatch/sessionwatch/internal/query"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// asked is an Ask in words.
type asked struct {
	Seq           uint64      `json:"seq"`
	Query         string      `json:"query"`
	SortBy        string      `json:"sort"`
	Invert        bool        `json:"invert"`
	OnlyAttention bool        `json:"only_attention"`
	KeepEnded     bool        `json:"keep_ended"`
	Anchor        watchdog.ID `json:"anchor"`
	Offset        int         `json:"offset"`
	Height        int         `json:"height"`
	Focus         watchdog.ID `json:"focus"`
	Payload       bool        `json:"payload"`
	Events        int         `json:"events"`
	EventsOf      watchdog.ID `json:"events_of"`
	Actions       int         `json:"actions"`

	Picked []watchdog.ID `json:"picked"`
	Alerts int           `json:"alerts"`
}

func spell(a *watchdog.Ask) asked {
	return asked{Seq: a.Seq, Query: a.Query, SortBy: a.SortBy, Invert: a.Invert, OnlyAttention: a.OnlyAttention, KeepEnded: a.KeepEnded,
		Anchor: a.Anchor, Offset: a.Offset, Height: a.Height, Focus: a.Focus, Payload: a.Payload, Events: a.Events, EventsOf: a.EventsOf, Actions: a.Actions, Picked: a.Picked, Alerts: a.Alerts}
}

// compile gives the Ask that the words mean. Its error says which word is wrong.
func (w *asked) compile() (watchdog.Ask, error) {
	q, err := query.Compile(w.Query)
	if err != nil {
		return watchdog.Ask{}, err
	}
	key, err := query.SortBy(w.SortBy)
	if err != nil {
		return watchdog.Ask{}, err
	}
	return watchdog.Ask{Seq: w.Seq, Match: q.Match(), Sort: key.Key, Query: w.Query, SortBy: w.SortBy, Invert: w.Invert,
		OnlyAttention: w.OnlyAttention, KeepEnded: w.KeepEnded, Anchor: w.Anchor, Offset: w.Offset, Height: w.Height,
		Focus: w.Focus, Payload: w.Payload, Events: w.Events, EventsOf: w.EventsOf, Actions: w.Actions, Picked: w.Picked, Alerts: w.Alerts}, nil
}

// number is a float that may be unknown: NaN here, null in JSON.
type number float64

// MarshalJSON spells what no JSON number can as null.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// The types below stand over the fields of the domain's that may be NaN; the
// rest is spelled by the field names of package watchdog.
type (
	window struct {
		watchdog.Window
		Rows  []row
		Focus *detail
	}
	row struct {
		watchdog.Row
		Credits  number
		Progress progress
	}
	progress struct {
		watchdog.Progress
		PerMinute, WasPerMin number
	}
	detail struct {
		watchdog.Detail
		Credits                   number
		Progress                  progress
		BurnPerMin, WasBurnPerMin number
		Process                   *process
	}
	process struct {
		watchdog.Process
		CPU number
	}
)

func encodeWindow(w *watchdog.Window) ([]byte, error) {
	out := window{Window: *w, Rows: make([]row, len(w.Rows))}
	for i := range w.Rows {
		out.Rows[i] = row{w.Rows[i], number(w.Rows[i].Credits), spellProgress(&w.Rows[i].Progress)}
	}
	if d := w.Focus; d != nil {
		out.Focus = &detail{Detail: *d, Credits: number(d.Credits), Progress: spellProgress(&d.Progress),
			BurnPerMin: number(d.BurnPerMin), WasBurnPerMin: number(d.WasBurnPerMin)}
		if d.Process != nil {
			out.Focus.Process = &process{*d.Process, number(d.Process.CPU)}
		}
	}
	return json.Marshal(&out)
}

func spellProgress(p *watchdog.Progress) progress {
	return progress{*p, number(p.PerMinute), number(p.WasPerMin)}
}

func (p *progress) read() watchdog.Progress {
	out := p.Progress
	out.PerMinute, out.WasPerMin = float64(p.PerMinute), float64(p.WasPerMin)
	return out
}

func decodeWindow(b []byte) (watchdog.Window, error) {
	var in window
	if err := json.Unmarshal(b, &in); err != nil {
		return watchdog.Window{}, err
	}
	w := in.Window
	w.Rows = make([]watchdog.Row, len(in.Rows))
	for i := range in.Rows {
		w.Rows[i] = in.Rows[i].Row
		w.Rows[i].Credits, w.Rows[i].Progress = float64(in.Rows[i].Credits), in.Rows[i].Progress.read()
	}
	if d := in.Focus; d != nil {
		out := d.Detail
		out.Credits, out.Progress = float64(d.Credits), d.Progress.read()
		out.BurnPerMin, out.WasBurnPerMin = float64(d.BurnPerMin), float64(d.WasBurnPerMin)
		if d.Process != nil {
			out.Process = &watchdog.Process{}
			*out.Process = d.Process.Process
			out.Process.CPU = float64(d.Process.CPU)
		}
		w.Focus = &out
	}
	return w, nil
}
