package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// taping keeps what comes into the engine behind a screen or a serve: for trials,
// and in a file if somebody wants that.
type taping struct{ *recording.Deck }

// newTaping taps an engine that is about to be made, if that is wanted; nil: it is
// not.
func newTaping(settings *config.Config, o *observerOptions, engine *watchdog.EngineConfig) *taping {
	if !o.tapes {
		return nil
	}
	t := &taping{recording.NewDeck(recording.MemoryOptions{Program: readBuild().Version, Name: nameOf(settings),
		Started: o.clock.Now(), Policy: settings.Policy, Sweeper: engine.Sweeper, Acts: engine.Acts})}
	engine.Tap = t.Deck
	return t
}

// offer lets a screen try and record.
func (t *taping) offer(about ui.About) ui.About {
	if t != nil {
		about.Trial, about.Recorder = t, t
	}
	return about
}

// close completes a file that is being recorded.
func (t *taping) close(log *slog.Logger) {
	if t == nil {
		return
	}
	if err := t.Close(); err != nil {
		log.Error("a recording is incomplete", "error", err)
	}
}

// Record begins to record to a new file.
func (t *taping) Record(_ context.Context, path string) error { return t.Deck.Record(path) }

// Stop completes the file and says what is in it.
func (t *taping) Stop(context.Context) (string, error) {
	tape, err := t.Deck.Stop()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("recorded %s and %s to %s, %d bytes", count(int(tape.Stats.Beats), "beat"), count(int(tape.Stats.Events), "event"),
		tape.Path, tape.Stats.Bytes), nil
}

// Tape says what is recorded now.
func (t *taping) Tape() (ui.Tape, bool) {
	tape, ok := t.Deck.Tape()
	if !ok {
		return ui.Tape{}, false
	}
	return ui.Tape{Path: tape.Path, For: tape.For, Bytes: tape.Stats.Bytes, Err: tape.Stats.Err}, true
}

// Reach is as far as memory goes back.
func (t *taping) Reach(context.Context) (ui.TrialReach, error) {
	from, to := t.Memory().Reach()
	text := fmt.Sprintf("what came in from %s, %s", time.Unix(0, from.Wall).UTC().Format("15:04:05Z"), age(to.Mono-from.Mono))
	if t.Memory().Overrun() {
		text += "; more comes now than is kept"
	}
	return ui.TrialReach{Policy: t.Policy(), Text: text}, nil
}

// Try judges what is kept by other thresholds.
func (t *taping) Try(ctx context.Context, words string) (watchdog.TrialResult, error) {
	would, err := watchdog.ParseTrial(t.Policy(), words)
	if err != nil {
		return watchdog.TrialResult{}, err
	}
	return t.judge(ctx, would, false)
}

func (t *taping) judge(ctx context.Context, would watchdog.Policy, gently bool) (watchdog.TrialResult, error) {
	r, err := t.Memory().Reader(ctx)
	if err != nil {
		return watchdog.TrialResult{}, err
	}
	result, _, err := judge(ctx, r, t.Policy(), would, gently)
	return result, err
}
