package recording

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Deck is the tap of an engine that somebody looks at: it keeps the newest inputs
// in memory, and records to a file from when that is wanted until it no longer
// is. It never blocks the engine.
type Deck struct {
	options MemoryOptions
	memory  *Memory

	mu    sync.Mutex
	last  watchdog.Instant
	known known
	file  *Recorder // nil: not recording
	path  string
	since time.Duration // Mono
}

// Tape says what a deck records to a file now.
type Tape struct {
	Path  string
	For   time.Duration // recorded so far
	Stats Stats
}

// NewDeck keeps what it is told until Close.
func NewDeck(o MemoryOptions) *Deck {
	return &Deck{options: o, memory: NewMemory(o), last: o.Started}
}

// Memory is what is kept of the newest inputs.
func (d *Deck) Memory() *Memory { return d.memory }

// Policy is the one in force.
func (d *Deck) Policy() watchdog.Policy { return d.options.Policy }

// Beats copies a batch.
func (d *Deck) Beats(batch []watchdog.Beat) {
	d.memory.Beats(batch)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file != nil {
		d.file.Beats(batch)
	}
}

// Event takes one event, which nobody may change any more.
func (d *Deck) Event(ev watchdog.Event) {
	d.memory.Event(ev)
	d.mu.Lock()
	defer d.mu.Unlock()
	if tick, ok := ev.(watchdog.Ticked); ok {
		d.last = tick.Now
	}
	d.known.note(ev)
	if d.file != nil {
		d.file.Event(ev)
	}
}

// Record begins to record to a file that is not there yet. What is known already
// of sources, ledger and supervisors stands at its begin.
func (d *Deck) Record(path string) error {
	if path == "" {
		return errors.New("a recording needs the name of a file")
	}
	d.mu.Lock()
	started, busy, to := d.last, d.file != nil, d.path
	d.mu.Unlock()
	if busy {
		return fmt.Errorf("already recording to %s; end that first", to)
	}
	// The file is made without the lock: a slow disk must not hold the engine.
	r, err := Record(path, Options{Program: d.options.Program, Name: d.options.Name, Started: started,
		Policy: d.options.Policy, Sweeper: d.options.Sweeper, Acts: d.options.Acts})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file != nil {
		return errors.Join(fmt.Errorf("already recording to %s; end that first", d.path), r.Close())
	}
	r.Event(watchdog.Ticked{Now: d.last})
	for _, ev := range d.known.events() {
		r.Event(ev)
	}
	d.file, d.path, d.since = r, path, d.last.Mono
	return nil
}

// Tape says what is recorded now; ok is false if nothing is.
func (d *Deck) Tape() (t Tape, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil {
		return Tape{}, false
	}
	return Tape{Path: d.path, For: d.last.Mono - d.since, Stats: d.file.Stats()}, true
}

// Stop completes the file. Its error says what is missing in it.
func (d *Deck) Stop() (Tape, error) {
	d.mu.Lock()
	file, t := d.file, Tape{Path: d.path, For: d.last.Mono - d.since}
	d.file, d.path = nil, ""
	d.mu.Unlock()
	if file == nil {
		return t, errors.New("nothing is being recorded")
	}
	err := file.Close()
	t.Stats = file.Stats()
	return t, err
}

// Close completes the file, if there is one, and forgets the rest.
func (d *Deck) Close() error {
	d.memory.Close()
	if _, ok := d.Tape(); !ok {
		return nil
	}
	_, err := d.Stop()
	return err
}
