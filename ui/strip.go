package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// fact is one labelled line about the session under the cursor.
type fact struct {
	label string
	text  string
	means meaning
}

// detail is what is known of the session under the cursor: everything, once
// the feed has answered; before that its row.
func (m *Model) detail() (*watchdog.Detail, bool) {
	if f := m.window.Focus; f != nil && f.ID == m.table.cursor {
		return f, true
	}
	if r := m.table.current(); r != nil {
		m.rowOnly = watchdog.Detail{Row: *r, BurnPerMin: math.NaN(), WasBurnPerMin: math.NaN(), CreditsLeft: -1, TaskSince: -1, Seq: -1, LoopLag: -1}
		return &m.rowOnly, false
	}
	return nil, false
}

// drawStrip explains the session under the cursor, below the table.
func (m *Model) drawStrip(p *painter) {
	n := m.stripLines()
	if n == 0 {
		return
	}
	d, full := m.detail()
	m.drawStripTitle(p, d)
	if d == nil {
		return
	}
	labels := 5
	facts := m.shortFacts(d, full)
	if n > 4 {
		labels = 6
		facts = m.longFacts(d, full)
	}
	for i := range min(len(facts), n-1) {
		m.drawFact(p, &facts[i], labels, 1)
	}
}

func (m *Model) drawFact(p *painter, f *fact, labels, lines int) {
	p.pad(1)
	p.cell(m.styles.Dim, f.label, labels)
	p.pad(p.x + 1)
	p.wrapped(m.styles.of(f.means), f.text, labels+2, lines)
	p.line()
}

// drawStripTitle is "── indexer #2 ─────── 1 of 2,002 ──". A hint stands in its rule, which
// is empty otherwise, as long as there is room.
func (m *Model) drawStripTitle(p *painter, d *watchdog.Detail) {
	s := &m.styles
	p.rule(s.Dim, m.glyphs.Rule, 2)
	p.pad(p.x + 1)
	right := ""
	if m.table.at >= 0 && m.table.matched > 0 {
		right = " " + count(m.table.at+1) + " of " + count(m.table.matched) + " "
	}
	if d != nil {
		gen := " " + generation(d.Generation)
		room := p.edge - p.x - len(right) - 4
		p.text(s.Title, fitMiddle(string(d.ID), room-len(gen)))
		p.text(s.Title, gen)
		p.pad(p.x + 1)
	}
	if h := m.hints.current; h != nil {
		key := m.keys.firstKey(h.action)
		if from := p.edge - len(right) - 2 - 2 - cells(key) - cells(h.text) - 3; from >= p.x+2 {
			p.rule(s.Dim, m.glyphs.Rule, from)
			p.pad(p.x + 1)
			p.text(s.Title, key)
			p.pad(p.x + 1)
			p.text(Style{}, h.text)
			p.pad(p.x + 1)
		}
	}
	p.rule(s.Dim, m.glyphs.Rule, p.edge-len(right)-2)
	p.text(s.Dim, right)
	p.rule(s.Dim, m.glyphs.Rule, p.edge)
	p.line()
}

// shortFacts are the three lines of a small screen. How it ended, or what its
// supervisor knows, is the state that counts.
func (m *Model) shortFacts(d *watchdog.Detail, full bool) []fact {
	state := m.stateFact(d, m.width-8)
	if f, ok := m.endFact(d); ok && full {
		state = f
	} else if f, ok := m.childFact(d); ok && full {
		if d.Task != "" {
			f.text += "; task \"" + d.Task + "\""
		}
		state = f
	}
	if f, ok := m.actFact(d.ID); ok {
		return []fact{m.whyFact(d, full), f, m.canFact(d, full)}
	}
	return []fact{m.whyFact(d, full), state, m.canFact(d, full)}
}

// longFacts are the seven lines of a larger one, and more where something ended
// or is supervised: the strip shows as many as it has room for.
func (m *Model) longFacts(d *watchdog.Detail, full bool) []fact {
	out := []fact{m.whyFact(d, full)}
	if f, ok := m.actFact(d.ID); ok {
		out = append(out, f)
	}
	if f, ok := m.endFact(d); ok && full {
		out = append(out, f)
	}
	if f, ok := m.childFact(d); ok && full {
		out = append(out, f)
	}
	told := len(out) > 1
	out = append(out, m.beatsFact(d, full), m.workFact(d, full), m.taskFact(d))
	if !told || !math.IsNaN(d.Credits) {
		out = append(out, m.creditFact(d))
	}
	return append(out, m.canFact(d, full), m.nextFact(d))
}

func (m *Model) whyFact(d *watchdog.Detail, full bool) fact {
	text := d.Verdict.String()
	if d.Why != "" {
		text = d.Why
	} else if full && d.Evidence.Rule != "" {
		text += ": " + d.Evidence.Rule
	}
	if e := &d.Evidence; full && e.Threshold > 0 && !strings.Contains(text, "limit") && healthy(&d.Row) {
		text += ", limit " + watchdog.FormatLimit(e.Threshold)
	}
	if arriving(d) && !strings.Contains(text, "beat") {
		text += "; beats arrive, last " + m.agoText(d) + " ago"
	}
	if d.Evidence.Held != "" && !strings.Contains(text, "HELD") {
		text += "; HELD: " + d.Evidence.Held
	}
	return fact{label: "why", text: text}
}

// arriving says whether beats come in as they should.
func arriving(d *watchdog.Detail) bool {
	fresh := d.Cadence <= 0 || d.BeatAge <= 2*d.Cadence
	return d.BeatAge >= 0 && fresh && d.Seeing != 0 && !d.Verdict.Ended() && d.Verdict != watchdog.Silent && d.Verdict != watchdog.Unknown
}

// agoText is the age of the last beat; in steps while the session is healthy,
// so that the strip stands still too.
func (m *Model) agoText(d *watchdog.Detail) string { return string(appendBeatAge(nil, &d.Row)) }

// stateFact is cut to room cells inside of the task, so that what stands behind
// it can be read; 0 leaves it whole.
func (m *Model) stateFact(d *watchdog.Detail, room int) fact {
	var b strings.Builder
	b.WriteString(orDash(d.State))
	if up := stepped(&d.Row, d.Uptime); up >= 0 {
		b.WriteString("  up " + age(up))
	}
	b.WriteString("  credits " + string(appendCredits(nil, d.Credits)))
	if d.Waiting != watchdog.WaitNone {
		b.WriteString("  waiting for " + d.Waiting.String())
		if d.WaitMax > 0 {
			b.WriteString(", max " + age(d.WaitMax))
		}
	}
	if d.Task == "" {
		return fact{label: "state", text: b.String() + "  no task published"}
	}
	since := ""
	if d.TaskSince >= 0 {
		since = ", since " + m.wallAt(m.window.Now.Mono-d.TaskSince)
	}
	task := d.Task
	if room > 0 {
		if room -= cells(b.String()) + len("  task \"\""); room-len(since) < 12 {
			since = "" // the task says more than since when it is
		}
		if room -= len(since); room < 12 {
			task = fit(task, max(room, 6))
		}
		task = fitMiddle(task, max(room, 6))
	}
	fmt.Fprintf(&b, "  task \"%s\"%s", task, since)
	return fact{label: "state", text: b.String()}
}

func (m *Model) taskFact(d *watchdog.Detail) fact {
	var b strings.Builder
	b.WriteString(orDash(d.State) + "  ")
	if d.Task == "" {
		b.WriteString("no task published")
	} else {
		fmt.Fprintf(&b, "\"%s\"", d.Task)
	}
	if pr := &d.Progress; pr.Known {
		fmt.Fprintf(&b, "  %d%%", percent(pr.Done, pr.Of))
		if !math.IsNaN(pr.PerMinute) {
			b.WriteString("  " + rate(pr.PerMinute))
			if !math.IsNaN(pr.WasPerMin) && rate(pr.WasPerMin) != rate(pr.PerMinute) {
				b.WriteString(", was " + rate(pr.WasPerMin))
			}
		}
		if pr.ETA >= 0 && pr.Done < pr.Of {
			b.WriteString("  eta " + age(stepped(&d.Row, pr.ETA)))
		}
	}
	if up := stepped(&d.Row, d.Uptime); up >= 0 {
		b.WriteString("  up " + age(up))
	}
	return fact{label: "task", text: b.String()}
}

func rate(perMinute float64) string {
	switch {
	case math.IsNaN(perMinute) || math.IsInf(perMinute, 0):
		return "-"
	case perMinute == 0:
		return "0/min"
	case math.Abs(perMinute) < 0.1:
		return fmt.Sprintf("%.2f/min", perMinute)
	case math.Abs(perMinute) < 100:
		return fmt.Sprintf("%.1f/min", perMinute)
	}
	return string(appendCredits(nil, perMinute)) + "/min"
}

func (m *Model) creditFact(d *watchdog.Detail) fact {
	if math.IsNaN(d.Credits) {
		return fact{label: "credit", text: "-  no budget published"}
	}
	var b strings.Builder
	b.Write(appendCredits(nil, d.Credits))
	if !math.IsNaN(d.BurnPerMin) {
		fmt.Fprintf(&b, ", %.2f/min", d.BurnPerMin)
		if !math.IsNaN(d.WasBurnPerMin) && math.Abs(d.WasBurnPerMin-d.BurnPerMin) >= 0.005 {
			fmt.Fprintf(&b, ", was %.2f/min", d.WasBurnPerMin)
		}
	}
	if d.CreditsLeft >= 0 {
		b.WriteString(", out in " + age(d.CreditsLeft))
	}
	return fact{label: "credit", text: b.String()}
}

// canFact says what is possible, and why the rest is not.
func (m *Model) canFact(d *watchdog.Detail, full bool) fact {
	const off = "dump, stop, restart: off, "
	if m.about.Replay != nil {
		return fact{label: "can", text: off + "this is a recording"}
	}
	if m.about.ReadOnly {
		text := off + m.contextName() + " is READ-ONLY"
		if would := possibleOps(d.Can.Would); full && len(would) > 0 {
			text += "; elsewhere it could take: " + strings.Join(would, ", ")
		}
		return fact{label: "can", text: text}
	}
	if !full {
		return fact{label: "can", text: "-"}
	}
	can, why := possibleOps(d.Can.May), d.Can.WhyNot()
	text := strings.Join(can, ", ")
	switch {
	case why == "":
	case len(can) == 0:
		text = off + why
	default:
		text += "; not " + why
	}
	return fact{label: "can", text: text}
}

// possibleOps lists what can be done, the least harmful first.
func possibleOps(ops watchdog.OpSet) []string {
	var can []string
	for _, op := range []watchdog.Op{watchdog.OpDump, watchdog.OpStop, watchdog.OpKill, watchdog.OpExpire, watchdog.OpRestart} {
		if ops.Has(op) {
			can = append(can, string(op))
		}
	}
	return can
}

func (m *Model) nextFact(d *watchdog.Detail) fact {
	return fact{label: "next", text: forecastText(d.Evidence.Next)}
}

// forecastText is "lost in 6s if nothing arrives; running if a beat arrives".
func forecastText(next []watchdog.Forecast) string {
	if len(next) == 0 {
		return "stays as it is until something arrives"
	}
	parts := make([]string, 0, len(next))
	for _, f := range next {
		s := f.Verdict.String()
		if f.In >= 0 {
			s += " in " + age(f.In)
		}
		switch {
		case strings.HasPrefix(f.If, "not "):
			s += ": " + f.If
		case f.If != "":
			s += " if " + f.If
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

func (m *Model) contextName() string {
	if m.about.Name != "" {
		return m.about.Name
	}
	return "this view"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// sinceText is "in 10 min", or what of it we watched.
func sinceText(d time.Duration) string {
	if d >= watchdog.HistoryPoints*watchdog.HistoryStep {
		return "in 10 min"
	}
	return "in the " + age(max(d, 0)) + " that we watched"
}
