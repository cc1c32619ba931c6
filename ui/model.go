package ui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Model is the screen, and the only tea.Model of this package.
type Model struct {
	opt     Options
	styles  Styles
	glyphs  Glyphs
	theme   Theme // as set; styles may follow the terminal
	keys    KeyMap
	actions []action
	views   []view
	bound   bindings
	columns columnSet

	width, height int
	paint         *painter

	// What is watched. gen counts the feeds that were opened; a message of an
	// older one is dropped.
	feed    Feed
	about   About
	replay  replayState
	tape    tapeState
	gen     uint64
	lastGen uint64             // the newest that was given to a feed or an opening
	stop    context.CancelFunc // ends what the feed was opened with; nil none
	gone    chan struct{}      // closed when the feed is replaced
	opening opening
	window  watchdog.Window
	have    bool // window was given by the present feed
	pulse   pulse
	ended   bool // the feed closed its windows

	asking     asker
	errands    errands
	query      querying
	table      table
	layers     []viewID
	text       scroller         // of the text view on top
	pagers     [viewCount]pager // of the views of lines
	events     eventsSeen
	alerts     alertsSeen
	logs       logsSeen
	dumps      dumpsSeen
	dump       dumpSeen
	trial      trialSeen
	handover   handoverSeen
	raw        rawSeen
	exporting  exporting
	children   Children // of the feed; nil: nothing is supervised behind it
	lastOpened uint64   // of logs and dumps: what was read for an older one is dropped
	menu       menu
	question   question
	quietLook  uint64 // numbers the looks of questions
	marks      marks
	picked     []watchdog.Picked // as last told: the marked, or those that a question is about
	orders     orders
	commands   commandsSeen
	shifted    time.Duration // when the cursor last went to another session by itself
	shiftedTo  watchdog.ID
	hints      hinting
	prompt     *prompt
	palette    *paletteList
	search     string // in help
	first      firstRun
	noPane     bool
	paneFocus  bool     // the moves scroll the side pane
	side       scroller // in the side pane
	sideOf     watchdog.ID

	burst       burst
	note        note
	interrupted time.Duration // when ctrl+c came last; far below zero: never
	title       string        // as last set by the wiring's function

	layout     layout // of the table at its last width
	colourless Theme  // what the terminal's colours leave; ThemeAuto: all of them
	scratch    [32]byte
	pane       painter // of the side pane
	foot       painter // of its last line
	long       painter // of a text that is scrolled
	rowOnly    watchdog.Detail
}

// opening is a feed that is being opened.
type opening struct {
	gen    uint64 // 0 nothing
	target Target
	cancel context.CancelFunc
}

// note is one sentence that stands in the footer until the next key, or until
// it is old.
type note struct {
	text string
	bad  bool
	at   time.Duration
}

// noteLinger is how long a note stands, by the windows that come.
const noteLinger = 15 * time.Second

// New makes a screen. It opens and asks nothing before Init.
func New(o Options) *Model {
	o = o.withDefaults()
	m := &Model{
		opt: o, theme: o.Theme, styles: DefaultStyles(firstTheme(o)), glyphs: DefaultGlyphs(o.ASCII),
		keys: o.KeyMap, actions: allActions(), views: allViews(), columns: defaultColumns(),
		paint: &painter{}, interrupted: -time.Hour, shifted: -time.Hour,
	}
	m.bound = newBindings(m.actions, m.keys)
	m.columns.choose(o.Columns)
	m.table.reset()
	return m
}

// firstTheme is the theme until the terminal has answered.
func firstTheme(o Options) Theme {
	if o.Theme == ThemeAuto && o.Light {
		return ThemeLight
	}
	return o.Theme
}

// Init asks the terminal for its background and starts to watch.
func (m *Model) Init() tea.Cmd {
	var cmds []tea.Cmd
	if m.theme == ThemeAuto {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	if m.onlyDumps() {
		cmds = append(cmds, m.openFiles())
	}
	if m.opt.Feed != nil {
		cmds = append(cmds, m.attach(m.opt.Feed, About{}))
	}
	if m.opt.Open != nil && m.opt.Host != nil {
		cmds = append(cmds, m.openTarget(*m.opt.Open))
	}
	if recall := m.recallHints(); recall != nil {
		cmds = append(cmds, recall)
	}
	return tea.Batch(cmds...)
}

// Close ends what is watched. It is for after the program, and may block as
// long as the feed does.
func (m *Model) Close() {
	if m.opening.cancel != nil {
		m.opening.cancel()
	}
	if m.feed != nil {
		close(m.gone)
		m.feed.Close()
		m.feed = nil
	}
	if m.stop != nil {
		m.stop()
	}
}

// say shows a sentence in the footer.
func (m *Model) say(text string) tea.Cmd {
	m.note = note{text: text, at: m.opt.Now()}
	return nil
}

// refuse shows why something was not done.
func (m *Model) refuse(text string) tea.Cmd {
	m.note = note{text: text, bad: true, at: m.opt.Now()}
	return nil
}
