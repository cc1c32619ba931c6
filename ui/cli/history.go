package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// historyPause is how often what happened is written down.
const historyPause = time.Second

// pruneEvery is how often what is too old is taken out of the quarantine.
const pruneEvery = time.Hour

// keepHistory writes what happens into the history, and tidies the quarantine,
// until ctx ends.
func keepHistory(ctx context.Context, engine *watchdog.Engine, history *filestore.History, quarantine *filestore.Quarantine, log *slog.Logger) {
	ticker := time.NewTicker(historyPause)
	defer ticker.Stop()
	var after serveview.Mark
	var seen uint64
	var failed time.Time // since when the history cannot be written; zero: it can
	watchNoted(ctx, engine, history, log)
	pruned := time.Now()
	for {
		select {
		case <-ctx.Done():
			noteWatch(history, watchdog.WatchEnded, time.Now(), log)
			return
		case <-ticker.C:
		}
		if time.Since(pruned) >= pruneEvery {
			pruned = time.Now()
			if err := quarantine.Prune(ctx, pruned); err != nil {
				log.Warn("the quarantine could not be tidied; it is tried again", "error", err)
			}
		}
		now := engine.Changes()
		if now == seen {
			continue
		}
		seen = now
		w, err := engine.Look(ctx, watchdog.Ask{Events: allEvents})
		if err != nil {
			return
		}
		news, mark := after.After(w.Events)
		if len(news) == 0 {
			continue
		}
		moments := make([]filestore.Moment, len(news))
		for i := range news {
			moments[i] = momentOf(&news[i])
		}
		if err := history.Append(ctx, moments...); err != nil {
			if failed.IsZero() { // not each second of a full disk
				failed = time.Now()
				log.Warn("the history cannot be written; it is tried again", "error", err)
			}
			continue
		}
		if !failed.IsZero() {
			log.Info("the history is written again", "after", time.Since(failed).Round(time.Second))
			failed = time.Time{}
		}
		after = mark
	}
}

// watchNoted writes down since when this process looks.
func watchNoted(ctx context.Context, engine *watchdog.Engine, history *filestore.History, log *slog.Logger) {
	began := time.Now()
	if w, err := engine.Look(ctx, watchdog.Ask{}); err == nil {
		began = time.Unix(0, w.Started.Wall)
	}
	noteWatch(history, watchdog.WatchBegan, began, log)
}

// noteWatch writes down that this process began to look, or ended.
func noteWatch(history *filestore.History, text string, at time.Time, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), historyPause)
	defer cancel()
	if err := history.Append(ctx, filestore.Moment{At: at, Kind: watchdog.EventWatch, Text: text}); err != nil {
		log.Warn("the history does not tell when this process "+text, "error", err)
	}
}

// allEvents asks for as many events as are kept in memory.
const allEvents = 4096

func momentOf(t *watchdog.Transition) filestore.Moment {
	m := filestore.Moment{At: time.Unix(0, t.At.Wall), ID: t.ID, Generation: t.Generation, Kind: t.Kind, Text: t.Text}
	if m.Kind == "" {
		m.Kind, m.To = "verdict", t.To.String()
		if !t.New {
			m.From = t.From.String()
		}
	}
	return m
}
