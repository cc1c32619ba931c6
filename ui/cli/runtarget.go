package cli

import (
	"errors"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/ui"
)

// openRun runs a command that was typed into the screen as `run` would: as a
// session with the defaults of the configuration, called after the command.
func (h *host) openRun(t ui.Target) (ui.Feed, error) {
	settings, err := h.load(h.first)
	if err != nil {
		return nil, err
	}
	if err := settings.ReadSecrets(); err != nil {
		return nil, err
	}
	session := settings.DefaultSession()
	session.Command = t.Command
	if len(t.Command) == 0 {
		return nil, errors.New("no command was given")
	}
	session.ID = nameOfCommand(t.Command)
	if err := checkSession(session); err != nil {
		return nil, err
	}
	s, err := openStation(settings, stationOptions{role: "run", tapes: true, db: stateFile("run-", session.ID, ".db"), state: stateFile("run-", session.ID, ".json"),
		sessions: []config.Session{session}, log: h.log, spawn: h.spawn, guard: h.guard, ringer: h.rings})
	if err != nil {
		return nil, err
	}
	return h.supervised(settings, s), nil
}

// supervised starts the children of a station and shows a screen what it sees.
func (h *host) supervised(settings *config.Config, s *station) ui.Feed {
	s.supervise(h.spawn)
	about := ui.About{Name: nameOf(settings), ReadOnly: settings.ReadOnly, Sweeper: s.writer, Late: quarantined{s.file.Quarantine()}}
	about.Output, about.NoOutput = s.watching.output()
	about.Operator, about.Hooks = operatorName(), settings.Registry.Release
	return &stationFeed{station: s, engineFeed: engineFeed{watching: s.watching, children: s.read(), about: about}}
}

// openSweeping watches and settles: a screen that is a sweeper too. What it
// keeps of late beats stands in a file of its own.
func (h *host) openSweeping(settings *config.Config) (*station, error) {
	if settings.ReadOnly {
		return nil, errors.New("read-only: nothing can be settled from here; leave --sweep out, or read_only")
	}
	return openStation(settings, stationOptions{role: "screen", tapes: true, db: "sweep.db", sweeps: true, log: h.log, spawn: h.spawn, guard: h.guard, ringer: h.rings})
}
