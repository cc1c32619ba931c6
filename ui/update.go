package ui

import (
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// leaveTime is within how long a second ctrl+c leaves from anywhere.
const leaveTime = time.Second

// Update takes what happened. It calls nothing that may block.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	if hint := m.chooseHint(); hint != nil {
		cmd = tea.Batch(cmd, hint)
	}
	if listen := m.listen(); listen != nil {
		cmd = tea.Batch(cmd, listen)
	}
	return m, cmd
}

func (m *Model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg.Content)
	case tea.WindowSizeMsg:
		return m.resize(msg.Width, msg.Height)
	case tea.BackgroundColorMsg:
		m.follow(msg.IsDark())
	case tea.ColorProfileMsg:
		m.followProfile(msg.Profile)
	case windowArrived:
		return m.arrived(&msg)
	case engineLooked:
		return m.lookAtEngine(msg)
	case askDelivered:
		if msg.gen == m.gen {
			m.asking.busy = false
			return m.deliverAsk()
		}
	case errandFinished:
		return m.errandDone(msg)
	case feedOpened:
		return m.opened(msg)
	case logsArrived:
		return m.logsCame(&msg)
	case dumpsListed:
		return m.dumpsCame(&msg)
	case dumpRead:
		return m.dumpCame(&msg)
	case hintsRecalled:
		return m.hintsCame(msg)
	case trialReached:
		return m.trialReached(&msg)
	case trialJudged:
		return m.trialJudged(&msg)
	case handoverMade:
		return m.handoverCame(&msg)
	case recordingDone:
		return m.recorded(&msg)
	case actionTaken:
		return m.taken(&msg)
	case exportWritten:
		return m.exported(&msg)
	case lateListed:
		return m.lateCame(&msg)
	case alertAnswered:
		return m.answered(&msg)
	case releaseAnswered:
		return m.released(&msg)
	case editorReady:
		if msg.err != nil {
			return m.refuse("not opened: " + msg.err.Error())
		}
		return msg.run
	case keysSettled:
		return m.settle()
	case quietLooked:
		m.listened(msg)
	case textCopied:
		if msg.err != nil {
			return m.refuse(fmt.Sprintf("not copied: %v; it is %s", msg.err, msg.text))
		}
	case tea.MouseWheelMsg:
		return m.wheel(msg)
	case tea.MouseClickMsg:
		return m.click(msg)
	default:
		return m.noticed(msg)
	}
	return nil
}

func (m *Model) errandDone(msg errandFinished) tea.Cmd {
	if msg.gen != m.gen {
		return nil
	}
	m.errands.busy = false
	if r, ok := msg.result.(replayChanged); ok {
		m.replay = r.state
	}
	return m.nextErrand()
}

// resize takes the size of the screen; nothing below zero.
func (m *Model) resize(width, height int) tea.Cmd {
	m.width, m.height = max(width, 0), max(height, 0)
	m.layout = layout{}
	m.table.clampTop(m.bodyRows())
	return m.ask()
}

// follow restyles for the terminal's background, if the theme is left to it.
func (m *Model) follow(dark bool) {
	if m.theme != ThemeAuto || m.colourless != ThemeAuto {
		return
	}
	m.styles = DefaultStyles(ThemeDark)
	if !dark {
		m.styles = DefaultStyles(ThemeLight)
	}
}

// followProfile gives up colours that the terminal does not have. With 16
// colours their meaning would be left to its palette: bold and reverse only.
func (m *Model) followProfile(p colorprofile.Profile) {
	switch {
	case m.theme == ThemeNone || m.theme == ThemeContrast:
		return
	case p <= colorprofile.NoTTY:
		m.colourless = ThemeNone
	case p <= colorprofile.ANSI:
		m.colourless = ThemeMono
	default:
		return
	}
	m.styles = DefaultStyles(m.colourless)
}

// arrived takes the next window of the feed.
func (m *Model) arrived(msg *windowArrived) tea.Cmd {
	if msg.gen != m.gen {
		return nil
	}
	m.about, m.replay, m.children, m.tape = msg.about, msg.replay, msg.children, msg.tape
	if msg.closed {
		m.ended = true
		return m.retitle()
	}
	look := m.takePulse(&msg.window)
	m.window, m.have = msg.window, true
	m.takeEvents(&m.window)
	m.takeAlerts(&m.window)
	m.takePicked(&m.window)
	m.takeActions(&m.window)
	m.takeRaw(&m.window)
	m.takeLogs(&m.window)
	export := m.takeExport(&m.window)
	if m.note.text != "" && m.opt.Now()-m.note.at > noteLinger {
		m.note = note{}
	}
	before, sought := m.table.cursor, m.table.seek >= 0
	if gone := m.table.take(&m.window, m.bodyRows(), m.opt.Now()); gone != "" {
		m.say(string(gone) + " is gone from this list")
	}
	if m.table.cursor != before && before != "" && !sought {
		m.shifted, m.shiftedTo = m.opt.Now(), m.table.cursor
	}
	cmds := []tea.Cmd{m.waitWindow(), m.retitle(), export, look}
	if m.table.pending != 0 && m.window.AskSeq >= m.table.cursorSeq {
		step := 1
		if m.table.pending < 0 {
			step = -1
		}
		left := m.table.pending - step
		cmds = append(cmds, m.nextAttention(step))
		m.table.pending = left
	} else if m.table.cursor != before || m.needsRows() {
		cmds = append(cmds, m.ask())
	}
	return tea.Batch(cmds...)
}

// needsRows says whether visible rows are missing from the last answer.
func (m *Model) needsRows() bool {
	t := &m.table
	end := min(t.top+m.bodyRows(), t.matched)
	return !t.frozen && m.window.AskSeq == m.asking.seq && (t.top < t.offset || end > t.offset+len(t.rows)) && t.asked != max(t.top-m.bodyRows(), 0)
}

// retitle sets the terminal's title where the wiring does it.
func (m *Model) retitle() tea.Cmd {
	title := m.titleText()
	if m.opt.Title == nil || title == m.title {
		return nil
	}
	m.title = title
	set := m.opt.Title
	return m.runErrand(func() any { set(title); return nil })
}

// keyName is the key as bindings spell it. alt with a key counts as esc, and
// the key itself is dropped: it may be the tail of a split sequence.
func keyName(k tea.KeyPressMsg) string {
	if k.Mod&(tea.ModAlt|tea.ModMeta) != 0 {
		return "esc"
	}
	if name := k.String(); name != " " {
		return name
	}
	return "space"
}

func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	name := keyName(k)
	if name == "ctrl+c" || m.scene()&inInput != 0 {
		return m.press(k)
	}
	return m.takeKey(k)
}

// press does what a key is bound to where the screen is now.
func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	name, in := keyName(k), m.scene()
	if name != "ctrl+c" && (m.deaf() || m.typedKey(name)) {
		return nil
	}
	m.note = note{}
	a := m.bound[in][name]
	if a == nil {
		if in&inInput != 0 {
			if name != "esc" && k.Text != "" {
				return m.typed(k.Text)
			}
			return nil
		}
		return m.say(fit(name, 16) + " does nothing here; " + m.keys.firstKey("help") + " shows the keys")
	}
	if off := m.offReason(a); off != "" {
		return m.refuse(off)
	}
	if heeded := m.heed(a.name); heeded != nil {
		return tea.Batch(heeded, a.do(m))
	}
	return a.do(m)
}

// offReason says why an action cannot work now; empty: it can.
func (m *Model) offReason(a *action) string {
	if a.off == nil {
		return ""
	}
	return a.off(m)
}

// paste puts text where text is typed, and nowhere else.
func (m *Model) paste(text string) tea.Cmd {
	m.noise()
	if m.scene()&inInput == 0 {
		return m.refuse("a paste of " + count(len([]rune(text))) + " characters was ignored: nothing here takes text")
	}
	if m.prompt != nil && m.prompt.hand != nil && m.palette == nil {
		m.prompt.err = "a paste confirms nothing: type it by hand"
		return nil
	}
	return m.typed(text)
}

// undoLayer is esc: what lies on top goes first. It never quits, unless files alone
// are shown: below them is nothing.
func (m *Model) undoLayer() tea.Cmd {
	if cmd, done := m.dropInput(); done {
		return cmd
	}
	switch {
	case m.top() == viewHelp && m.search != "":
		m.search = ""
		return nil
	case m.closeView():
		return m.ask()
	case m.onlyDumps():
		return m.leave()
	case m.opening.gen != 0:
		m.opening.cancel()
		m.opening = opening{}
		return m.say("opening was given up")
	case m.dismissFates():
		return nil
	case m.paneFocused():
		return m.toggleFocus()
	case m.table.frozen:
		return m.toggleFreeze()
	case m.query.text != "":
		return m.setFilter("")
	case len(m.marks.ids) > 0:
		return m.clearMarks()
	case m.query.only:
		return m.setOnlyAttention(false)
	}
	return m.say("nothing to undo; " + m.keys.firstKey("quit") + " quits")
}

// back is q: the view below, then out.
func (m *Model) back() tea.Cmd {
	if m.closeView() {
		return m.ask()
	}
	return m.leave()
}

// interrupt is ctrl+c: back, then out; a second one leaves from anywhere.
func (m *Model) interrupt() tea.Cmd {
	now := m.opt.Now()
	if now-m.interrupted < leaveTime {
		return tea.Quit
	}
	m.interrupted = now
	if cmd, done := m.dropInput(); done {
		return cmd
	}
	return m.back()
}

// moveBy moves the cursor, the text or the choice.
func (m *Model) moveBy(n int) tea.Cmd {
	switch m.scene() {
	case inMenu:
		m.menu.sel = min(max(m.menu.sel+n, 0), max(len(m.menu.items(m))-1, 0))
	case inFirstRun:
		m.first.sel = min(max(m.first.sel+n, 0), len(m.choices())-1)
	case inWhy, inHelp, inSources:
		m.text.move(n, m.bodyLines())
	case inAlerts, inEvents, inCommands, inLogs, inDumps, inDump, inTrial, inHandover, inRaw:
		return m.moveLine(n)
	default:
		if m.paneFocused() {
			return m.moveSide(n)
		}
		m.table.move(n, m.bodyRows(), m.opt.Now())
		return m.ask()
	}
	return nil
}

const farAway = 1 << 30

func (m *Model) moveTop() tea.Cmd {
	if m.scene()&inLists != 0 && !m.paneFocused() {
		m.table.goTo(0, m.bodyRows(), m.opt.Now())
		return m.ask()
	}
	return m.moveBy(-farAway)
}

func (m *Model) moveBottom() tea.Cmd {
	if m.scene()&inLists != 0 && !m.paneFocused() {
		m.table.goTo(farAway, m.bodyRows(), m.opt.Now())
		return m.ask()
	}
	return m.moveBy(farAway)
}

// choose takes what the cursor is on, in a menu or on the first-run page.
func (m *Model) choose() tea.Cmd {
	if m.scene() == inMenu {
		return m.chooseMenu(false)
	}
	all := m.choices()
	if m.first.sel >= len(all) {
		return nil
	}
	a := all[m.first.sel]
	if off := m.offReason(a); off != "" {
		return m.refuse(off)
	}
	return a.do(m)
}

func (m *Model) toggleChoice() tea.Cmd { return m.chooseMenu(true) }

// mostPending is how many presses wait for an answer at most.
const mostPending = 20

// nextAttention goes to the next (or previous) session that needs attention.
func (m *Model) nextAttention(n int) tea.Cmd {
	t := &m.table
	if t.frozen {
		return m.nextAttentionHere(n)
	}
	if m.window.AskSeq < t.cursorSeq || m.window.AskSeq < t.validSeq {
		// The answer at hand is of another cursor; the press waits for the next.
		t.pending = min(max(t.pending+n, -mostPending), mostPending)
		return nil
	}
	if id := m.nextTroubled(n); id != "" {
		return m.goToTroubled(id)
	}
	if n > 0 && !t.touched { // the answer has no anchor yet: it would lead to where we are
		return m.nextAttentionHere(n)
	}
	id := m.window.NextAttention
	if n < 0 {
		id = m.window.PrevAttention
	}
	if id == "" {
		return m.say("nothing needs attention" + m.query.among())
	}
	if id == t.cursor && t.touched {
		return m.say("nothing else needs attention" + m.query.among())
	}
	t.follow(id, m.bodyRows(), m.opt.Now())
	m.text = scroller{}
	return m.ask()
}

// nextAttentionHere looks no further than the rows at hand.
func (m *Model) nextAttentionHere(n int) tea.Cmd {
	t := &m.table
	at := t.index()
	for step := 1; step <= len(t.rows); step++ {
		i := ((at+n*step)%len(t.rows) + len(t.rows)) % len(t.rows)
		if r := &t.rows[i]; r.Attention < watchdog.AttentionUnknown && r.ID != t.cursor {
			t.follow(r.ID, m.bodyRows(), m.opt.Now())
			m.text = scroller{}
			return m.ask()
		}
	}
	return m.say("nothing else needs attention" + m.query.among())
}

// togglePane shows and hides what explains the cursor.
func (m *Model) togglePane() tea.Cmd {
	m.noPane, m.paneFocus = !m.noPane, false
	m.layout = layout{}
	m.table.clampTop(m.bodyRows())
	return m.ask()
}

// toggleFreeze holds the table still; the header goes on.
func (m *Model) toggleFreeze() tea.Cmd {
	m.table.frozen = !m.table.frozen
	m.table.frozenAt = m.window.Now.Wall
	return m.ask()
}

// copyID copies the id of the session under the cursor.
func (m *Model) copyID() tea.Cmd {
	return m.copyText(string(m.table.cursor))
}

// copyText puts text into the clipboard and shows it, since the terminal may
// drop it on the way.
func (m *Model) copyText(text string) tea.Cmd {
	m.say("copied, if the terminal allows: " + text)
	if m.opt.Copy == nil {
		return tea.SetClipboard(text)
	}
	return m.opt.Copy(text, func(err error) tea.Msg { return textCopied{text: text, err: err} })
}

func needsSession(m *Model) string {
	if m.table.cursor == "" {
		return "there is no session under the cursor"
	}
	return ""
}
