package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// judge tries another policy on a recording, headless and as fast as it can, or
// gently: beside work that must not wait.
func judge(ctx context.Context, r *recording.Reader, now, would watchdog.Policy, gently bool) (watchdog.TrialResult, recording.Result, error) {
	trial := watchdog.NewTrial(now, would, r.Header().Started)
	result, err := recording.Replay(r, trial, recording.ReplayOptions{Stop: ctx.Done(), Gently: gently})
	if err != nil {
		return watchdog.TrialResult{}, result, err
	}
	return trial.Result(), result, nil
}

// replayTrial tries on a recording that is shown.
type replayTrial struct{ path string }

// Reach is the whole recording.
func (t replayTrial) Reach(context.Context) (ui.TrialReach, error) {
	r, err := openRecording(t.path)
	if err != nil {
		return ui.TrialReach{}, err
	}
	defer r.Close()
	return ui.TrialReach{Policy: r.Header().Policy, Text: "the whole recording, from " +
		time.Unix(0, r.Header().Started.Wall).UTC().Format("15:04:05Z")}, nil
}

// Try judges it by other thresholds.
func (t replayTrial) Try(ctx context.Context, words string) (watchdog.TrialResult, error) {
	r, err := openRecording(t.path)
	if err != nil {
		return watchdog.TrialResult{}, err
	}
	defer r.Close()
	would, err := watchdog.ParseTrial(r.Header().Policy, words)
	if err != nil {
		return watchdog.TrialResult{}, err
	}
	result, _, err := judge(ctx, r, r.Header().Policy, would, false)
	return result, err
}

// servedTrial tries on what came into this serve.
type servedTrial struct{ *taping }

// Reach is as far as memory goes back.
func (t servedTrial) Reach(ctx context.Context) (serveview.TrialReach, error) {
	reach, err := t.taping.Reach(ctx)
	return serveview.TrialReach(reach), err
}

// Try judges what is kept by another policy, beside the work of the serve.
func (t servedTrial) Try(ctx context.Context, would watchdog.Policy) (watchdog.TrialResult, error) {
	return t.judge(ctx, would, true)
}

// remoteTrial tries on what came into a serve.
type remoteTrial struct{ client *serveview.Client }

// Reach is as far as the memory of the serve goes back.
func (t remoteTrial) Reach(ctx context.Context) (ui.TrialReach, error) {
	reach, err := t.client.TrialReach(ctx)
	return ui.TrialReach(reach), err
}

// Try lets the serve judge it.
func (t remoteTrial) Try(ctx context.Context, words string) (watchdog.TrialResult, error) {
	return t.client.Try(ctx, words)
}

// tryRecording prints what other thresholds would have raised in a recording.
func (a *app) tryRecording(path, words string, asJSON bool) error {
	r, err := openRecording(path)
	if err != nil {
		return untold(err)
	}
	defer r.Close()
	would, err := watchdog.ParseTrial(r.Header().Policy, words)
	if err != nil {
		return &usageError{fmt.Errorf("--trial: %w", err)}
	}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	result, played, err := judge(ctx, r, r.Header().Policy, would, false)
	if err != nil {
		return untold(err)
	}
	for _, gap := range played.Gaps {
		a.note("the recorder lost something: %s", gap)
	}
	if played.Note != "" {
		a.note("%s", played.Note)
	}
	return a.printTrial(&result, asJSON)
}

func (a *app) printTrial(r *watchdog.TrialResult, asJSON bool) error {
	if asJSON {
		return a.say(encodeTrial(a.env.Stdout, r))
	}
	p := &printer{w: a.env.Stdout}
	for _, line := range ui.TrialText(r) {
		p.printf("%s\n", clean(line))
	}
	return a.say(p.err)
}

// exportTrial writes a trial as JSON or as text.
func exportTrial(to io.Writer, e *ui.Export) error {
	if strings.HasSuffix(e.Path, ".json") {
		return encodeTrial(to, e.Trial)
	}
	_, err := io.WriteString(to, strings.Join(ui.TrialText(e.Trial), "\n")+"\n")
	return err
}

// The JSON of a trial.
type (
	trialDocument struct {
		Changes  []string       `json:"changes"`
		From     string         `json:"from"`
		To       string         `json:"to"`
		Seconds  float64        `json:"seconds"`
		Sessions int            `json:"sessions"`
		Beats    uint64         `json:"beats"`
		Verdicts []trialVerdict `json:"verdicts"`
		Groups   trialGroups    `json:"groups"`
		Own      []trialOwn     `json:"own"`
		Raised   []trialRaised  `json:"raised"`
		Unlisted int            `json:"unlisted"`
	}
	trialVerdict struct {
		Verdict string     `json:"verdict"`
		Now     trialCount `json:"now"`
		Would   trialCount `json:"would"`
		New     int        `json:"new"`
		Gone    int        `json:"gone"`
	}
	trialCount struct {
		Raised    int `json:"raised"`
		Recovered int `json:"recovered"`
	}
	trialGroups struct {
		Now   int `json:"now"`
		Would int `json:"would"`
	}
	trialOwn struct {
		Threshold string `json:"threshold"`
		From      string `json:"from"`
		Sessions  int    `json:"sessions"`
	}
	trialRaised struct {
		ID         watchdog.ID          `json:"session_id"`
		Generation *watchdog.Generation `json:"generation"`
		Verdict    string               `json:"verdict"`
		Change     string               `json:"change"`
		Now        *trialRaise          `json:"now"`
		Would      *trialRaise          `json:"would"`
	}
	trialRaise struct {
		At     string  `json:"at"`
		Until  string  `json:"until"`
		Lasted float64 `json:"lasted_secs"`
		End    string  `json:"end"`
		Next   string  `json:"next"`
		Why    string  `json:"why"`
	}
)

func encodeTrial(w io.Writer, r *watchdog.TrialResult) error {
	doc := trialDocument{Changes: append([]string{}, r.Changes...), From: stamp(r.From), To: stamp(r.To),
		Seconds: (r.To.Mono - r.From.Mono).Seconds(), Sessions: r.Sessions, Beats: r.Beats, Verdicts: []trialVerdict{},
		Groups: trialGroups{r.GroupsNow, r.GroupsWould}, Own: []trialOwn{}, Raised: []trialRaised{}, Unlisted: r.Unlisted}
	for _, v := range r.Verdicts {
		doc.Verdicts = append(doc.Verdicts, trialVerdict{v.Verdict.String(), trialCount(v.Now), trialCount(v.Would), v.New, v.Gone})
	}
	for _, o := range r.Own {
		doc.Own = append(doc.Own, trialOwn{o.Name, o.From, o.Sessions})
	}
	for i := range r.Raised {
		t := &r.Raised[i]
		one := trialRaised{ID: t.ID, Verdict: t.Verdict.String(), Change: "moved", Now: raiseOf(t.Now), Would: raiseOf(t.Would)}
		if t.Generation != 0 {
			one.Generation = &t.Generation
		}
		switch {
		case t.Now == nil:
			one.Change = "new"
		case t.Would == nil:
			one.Change = "gone"
		case t.Same():
			one.Change = "same"
		}
		doc.Raised = append(doc.Raised, one)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(doc)
}

func raiseOf(r *watchdog.TrialRaise) *trialRaise {
	if r == nil {
		return nil
	}
	return &trialRaise{At: stamp(r.At), Until: stamp(r.Until), Lasted: r.Lasted().Round(time.Millisecond).Seconds(), End: r.End.String(), Next: r.Next.String(), Why: r.Text}
}

func stamp(i watchdog.Instant) string {
	return time.Unix(0, i.Wall).UTC().Format("2006-01-02T15:04:05.000Z")
}
