package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Format is the version of the file format. A reader refuses a higher one.
const Format = 1

// Header is the first line of a recording.
type Header struct {
	Format  int
	Program string           // version of the program that recorded
	Name    string           // of what was watched, for people; may be empty
	Started watchdog.Instant // when the recording began; the tracker of a replay starts here
	Policy  watchdog.Policy
	Sweeper string // who settled; empty nobody
	// Acts is how far the recorder's own process could act: by it a tracker refuses
	// what was ordered, or not.
	Acts watchdog.Acts
}

// NewTracker makes the tracker that stands where the engine stood when the
// recording began.
func (h Header) NewTracker() *watchdog.Tracker {
	t := watchdog.NewTracker(h.Policy, h.Started)
	t.SetSweeper(h.Sweeper)
	t.SetActs(h.Acts)
	return t
}

// EngineConfig is that of an engine for a Player.
func (h Header) EngineConfig() watchdog.EngineConfig {
	return watchdog.EngineConfig{Policy: h.Policy, Start: h.Started, Sweeper: h.Sweeper, Acts: h.Acts}
}

// Kind says what an Entry holds.
type Kind uint8

// The kinds of entry.
const (
	KindBeat  Kind = iota
	KindEvent      // any watchdog.Event, Ticked included
	KindGap
)

// Entry is one line of a recording after the header. Its byte slices are its
// own.
type Entry struct {
	Line  int // in the file, from 1
	Kind  Kind
	Clock time.Duration // Mono of the last tick that was applied before; -1 not told
	Beat  watchdog.Beat
	Event watchdog.Event
	Gap   Gap
}

// Gap says what a recorder could not keep.
type Gap struct {
	Beats, Events uint64
	From, To      time.Duration // Mono of the ticks around it
}

// String is the sentence for people.
func (g Gap) String() string {
	return fmt.Sprintf("the recorder lost %d beats and %d events within %v", g.Beats, g.Events, (g.To - g.From).Round(time.Millisecond))
}

var (
	errShape = errors.New("has the wrong JSON type")
	errSpan  = errors.New("is a time beyond 36 years")
)

// eventTable names every kind of event but Ticked, which is an entry of its
// own. It is the only list of them in this package.
func eventTable() map[string]reflect.Type {
	return map[string]reflect.Type{
		"link_changed":  reflect.TypeFor[watchdog.LinkChanged](),
		"round_trip":    reflect.TypeFor[watchdog.RoundTrip](),
		"denied":        reflect.TypeFor[watchdog.Denied](),
		"dropped":       reflect.TypeFor[watchdog.Dropped](),
		"refused":       reflect.TypeFor[watchdog.Refused](),
		"key_gone":      reflect.TypeFor[watchdog.KeyGone](),
		"key_back":      reflect.TypeFor[watchdog.KeyBack](),
		"store_changed": reflect.TypeFor[watchdog.StoreChanged](),
		"source_added":  reflect.TypeFor[watchdog.SourceAdded](),
		"terminal_seen": reflect.TypeFor[watchdog.TerminalSeen](),
		"supervised":    reflect.TypeFor[watchdog.Supervised](),
		"wedged":        reflect.TypeFor[watchdog.Wedged](),

		"head_seen":      reflect.TypeFor[watchdog.HeadSeen](),
		"followed_up":    reflect.TypeFor[watchdog.FollowedUp](),
		"claimed":        reflect.TypeFor[watchdog.Claimed](),
		"settle_failed":  reflect.TypeFor[watchdog.SettleFailed](),
		"ledger_changed": reflect.TypeFor[watchdog.LedgerChanged](),
		"swept":          reflect.TypeFor[watchdog.Swept](),
		"lease_seen":     reflect.TypeFor[watchdog.LeaseSeen](),
		"http_silent":    reflect.TypeFor[watchdog.HTTPSilent](),
		"brake_released": reflect.TypeFor[watchdog.BrakeReleased](),

		"ordered":   reflect.TypeFor[watchdog.Ordered](),
		"answered":  reflect.TypeFor[watchdog.Answered](),
		"disobeyed": reflect.TypeFor[watchdog.Disobeyed](),

		"noted":   reflect.TypeFor[watchdog.Noted](),
		"trouble": reflect.TypeFor[watchdog.Trouble](),
	}
}

// causeWords are the words of the causes of alerts, by their numbers.
func causeWords() []string {
	var words []string
	for c := watchdog.CauseNone; c <= watchdog.CauseReapRate; c++ {
		words = append(words, c.String())
	}
	return words
}

// dialect is what a reader and a writer know of the types of the watchdog.
type dialect struct {
	codec
	types map[string]reflect.Type
	names map[reflect.Type]string
}

func newDialect() *dialect {
	d := &dialect{
		codec: codec{
			words: map[reflect.Type][]string{
				reflect.TypeFor[watchdog.Source](): wordsOf(watchdog.AllSources()...),
				reflect.TypeFor[watchdog.LinkPhase](): wordsOf(
					watchdog.LinkConnecting, watchdog.LinkUp, watchdog.LinkDown),
				reflect.TypeFor[watchdog.Refusal](): wordsOf(
					watchdog.RefusedID, watchdog.RefusedState, watchdog.RefusedType, watchdog.RefusedRange,
					watchdog.RefusedDuplicate, watchdog.RefusedJSON, watchdog.RefusedSize, watchdog.RefusedDepth),
				reflect.TypeFor[watchdog.Outcome](): wordsOf(
					watchdog.OutcomeNone, watchdog.OutcomeCompleted, watchdog.OutcomeError,
					watchdog.OutcomeStopped, watchdog.OutcomeLost, watchdog.OutcomeExpired),
				reflect.TypeFor[watchdog.SupervisorPhase](): {"none", "running", "restarting", "crash_loop", "stopping", "held"},
				reflect.TypeFor[watchdog.NoteKind](): wordsOf(
					watchdog.NoteAck, watchdog.NoteSnooze, watchdog.NoteMute, watchdog.NoteClear),
				reflect.TypeFor[watchdog.AlertCause](): causeWords(),
				reflect.TypeFor[watchdog.CommandFault](): wordsOf(
					watchdog.CommandUnreadable, watchdog.CommandUnsigned, watchdog.CommandSignature,
					watchdog.CommandFleet, watchdog.CommandExpired, watchdog.CommandReplayed),
				reflect.TypeFor[watchdog.Fate](): wordsOf(
					watchdog.FateNone, watchdog.FateRequested, watchdog.FateDelivered, watchdog.FateAcknowledged, watchdog.FateEffective,
					watchdog.FateIneffective, watchdog.FateRefused, watchdog.FateUndeliverable, watchdog.FateLostRace, watchdog.FateTimedOut),
			},
			text: cleanText,
			id:   readID,
		},
		types: eventTable(),
		names: map[reflect.Type]string{},
	}
	for name, t := range d.types {
		d.names[t] = name
	}
	return d
}

// ageWords are the words of watchdog.AgeKind, by value.
func ageWords() []string { return []string{"exact", "estimated", "unknown"} }

func (d *dialect) appendHeader(dst []byte, h Header) ([]byte, error) {
	dst = append(dst, `{"sessionwatch_recording":`...)
	dst = strconv.AppendInt(dst, Format, 10)
	dst = append(dst, `,"program":`...)
	dst = appendString(dst, h.Program)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, h.Name)
	dst = append(dst, `,"sweeper":`...)
	dst = appendString(dst, h.Sweeper)
	dst = append(dst, `,"started":`...)
	dst = appendInstant(dst, h.Started)
	dst = append(dst, `,"policy":`...)
	dst, err := d.append(dst, reflect.ValueOf(h.Policy))
	if err != nil {
		return dst, fmt.Errorf("policy: %w", err)
	}
	if h.Acts != (watchdog.Acts{}) {
		dst = append(dst, `,"acts":`...)
		if dst, err = d.append(dst, reflect.ValueOf(h.Acts)); err != nil {
			return dst, fmt.Errorf("acts: %w", err)
		}
	}
	return append(dst, "}\n"...), nil
}

type headerLine struct {
	Format  int             `json:"sessionwatch_recording"`
	Program string          `json:"program"`
	Name    string          `json:"name"`
	Sweeper string          `json:"sweeper"`
	Started json.RawMessage `json:"started"`
	Policy  json.RawMessage `json:"policy"`
	Acts    json.RawMessage `json:"acts"`
}

func (d *dialect) readHeader(line []byte) (Header, error) {
	var l headerLine
	if err := json.Unmarshal(line, &l); err != nil || l.Format == 0 {
		return Header{}, errors.New("is not the header of a recording; was this file made by 'sessionwatch record'?")
	}
	if l.Format != Format {
		return Header{}, fmt.Errorf("has format version %d and this program reads %d; use the version that wrote it (%s) or a newer one",
			l.Format, Format, cleanText(l.Program))
	}
	h := Header{Format: l.Format, Program: cleanText(l.Program), Name: cleanText(l.Name), Sweeper: cleanText(l.Sweeper)}
	var err error
	if h.Started, err = readInstant(l.Started); err != nil {
		return h, fmt.Errorf("started %w", err)
	}
	if len(l.Policy) > 0 {
		if err := d.read(l.Policy, reflect.ValueOf(&h.Policy).Elem()); err != nil {
			return h, fmt.Errorf("policy: %w", err)
		}
	}
	if len(l.Acts) > 0 {
		if err := d.read(l.Acts, reflect.ValueOf(&h.Acts).Elem()); err != nil {
			return h, fmt.Errorf("acts: %w", err)
		}
	}
	h.Policy = h.Policy.WithDefaults()
	if err := errors.Join(h.Policy.Validate()...); err != nil {
		return h, err
	}
	return h, nil
}

// appendClock begins an entry that is no tick: clock is left out if negative.
func appendClock(dst []byte, clock time.Duration) []byte {
	dst = append(dst, '{')
	if clock >= 0 {
		dst = append(dst, `"t":`...)
		dst = strconv.AppendInt(dst, int64(clock), 10)
		dst = append(dst, ',')
	}
	return dst
}

func (d *dialect) appendBeat(dst []byte, clock time.Duration, b *watchdog.Beat) ([]byte, error) {
	dst = append(appendClock(dst, clock), `"source":`...)
	dst, err := d.append(dst, reflect.ValueOf(b.Source))
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"received":`...)
	dst = strconv.AppendInt(dst, int64(b.Received), 10)
	if b.AgeKind != watchdog.AgeExact {
		words := ageWords()
		if int(b.AgeKind) >= len(words) {
			return dst, fmt.Errorf("age kind %d has no word", b.AgeKind)
		}
		dst = append(dst, `,"age":`...)
		dst = appendString(dst, words[b.AgeKind])
		dst = append(dst, `,"age_ns":`...)
		dst = strconv.AppendInt(dst, int64(b.Age), 10)
	}
	if b.Dropped > 0 {
		dst = append(dst, `,"dropped":`...)
		dst = strconv.AppendUint(dst, uint64(b.Dropped), 10)
	}
	dst = append(dst, `,"beat":`...)
	dst = wire.AppendBeat(dst, b)
	return append(dst, "}\n"...), nil
}

func (d *dialect) appendEvent(dst []byte, clock time.Duration, ev watchdog.Event) ([]byte, error) {
	v := reflect.Indirect(reflect.ValueOf(ev))
	if tick, ok := v.Interface().(watchdog.Ticked); ok {
		return appendTick(dst, tick), nil
	}
	name, ok := d.names[v.Type()]
	if !ok {
		return dst, fmt.Errorf("event %s is not in the table of the recording package", v.Type())
	}
	dst = append(appendClock(dst, clock), `"event":"`...)
	dst = append(dst, name...)
	dst = append(dst, `","data":`...)
	dst, err := d.append(dst, v)
	return append(dst, "}\n"...), err
}

func appendTick(dst []byte, tick watchdog.Ticked) []byte {
	dst = append(dst, `{"tick":`...)
	dst = appendInstant(dst, tick.Now)
	if tick.Late != 0 {
		dst = append(dst, `,"late":`...)
		dst = strconv.AppendInt(dst, int64(tick.Late), 10)
	}
	return append(dst, "}\n"...)
}

func appendGap(dst []byte, g Gap) []byte {
	return fmt.Appendf(dst, `{"gap":{"beats":%d,"events":%d,"from":%d,"to":%d}}`+"\n", g.Beats, g.Events, int64(g.From), int64(g.To))
}

type entryLine struct {
	T        *int64          `json:"t"`
	Tick     *instantLine    `json:"tick"`
	Late     int64           `json:"late"`
	Event    string          `json:"event"`
	Data     json.RawMessage `json:"data"`
	Source   json.RawMessage `json:"source"`
	Received int64           `json:"received"`
	Age      string          `json:"age"`
	AgeNS    int64           `json:"age_ns"`
	Dropped  uint8           `json:"dropped"`
	Beat     json.RawMessage `json:"beat"`
	Gap      *gapLine        `json:"gap"`
}

type gapLine struct {
	Beats  uint64 `json:"beats"`
	Events uint64 `json:"events"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
}

func (d *dialect) readEntry(line []byte) (Entry, error) {
	var l entryLine
	if err := json.Unmarshal(line, &l); err != nil {
		return Entry{}, fmt.Errorf("is not an entry: %w", err)
	}
	e := Entry{Clock: -1}
	if l.T != nil {
		if e.Clock = time.Duration(*l.T); e.Clock < 0 || !within(e.Clock) {
			return e, fmt.Errorf("t %w", errSpan)
		}
	}
	switch {
	case l.Tick != nil:
		now, err := l.Tick.instant()
		if err != nil || !within(time.Duration(l.Late)) || l.Late < 0 {
			return e, errors.Join(err, errors.New("is not a clock reading"))
		}
		e.Kind, e.Event = KindEvent, watchdog.Ticked{Now: now, Late: time.Duration(l.Late)}
		return e, nil
	case l.Gap != nil:
		e.Kind = KindGap
		e.Gap = Gap{Beats: l.Gap.Beats, Events: l.Gap.Events, From: time.Duration(l.Gap.From), To: time.Duration(l.Gap.To)}
		if !within(e.Gap.From) || !within(e.Gap.To) {
			return e, fmt.Errorf("gap %w", errSpan)
		}
		return e, nil
	case l.Beat != nil:
		err := d.readBeat(&l, &e)
		return e, err
	case l.Event != "":
		t, ok := d.types[l.Event]
		if !ok {
			return e, fmt.Errorf("has an event that this program does not know: %.40q", l.Event)
		}
		v := reflect.New(t).Elem()
		if err := d.read(l.Data, v); err != nil {
			return e, fmt.Errorf("%s: %w", l.Event, err)
		}
		e.Kind, e.Event = KindEvent, v.Interface().(watchdog.Event)
		return e, nil
	}
	return e, errors.New("holds neither a tick, nor a beat, nor an event, nor a gap")
}

func (d *dialect) readBeat(l *entryLine, e *Entry) error {
	e.Kind = KindBeat
	if err := decodeBeat(l.Beat, &e.Beat); err != nil {
		return err
	}
	if err := d.read(l.Source, reflect.ValueOf(&e.Beat.Source).Elem()); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	e.Beat.Received, e.Beat.Age = time.Duration(l.Received), time.Duration(l.AgeNS)
	if !within(e.Beat.Received) || !within(e.Beat.Age) || e.Beat.Age < 0 {
		return fmt.Errorf("received or age %w", errSpan)
	}
	e.Beat.AgeKind = watchdog.AgeExact
	for i, word := range ageWords() {
		if word == l.Age {
			e.Beat.AgeKind = watchdog.AgeKind(i)
			l.Age = ""
		}
	}
	if l.Age != "" {
		return fmt.Errorf("age %.40q is not one of exact, estimated, unknown", l.Age)
	}
	// What was dropped is counted by the recorder's own reading; this reading
	// may drop again from a file that was written by hand.
	e.Beat.Dropped = max(e.Beat.Dropped, l.Dropped)
	return nil
}
