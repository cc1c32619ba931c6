package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/recording"
	"github.com/sessionwatch/sessionwatch/ui"
)

// recordStep is how often a recording is looked at while it is made.
const recordStep = time.Second

func (a *app) recordCommand() *cobra.Command {
	var f flags
	var length time.Duration
	var force bool
	c := &cobra.Command{
		Use:   "record FILE",
		Short: "Record everything that the sources tell",
		Long: `Attach to the configured servers and write everything that they tell to FILE,
until interrupted. A name that ends in .gz is compressed. The recording holds
what was seen, not what was concluded, so that it can be judged again: replay
shows it on the screen, and ls, get, why and check take it with --from.`,
		Example: `  sessionwatch record night.jsonl.gz --for 8h
  sessionwatch check --from night.jsonl.gz`,
		Args:    cobra.ExactArgs(1),
		GroupID: groupWatch,
		RunE: func(c *cobra.Command, args []string) error {
			if length < 0 {
				return &usageError{fmt.Errorf("--for %v is below 0", length)}
			}
			return a.record(c, &f, args[0], length, force)
		},
	}
	a.addSources(c, &f)
	c.Flags().DurationVar(&length, "for", 0, "end after this time (default: when interrupted)")
	c.Flags().BoolVar(&force, "force", false, "replace a recording that is there")
	return c
}

func (a *app) record(c *cobra.Command, f *flags, path string, length time.Duration, force bool) error {
	settings, err := a.settings(c, f, false)
	if err != nil {
		return err
	}
	a.warn(settings.Warnings)
	log, closeLog, err := openLog(settings.LogFile)
	if err != nil {
		return misconfigured(err)
	}
	defer closeLog.Close()
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	clock := clock.System()
	recorder, err := recording.Record(path, recording.Options{
		Program: readBuild().Version, Name: nameOf(settings),
		Started: clock.Now(), Policy: settings.Policy, Overwrite: force,
	})
	if err != nil {
		return badNews(err)
	}
	watching, err := newObserver(settings, observerOptions{clock: clock, log: log, tap: recorder, ping: true}).start()
	if err != nil {
		return errors.Join(err, recorder.Close())
	}
	a.note("recording to %s; interrupt to end it", path)
	awaitEnd(ctx, watching, recorder)
	err = errors.Join(watching.stop(), recorder.Close())
	stats := recorder.Stats()
	a.note("recorded %s and %s, %d bytes", count(int(stats.Beats), "beat"), count(int(stats.Events), "event"), stats.Bytes)
	if err != nil {
		return badNews(err)
	}
	return nil
}

// awaitEnd returns when ctx, the observer or the recorder ends.
func awaitEnd(ctx context.Context, watching *started, recorder *recording.Recorder) {
	step := time.NewTicker(recordStep)
	defer step.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-watching.done:
			return // stop tells why
		case <-step.C:
			if recorder.Stats().Err != nil {
				return // Close tells it
			}
		}
	}
}

func (a *app) replayCommand() *cobra.Command {
	var f flags
	var speed float64
	var trial string
	c := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "Show a recording on the screen; without FILE a bundled night",
		Long: `Play a recording on the same screen, with the keys of help (?) to pause, step
and change the speed. Without a terminal its end is listed, as ls does. Without
FILE it is a bundled night of forty minutes, at twenty times its speed: a stall,
a loss, a dispute, a wait for a person, a mass silence.

--trial shows no screen: it judges the recording by the policy that it was made
under and once more with other thresholds, and prints what that would have
raised and which of it recovered by itself. A threshold behind a pattern of ids
comes before what those sessions declare.`,
		Example: `  sessionwatch replay night.jsonl.gz --speed 60
  sessionwatch replay --trial "stall_timeout=10m quiet=stalled"
  sessionwatch replay night.jsonl.gz --trial "batch-*:stall_timeout=20m" --json`,
		Args:    cobra.MaximumNArgs(1),
		GroupID: groupWatch,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("speed") {
				speed = 1
				if len(args) == 0 {
					speed = nightSpeed
				}
			}
			path := strings.Join(args, "")
			if math.IsNaN(speed) || speed < recording.MinSpeed || speed > recording.MaxSpeed {
				return &usageError{fmt.Errorf("--speed %v is not within %v to %v", speed, recording.MinSpeed, recording.MaxSpeed)}
			}
			if c.Flags().Changed("trial") {
				return a.tryRecording(path, trial, f.json)
			}
			if a.plain(f.json) {
				w, err := a.recorded(path, everything())
				if err != nil {
					return err
				}
				return a.list(w, f.json)
			}
			if err := readable(path); err != nil {
				return untold(err)
			}
			return a.screen(c, &f, &ui.Target{Kind: ui.TargetRecording, File: path, Speed: speed})
		},
	}
	a.addConfig(c, &f)
	a.addGuard(c)
	f.addTheme(c)
	f.addJSON(c)
	c.Flags().StringVar(&trial, "trial", "", "print what other thresholds would have raised, such as \"stall_timeout=10m\"")
	c.Flags().Float64Var(&speed, "speed", 0, "recorded seconds that pass in a real one (default 1, of the bundled night 20)")
	return c
}

// readable says what is wrong with a recording before a screen is opened for it.
func readable(path string) error {
	r, err := openRecording(path)
	if err != nil {
		return err
	}
	return r.Close()
}
