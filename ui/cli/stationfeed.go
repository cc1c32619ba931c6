package cli

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// stationFeed is a screen's feed of a station: its children end with it.
type stationFeed struct {
	engineFeed
	station *station
}

// About says what is watched, and what runs here and ends with it.
func (f *stationFeed) About() ui.About {
	about := f.engineFeed.About()
	if f.station.children == nil {
		return about
	}
	for _, s := range f.station.children.Sessions() {
		switch s.Phase {
		case watchdog.SupervisorRunning, watchdog.SupervisorRestarting, watchdog.SupervisorStopping:
			about.Supervised = append(about.Supervised, s.ID)
		}
	}
	return about
}

// Release is that of the engine, and stands in the audit file.
func (f *stationFeed) Release(ctx context.Context, reason string) (int, error) {
	n, err := f.engineFeed.Release(ctx, reason)
	entry := releaseEntry{Event: "brake.released", By: operatorName(), Reason: reason, Sessions: n, Timestamp: unixSeconds(time.Now())}
	if err != nil {
		entry.Event, entry.Error = "brake.release_refused", err.Error()
	}
	if failed := f.station.audit.Write(entry); failed != nil {
		f.station.log.Error("a release is missing in the audit file", "error", failed)
	}
	return n, err
}

// releaseEntry is a line of the audit file.
type releaseEntry struct {
	Event     string  `json:"event"`
	By        string  `json:"by"`
	Reason    string  `json:"reason"`
	Sessions  int     `json:"sessions"`
	Timestamp float64 `json:"timestamp"`
	Error     string  `json:"error,omitempty"`
}

// unixSeconds is a time as audit lines give it: seconds, three decimals.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Close ends the children, then everything else.
func (f *stationFeed) Close() { f.once.Do(f.station.close) }
