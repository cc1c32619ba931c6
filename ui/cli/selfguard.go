package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/ownfile"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// addGuard offers the flags of the watchdog over our own loops, to the commands
// that have such loops for long.
func (a *app) addGuard(c *cobra.Command) {
	set := c.Flags()
	set.String("watchdog", "", "guard our own loops: a wedge is dumped and ends us with exit code 75; `yes|no` (default yes)")
	set.Lookup("watchdog").NoOptDefVal = "yes"
	set.String("watchdog-timeout", "", "a loop is wedged after `SECONDS` without progress (default 15)")
}

// selfGuard puts watchdogs over the loops of this process. One that is nil
// guards nothing: a one-shot command has none.
type selfGuard struct {
	settings config.Watchdog
	dumps    string    // the directory that is made for a dump; empty: none is
	file     string    // of the dump; empty: there is no place
	beside   io.Writer // gets the dump too
	restore  func()    // gives the terminal back; nil: there is none
	log      *slog.Logger
}

// newSelfGuard reads the settings. restore gives a terminal back without
// waiting; nil: this process has none. The result is nil if it is off.
func newSelfGuard(settings *config.Config, restore func(), log *slog.Logger) *selfGuard {
	if !settings.Watchdog.Enabled {
		return nil
	}
	g := &selfGuard{settings: settings.Watchdog, file: settings.Watchdog.DumpFile, beside: os.Stderr, restore: restore, log: log}
	if g.file == "" && settings.DataDir != "" {
		g.dumps = filepath.Join(settings.DataDir, "dumps")
		g.file = filepath.Join(g.dumps, "self-"+time.Now().UTC().Format("20060102T150405.000Z")+".txt")
		if err := checkDumps(settings.DataDir, g.dumps); err != nil {
			log.Warn("a dump of our own would go to standard error alone", "error", err)
			g.dumps, g.file = "", ""
		}
	}
	if restore != nil && g.file != "" {
		g.beside = io.Discard // standard error is the screen
	}
	return g
}

// checkDumps refuses directories that somebody else made or put a link to. What
// is not there yet is made in time.
func checkDumps(data, dumps string) error {
	if info, err := os.Stat(data); err == nil && !ownfile.Ours(info) {
		return fmt.Errorf("%q belongs to another user; set data_dir to a directory of your own", data)
	}
	if info, err := os.Lstat(dumps); err == nil {
		return judgeDirectory(dumps, info)
	}
	return nil
}

// loopWatch is the watchdog over one loop. A nil one watches nothing.
type loopWatch struct {
	*guard.Loop
	trip atomic.Int64 // nanoseconds that the last probe took
}

// over makes the watchdog over a loop, which is not armed yet. The name stands
// in dumps and logs.
func (g *selfGuard) over(name string, post guard.Post) (*loopWatch, error) {
	if g == nil {
		return nil, nil
	}
	w := &loopWatch{}
	loop, err := guard.NewLoop(guard.LoopOptions{
		Name: name, Interval: g.settings.LivenessInterval, Strikes: g.settings.LivenessStrikes,
		DumpOnly: g.settings.OnWedge == config.DumpOnly, ExitCode: g.settings.ExitCode,
		Dump: g.beside, DumpFile: g.file, BeforeExit: g.restore, Logger: g.log,
		OnWedge: func(time.Duration) { g.makeRoom() },
		Post: func(ack func()) bool {
			began := time.Now()
			return post(func() {
				w.trip.Store(int64(time.Since(began)))
				ack()
			})
		},
	})
	if err != nil {
		return nil, misconfigured(fmt.Errorf("watchdog: %w", err))
	}
	w.Loop = loop
	return w, nil
}

// makeRoom makes the directory of a dump when there is one to write.
func (g *selfGuard) makeRoom() {
	if g.dumps == "" {
		return
	}
	if err := os.MkdirAll(g.dumps, 0o700); err != nil {
		g.log.Error("the directory of dumps cannot be made", "error", err)
	}
}

// lag is how late the loop is, or was when it was last asked.
func (w *loopWatch) lag() time.Duration {
	if w == nil {
		return 0
	}
	return max(w.Lag(), time.Duration(w.trip.Load()))
}

// memoryHeld is how much memory the process has from the system and not given
// back, in bytes.
func memoryHeld() uint64 {
	held := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(held)
	return held[0].Value.Uint64() - held[1].Value.Uint64()
}

// arm begins to watch.
func (w *loopWatch) arm() {
	if w != nil {
		w.Arm()
	}
}

// disarm ends the watch: it comes first at shutdown.
func (w *loopWatch) disarm() {
	if w != nil {
		w.Disarm()
	}
}

// reachEngine posts onto an engine's loop.
func reachEngine(engine *watchdog.Engine) guard.Post {
	return func(ack func()) bool {
		if engine.Reach(context.Background()) != nil {
			return false
		}
		ack()
		return true
	}
}

// plainly starts a goroutine of a process without a screen. A panic in it is a
// fault of ours, which a supervisor may mend by starting us again.
func plainly(f func()) {
	go func() {
		defer func() {
			if r := recover(); r != nil {
				fmt.Fprintf(os.Stderr, "sessionwatch: a fault of our own: %s\n%s", clean(fmt.Sprint(r)), debug.Stack())
				os.Exit(exitFault)
			}
		}()
		f()
	}()
}
