package ui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Trier judges what was seen once more, by other thresholds. Its methods may
// take long: they run off the screen's goroutine, and end with ctx.
type Trier interface {
	// Reach says on what a trial looks.
	Reach(ctx context.Context) (TrialReach, error)
	// Try judges it by the policy in force, and by that with other thresholds, as
	// watchdog.ParseTrial reads them.
	Try(ctx context.Context, words string) (watchdog.TrialResult, error)
}

// TrialReach is on what a trial looks, and by which policy it is judged now.
type TrialReach struct {
	Policy watchdog.Policy
	Text   string // "the whole recording", "from 02:10:00Z, 1h04"
}

// trialSeen is what the trial view shows.
type trialSeen struct {
	opened  uint64 // what was asked before is dropped
	words   string
	reach   TrialReach
	known   bool // reach is
	cancel  context.CancelFunc
	begun   time.Duration // when the one that runs was begun
	trouble string
	result  *watchdog.TrialResult
	lines   []trialLine
	width   int // that lines are for
	version uint64
}

// trialReached tells on what a trial looks; trialJudged what came of one.
type (
	trialReached struct {
		gen, opened uint64
		reach       TrialReach
		err         error
	}
	trialJudged struct {
		gen, opened uint64
		result      watchdog.TrialResult
		err         error
	}
)

// reachLimit is how long a source has to say on what a trial looks.
const reachLimit = 10 * time.Second

func needsTrier(m *Model) string {
	switch {
	case m.feed == nil:
		return "nothing is watched yet"
	case m.about.Trial == nil:
		return "this serve keeps nothing to try on: it is older than this screen; update it, or try on a recording: replay FILE --trial WORDS"
	}
	return ""
}

// openTrial asks for thresholds; the words of the last trial stand there.
func (m *Model) openTrial() tea.Cmd {
	m.openView(viewTrial)
	m.endTrial()
	m.lastOpened++
	t := &m.trial
	t.opened, t.trouble, t.known = m.lastOpened, "", false
	trier, gen, opened := m.about.Trial, m.gen, t.opened
	m.askTrial()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), reachLimit)
		defer cancel()
		reach, err := trier.Reach(ctx)
		return trialReached{gen: gen, opened: opened, reach: reach, err: err}
	}
}

// openTrialWith tries the thresholds that were typed behind the name.
func (m *Model) openTrialWith(words string) tea.Cmd {
	m.trial.words = words
	m.openView(viewTrial)
	return m.runTrial(words)
}

// askTrial is the line into which thresholds are typed.
func (m *Model) askTrial() {
	m.prompt = &prompt{
		label: "try", hint: "such as stall_timeout=10m quiet=stalled, or batch-*:stall_timeout=20m; enter tries it, esc leaves",
		in:      newInput(m.trial.words),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, text string) (tea.Cmd, bool) {
			policy := watchdog.DefaultPolicy() // good enough to tell what is wrong with the words
			if m.trial.known {
				policy = m.trial.reach.Policy
			}
			if _, err := watchdog.ParseTrial(policy, text); err != nil {
				m.prompt.err, _, _ = strings.Cut(err.Error(), "\n")
				return nil, false
			}
			return m.runTrial(text), true
		},
		dropped: func(m *Model) tea.Cmd {
			if m.trial.result == nil && m.top() == viewTrial {
				m.closeView()
				return m.ask()
			}
			return nil
		},
	}
}

// runTrial judges what was seen, off the screen's goroutine.
func (m *Model) runTrial(words string) tea.Cmd {
	m.endTrial()
	ctx, cancel := context.WithCancel(context.Background())
	m.lastOpened++
	t := &m.trial
	t.opened, t.words, t.cancel, t.begun, t.trouble = m.lastOpened, words, cancel, m.opt.Now(), ""
	t.result, t.lines = nil, nil
	t.version++
	trier, gen, opened := m.about.Trial, m.gen, t.opened
	return func() tea.Msg {
		result, err := trier.Try(ctx, words)
		return trialJudged{gen: gen, opened: opened, result: result, err: err}
	}
}

// endTrial gives up the one that runs.
func (m *Model) endTrial() {
	if m.trial.cancel != nil {
		m.trial.cancel()
		m.trial.cancel = nil
	}
}

func (m *Model) trialReached(msg *trialReached) tea.Cmd {
	t := &m.trial
	if msg.gen != m.gen || msg.opened != t.opened {
		return nil
	}
	if msg.err != nil {
		t.trouble = msg.err.Error()
		return nil
	}
	t.reach, t.known = msg.reach, true
	return nil
}

func (m *Model) trialJudged(msg *trialJudged) tea.Cmd {
	t := &m.trial
	if msg.gen != m.gen || msg.opened != t.opened || t.cancel == nil {
		return nil
	}
	m.endTrial()
	t.version++
	if msg.err != nil {
		t.trouble, _, _ = strings.Cut(msg.err.Error(), "\n")
		return m.refuse("not tried: " + t.trouble)
	}
	t.result, t.lines = &msg.result, nil
	m.pagers[viewTrial] = pager{wrap: m.pagers[viewTrial].wrap}
	if m.top() != viewTrial {
		return m.say("the trial of " + t.words + " is done; :trial shows it")
	}
	return nil
}

// trialText is the result in lines for the present width.
func (m *Model) trialText() []trialLine {
	t := &m.trial
	if t.result != nil && (t.lines == nil || t.width != m.width) {
		t.lines, t.width = trialLines(t.result, m.width), m.width
		t.version++
	}
	return t.lines
}

func (m *Model) trialPagerLines() lines {
	list := m.trialText()
	return lines{total: len(list), version: m.trial.version,
		text: func(i int) string { return list[i].plain() },
		height: func(i, width int) int {
			if list[i].shows {
				return 1
			}
			return wrapCount(list[i].plain(), width-1)
		}}
}

// drawTrial shows the result, the one that runs, or what can be tried.
func (m *Model) drawTrial(p *painter) {
	t := &m.trial
	switch {
	case t.result != nil:
		list := m.trialText()
		m.drawLines(p, func(i int, _ bool) { m.drawTrialLine(p, &list[i]) })
	case t.cancel != nil:
		p.text(m.styles.Title, " TRIAL  "+t.words)
		p.line()
		p.text(Style{}, " judging what was seen once more; "+m.keys.firstKey("leave")+" gives it up")
		p.line()
	default:
		m.drawThresholds(p)
	}
}

func (m *Model) drawTrialLine(p *painter, l *trialLine) {
	g := m.pager()
	st := Style{}
	switch {
	case l.heading:
		st = m.styles.Title
	case l.dim:
		st = m.styles.Dim
	}
	if !l.shows {
		text := strings.TrimPrefix(l.text, " ") // the cursor's column stands before it
		if g.wrap {
			p.wrapped(st, text, p.x, mostWrapped)
			return
		}
		m.marked(p, st, text, g.search)
		return
	}
	_, means := m.glyphs.verdict(l.verdict)
	m.marked(p, m.styles.Dim, strings.TrimPrefix(l.before, " "), g.search)
	p.cell(m.styles.of(means), l.verdict.String(), 11)
	m.marked(p, Style{}, l.text, g.search)
}

// drawThresholds lists what can be tried, and what holds now.
func (m *Model) drawThresholds(p *painter) {
	t := &m.trial
	p.text(m.styles.Title, " TRIAL  what would other thresholds have raised?")
	p.line()
	switch {
	case t.trouble != "":
		p.text(m.styles.Suspect, " "+t.trouble)
	case t.known:
		p.text(Style{}, " tried on "+t.reach.Text+"; nothing is published or settled by it")
	default:
		p.text(m.styles.Dim, " asking how far back it reaches")
	}
	p.line()
	p.line()
	for _, th := range watchdog.TrialThresholds() {
		value := "-"
		if t.known {
			value = th.Value(&t.reach.Policy)
		}
		p.pad(1)
		p.cell(Style{}, th.Name, 20)
		p.cell(m.styles.Title, fmt.Sprintf("%8s", value), 10)
		p.text(m.styles.Dim, th.Meaning)
		p.line()
	}
}

// tryAgain asks for other thresholds.
func (m *Model) tryAgain() tea.Cmd { return m.openTrial() }

// needsTried: the line under the cursor is of a session.
func needsTried(m *Model) string {
	list := m.trialText()
	if at := m.pager().cur; at >= len(list) || list[at].tried == nil {
		return "this line is of no session"
	}
	return ""
}

// goToTried drills into the session of the line under the cursor.
func (m *Model) goToTried() tea.Cmd {
	m.table.follow(m.trialText()[m.pager().cur].tried.ID, m.bodyRows(), m.opt.Now())
	m.openView(viewWhy)
	return m.ask()
}

func needsTrialResult(m *Model) string {
	if m.trial.result == nil {
		return "there is no result yet"
	}
	return ""
}

// saveTrial writes the result into a new file, as text or JSON.
func (m *Model) saveTrial() tea.Cmd {
	if m.opt.Export == nil {
		return m.refuse("export: this screen can write no files")
	}
	at := time.Unix(0, m.trial.result.To.Wall).UTC().Format("20060102T150405Z")
	m.prompt = &prompt{
		label: "export to", hint: "this result, as .txt or .json; esc leaves", in: newInput("trial-" + at + ".txt"),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, path string) (tea.Cmd, bool) {
			if !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".txt") {
				m.prompt.err = "end the name with .txt or .json"
				return nil, false
			}
			write, e := m.opt.Export, Export{Path: path, Trial: m.trial.result}
			return func() tea.Msg {
				path, err := write(e)
				return exportWritten{path: path, what: e.What(), n: e.Len(), err: err}
			}, true
		},
	}
	return nil
}
