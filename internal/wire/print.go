package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// EncodeList prints the sessions of a window as ls --json does: an array sorted
// by id.
func EncodeList(to io.Writer, w watchdog.Window) error {
	return write(to, rowsOf(w.Rows))
}

// EncodeDetail prints the session that a window explains as get --json does: an
// element of the list with its settings, its process and its history.
func EncodeDetail(to io.Writer, w watchdog.Window) error {
	if w.Focus == nil {
		return errNoFocus
	}
	return write(to, sessionOf(w.Focus))
}

// EncodeWhy prints the evidence of the session that a window explains as why
// --json does.
func EncodeWhy(to io.Writer, w watchdog.Window) error {
	if w.Focus == nil {
		return errNoFocus
	}
	return write(to, whyOf(w.Focus))
}

var errNoFocus = errors.New("the window explains no session; ask for one with Ask.Focus")

// Check is the answer of check.
type Check struct {
	Result  int            // its exit code: 0 healthy, 1 bad news, 2 could not tell
	Failed  []watchdog.Row // the sessions that made it bad news
	Sight   time.Duration  // for how long the sources were seen
	Unknown int            // sessions about which nothing could be told
}

// EncodeCheck prints the answer of check --json.
func EncodeCheck(to io.Writer, c Check) error {
	result := "could_not_tell"
	switch c.Result {
	case 0:
		result = "healthy"
	case 1:
		result = "bad_news"
	}
	return write(to, check{Result: result, Failed: rowsOf(c.Failed), Sight: secs(c.Sight), Unknown: c.Unknown})
}

// Finding is one line of doctor.
type Finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// EncodeDoctor prints the findings of doctor --json in their order.
func EncodeDoctor(to io.Writer, findings []Finding) error {
	return write(to, append([]Finding{}, findings...))
}

// write encodes v for people as much as for programs: indented, and without the
// escapes that only HTML needs.
func write(to io.Writer, v any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// The shapes below are what is printed. What is unknown is null, never absent.

type row struct {
	ID           watchdog.ID `json:"session_id"`
	Generation   ordinal     `json:"generation"`
	Verdict      string      `json:"verdict"`
	Since        secs        `json:"since_secs"`
	State        text        `json:"state"`
	BeatAge      secs        `json:"beat_age_secs"`
	BeatEstimate bool        `json:"beat_age_estimated"`
	WorkAge      secs        `json:"work_age_secs"`
	WorkKnown    bool        `json:"work_known"`
	Uptime       secs        `json:"uptime_secs"`
	Credits      amount      `json:"credits_remaining"`
	Task         text        `json:"current_task"`
	WaitingFor   text        `json:"waiting_for"`
	Agent        text        `json:"agent_id"`
	Host         text        `json:"host"`
	Sources      []string    `json:"sources"`
}

type session struct {
	row
	Settings settings `json:"settings"`
	Process  process  `json:"process"`
	History  history  `json:"history"`
}

// settings are the thresholds that hold for a session, and who set them.
type settings struct {
	Cadence     secs `json:"cadence_secs"`
	CadenceFrom text `json:"cadence_from"`
	Interval    secs `json:"heartbeat_interval_secs"`
	Stall       secs `json:"stall_timeout_secs"`
	StallFrom   text `json:"stall_timeout_from"`
	WaitMax     secs `json:"waiting_max_secs"`
}

// process is what the publisher said of itself.
type process struct {
	PID     ordinal `json:"pid"`
	BootID  text    `json:"boot_id"`
	Seq     index   `json:"seq"`
	LoopLag millis  `json:"loop_lag_ms"`
	Message text    `json:"message"`
}

// history is what we saw of it: counts for each step, oldest first, of which
// the newest ones within watched_secs mean anything.
type history struct {
	FirstSeen secs   `json:"first_seen_secs"`
	Watched   secs   `json:"watched_secs"`
	TaskSince secs   `json:"task_since_secs"`
	LateBeats uint64 `json:"late_beats"`
	Burn      amount `json:"credits_per_min"`
	Step      secs   `json:"step_secs"`
	Covered   secs   `json:"covered_secs"`
	Beats     []int  `json:"beats"`
	Work      []int  `json:"work"`
}

type why struct {
	ID         watchdog.ID `json:"session_id"`
	Generation ordinal     `json:"generation"`
	Verdict    string      `json:"verdict"`
	Since      secs        `json:"since_secs"`
	Rule       text        `json:"rule"`
	Inputs     []input     `json:"inputs"`
	Threshold  secs        `json:"threshold_secs"`
	Next       []forecast  `json:"next"`
	Sight      []sight     `json:"sight"`
	Held       text        `json:"held"`
	Can        can         `json:"can"`
}

type input struct {
	Name      string `json:"name"`
	Value     any    `json:"value"`
	Unit      text   `json:"unit"`
	Source    text   `json:"source"`
	Age       secs   `json:"age_secs"`
	Estimated bool   `json:"estimated"`
}

type forecast struct {
	Verdict string `json:"verdict"`
	In      secs   `json:"in_secs"`
	If      text   `json:"if"`
}

type sight struct {
	Source string `json:"source"`
	Up     bool   `json:"up"`
	Since  secs   `json:"since_secs"`
}

type can struct {
	Stop    bool `json:"stop"`
	Kill    bool `json:"kill"`
	Expire  bool `json:"expire"`
	Restart bool `json:"restart"`
	Dump    bool `json:"dump"`
	WhyNot  text `json:"why_not"`
}

type check struct {
	Result  string `json:"result"`
	Failed  []row  `json:"failed"`
	Sight   secs   `json:"sight_secs"`
	Unknown int    `json:"unknown"`
}

func rowsOf(rows []watchdog.Row) []row {
	out := make([]row, len(rows))
	for i := range rows {
		out[i] = rowOf(&rows[i])
	}
	slices.SortFunc(out, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Generation, b.Generation))
	})
	return out
}

func rowOf(r *watchdog.Row) row {
	return row{
		ID: r.ID, Generation: ordinal(r.Generation), Verdict: r.Verdict.String(), Since: secs(r.For), State: text(r.State),
		BeatAge: secs(r.BeatAge), BeatEstimate: r.BeatKind == watchdog.AgeEstimated, WorkAge: secs(r.WorkAge), WorkKnown: r.WorkKnown,
		Uptime: secs(r.UptimeSaid), Credits: amount(r.Credits), Task: text(r.Task), WaitingFor: text(r.Waiting.String()),
		Agent: text(r.Agent), Host: text(r.Host), Sources: sourcesOf(r.Sources),
	}
}

func sourcesOf(set watchdog.SourceSet) []string {
	names := []string{}
	for _, s := range set.Sources() {
		names = append(names, s.String())
	}
	return names
}

func sessionOf(d *watchdog.Detail) session {
	return session{
		row: rowOf(&d.Row),
		Settings: settings{
			Cadence: orUnknown(d.Cadence), CadenceFrom: text(d.CadenceFrom), Interval: orUnknown(d.Interval),
			Stall: orUnknown(d.StallTimeout), StallFrom: text(d.StallFrom), WaitMax: orUnknown(d.WaitMax),
		},
		Process: process{
			PID: ordinal(d.PID), BootID: text(d.BootID), Seq: index(d.Seq), LoopLag: millis(d.LoopLag), Message: text(d.Message),
		},
		History: history{
			FirstSeen: secs(d.FirstSeen), Watched: secs(d.Watched), TaskSince: secs(d.TaskSince), LateBeats: d.LateBeats,
			Burn: amount(d.BurnPerMin), Step: secs(watchdog.HistoryStep), Covered: secs(d.HistorySince),
			Beats: counts(d.Beats[:]), Work: counts(d.Work[:]),
		},
	}
}

func counts(ring []uint8) []int {
	out := make([]int, len(ring))
	for i, n := range ring {
		out[i] = int(n)
	}
	return out
}

func canOf(c *watchdog.Can) can {
	may := c.May.Has
	return can{Stop: may(watchdog.OpStop), Kill: may(watchdog.OpKill), Expire: may(watchdog.OpExpire), Restart: may(watchdog.OpRestart),
		Dump: may(watchdog.OpDump), WhyNot: text(c.WhyNot())}
}

func whyOf(d *watchdog.Detail) why {
	e := &d.Evidence
	w := why{
		ID: d.ID, Generation: ordinal(d.Generation), Verdict: d.Verdict.String(), Since: secs(d.For), Rule: text(e.Rule),
		Inputs: make([]input, len(e.Inputs)), Threshold: orUnknown(e.Threshold), Next: make([]forecast, len(e.Next)),
		Sight: make([]sight, len(e.Sight)), Held: text(e.Held),
		Can: canOf(&d.Can),
	}
	for i, in := range e.Inputs {
		w.Inputs[i] = input{in.Name, valueOf(in), text(in.Unit), text(in.Source), secs(in.Age), in.Estimated}
	}
	for i, f := range e.Next {
		w.Next[i] = forecast{f.Verdict.String(), secs(f.In), text(f.If)}
	}
	for i, s := range e.Sight {
		w.Sight[i] = sight{s.Source.String(), s.Up, secs(s.Since)}
	}
	return w
}

// valueOf is a number where a unit says that it is one, else text.
func valueOf(in watchdog.Input) any {
	if n := json.Number(in.Value); in.Unit != "" && n != "" && json.Valid([]byte(n)) {
		return n
	}
	return text(in.Value)
}

// orUnknown is for durations of which 0 says that there is none.
func orUnknown(d time.Duration) secs {
	if d == 0 {
		return -1
	}
	return secs(d)
}
