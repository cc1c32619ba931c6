package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// StallTimeoutVariable names the environment variable that replaces the built-in
// stall timeout, in seconds. Whatever a program sets itself wins over it.
const StallTimeoutVariable = "WATCHDOG_STALL_TIMEOUT"

// flushTimeout is how long Close waits unless told otherwise.
const flushTimeout = 2 * time.Second

// Options describe a session. Only ID has no default.
type Options struct {
	// ID names the session: 1 to 256 bytes without white space, control or
	// invisible characters and * > { }, with no empty part between dots.
	ID watchdog.ID
	// Publishers get every beat, in parallel and independently of each other.
	Publishers []Publisher

	// Commands are where operators' commands to the session come from; none by
	// default. With them it takes stop and dump, and says so in its beats. Those
	// of this project are natsbus.OpenInbox and redisstore.OpenInbox.
	Commands []watchdog.CommandInbox
	// OnStop is called once, when an operator stops the session. It is to see to
	// it that the work ends soon; every wait ends with ErrStopped by itself. By
	// default the context of the work is cancelled with ErrStopped.
	OnStop func(watchdog.Command)
	// OnKill ends the work without a grace; nil: kill is not taken.
	OnKill func(watchdog.Command) error
	// OnRestart lets the agent end this execution and begin another; nil: restart
	// is not taken. It has worked when the session has ended.
	OnRestart func(watchdog.Command) error
	// Dumps takes the stacks that an operator asks for; nil: the inbox by which he
	// asked does, if it is a DumpPublisher as those of this project are, else
	// standard error.
	Dumps DumpPublisher

	StallTimeout time.Duration // without activity for so long, the session is stalled; 300 s
	Interval     time.Duration // between two heartbeats; 30 s
	RedisTTL     time.Duration // of what stores keep; above Interval; 60 s
	MaxWait      time.Duration // the longest wait that may be declared; 24 h
	FlushTimeout time.Duration // how long Close waits for the last beat to leave; 2 s

	// Plain sends only the five fields that every producer of this wire format
	// sends. Observers then rely on the state that the session says.
	Plain bool

	Task    string // the first description of the task; see SetTask
	AgentID string // shown beside the session
	Host    string // the machine's name by default
	PID     int    // our own by default

	Budget *Budget      // nil: the balance is unknown
	Loop   *Loop        // its lag goes out with the beats
	Logger *slog.Logger // nil: nothing is logged
}

// withDefaults fills in what is not set and lists all that is wrong.
func (o Options) withDefaults() (Options, error) {
	policy := watchdog.DefaultPolicy()
	var errs []error
	if err := checkID(o.ID); err != nil {
		errs = append(errs, err)
	}
	if o.StallTimeout == 0 {
		var err error
		if o.StallTimeout, err = stallTimeoutOf(os.Getenv(StallTimeoutVariable), policy.StallTimeout); err != nil {
			errs = append(errs, err)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		or    time.Duration
	}{
		{"StallTimeout", &o.StallTimeout, policy.StallTimeout},
		{"Interval", &o.Interval, policy.HeartbeatInterval},
		{"RedisTTL", &o.RedisTTL, policy.RedisTTL},
		{"MaxWait", &o.MaxWait, policy.MaxWait},
		{"FlushTimeout", &o.FlushTimeout, flushTimeout},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.or
		case *d.value < 0:
			errs = append(errs, fmt.Errorf("guard: %s is %v; give a duration above 0, or 0 for %v", d.name, *d.value, d.or))
		}
	}
	if o.RedisTTL > 0 && o.RedisTTL <= o.Interval {
		errs = append(errs, fmt.Errorf("guard: RedisTTL is %v and must exceed Interval, %v, or keys expire between two beats of a healthy session; "+
			"twice the interval is a good choice", o.RedisTTL, o.Interval))
	}
	for i, p := range o.Publishers {
		if p == nil {
			errs = append(errs, fmt.Errorf("guard: Publishers[%d] is nil; leave out what is not wanted", i))
		}
	}
	for i, in := range o.Commands {
		if in == nil {
			errs = append(errs, fmt.Errorf("guard: Commands[%d] is nil; leave out what is not wanted", i))
		}
	}
	if o.Plain && len(o.Commands) > 0 {
		errs = append(errs, errors.New("guard: Plain beats name no execution, so no command could be told to mean this one; leave Plain or Commands out"))
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// stallTimeoutOf reads the environment's stall timeout; empty means fallback.
func stallTimeoutOf(text string, fallback time.Duration) (time.Duration, error) {
	if text == "" {
		return fallback, nil
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(seconds >= 1e-9) || seconds > math.MaxInt64/1e9/2 { // NaN is refused too
		return fallback, fmt.Errorf("guard: %s is %q; give a number of seconds above 0", StallTimeoutVariable, text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// checkID refuses what no bus could carry. It is stricter than observers are:
// beyond ASCII it takes letters, digits, marks, symbols and punctuation alone.
func checkID(id watchdog.ID) error {
	switch {
	case id == "":
		return errors.New("guard: ID is empty; name the session")
	case len(id) > 256 || !utf8.ValidString(string(id)),
		strings.ContainsFunc(string(id), bannedInID),
		strings.Contains("."+string(id)+".", ".."):
		return fmt.Errorf("guard: the ID %q cannot be used; take 1 to 256 bytes of UTF-8 without white space, control or invisible characters "+
			"and * > { }, and with no empty part between dots", shorten(string(id), 64))
	}
	return nil
}

func bannedInID(r rune) bool {
	switch {
	case strings.ContainsRune("*>{}", r), r == utf8.RuneError:
		return true
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true // a mark that nobody sees makes a twin
	}
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}

// shorten cuts text to n bytes, at the border of a character.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
