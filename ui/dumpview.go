package ui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/sessionwatch/sessionwatch/internal/stackdump"
)

// dumpOrder is how the stacks of a dump are grouped.
type dumpOrder uint8

const (
	bySuspicion dumpOrder = iota
	byPlace
	bySize
	dumpOrders
)

func (o dumpOrder) String() string { return [...]string{"by suspicion", "by place", "by size"}[o] }

// dumpSeen is the dump that is looked at.
type dumpSeen struct {
	entry    DumpEntry
	opened   uint64
	view     *stackdump.View // nil: not read yet
	raw      []string
	trouble  string
	compared string // the older dump that it is compared with; empty none

	showRaw bool
	order   dumpOrder
	open    []bool           // by section
	unfold  map[foldKey]bool // folded library calls that are shown
	flat    []dumpLine
	version uint64
}

type foldKey struct{ section, row int }

// dumpLine is a line of the screen: what it shows.
type dumpLine struct {
	kind    dumpLineKind
	section int
	row     int // of the section
	inner   int // of what the row folds; -1 the row itself
	text    string
}

type dumpLineKind uint8

const (
	verdictLine dumpLineKind = iota
	noteLine
	headingLine
	sectionLine
	rowLine
	rawLine
)

// dumpRead is a dump that was read and understood.
type dumpRead struct {
	gen, opened uint64
	view        *stackdump.View
	raw         []string
	compared    string
	err         error
}

// showDump opens the view of a dump; its text comes later.
func (m *Model) showDump(e DumpEntry) {
	m.lastOpened++
	m.dump = dumpSeen{entry: e, opened: m.lastOpened, version: m.dump.version + 1, order: m.dump.order, unfold: map[foldKey]bool{}}
	g := &m.pagers[viewDump]
	g.restart()
	g.follow, g.wrap = false, true
	m.openView(viewDump)
}

// readDump reads and parses a dump, and an older one to compare it with, off
// the screen's goroutine.
func (m *Model) readDump(older *DumpEntry) tea.Cmd {
	gen, opened, name := m.gen, m.dump.opened, m.dump.entry.Name
	read := m.opt.ReadDump
	if !m.onlyDumps() {
		read = m.children.Dump
	}
	options := stackdump.Options{LoopThread: m.dump.entry.LoopThread}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), dumpsLimit)
		defer cancel()
		out := dumpRead{gen: gen, opened: opened}
		file, err := parseDump(ctx, read, name)
		if err != nil {
			out.err = err
			return out
		}
		out.raw = rawLines(file)
		if older == nil {
			out.view = stackdump.NewView(file, options)
			return out
		}
		before, err := parseDump(ctx, read, older.Name)
		if err != nil {
			out.err = fmt.Errorf("the older dump: %w", err)
			return out
		}
		out.view, out.compared = stackdump.NewDiff(before, file, options), older.Name
		return out
	}
}

func parseDump(ctx context.Context, read func(context.Context, string) ([]byte, error), name string) (*stackdump.File, error) {
	text, err := read(ctx, name)
	if err != nil {
		return nil, err
	}
	return stackdump.Parse(string(text)), nil
}

func rawLines(f *stackdump.File) []string {
	if f.Raw == "" {
		return []string{"(it has no text: " + f.Format.Title() + ")"}
	}
	return strings.Split(strings.TrimRight(strings.ReplaceAll(strings.ReplaceAll(f.Raw, "\r", ""), "\t", "    "), "\n"), "\n")
}

// dumpCame takes a dump that was read. What cannot be compared stays as it is.
func (m *Model) dumpCame(msg *dumpRead) tea.Cmd {
	d := &m.dump
	if msg.gen != m.gen || msg.opened != d.opened {
		return nil
	}
	if msg.err != nil && d.view != nil {
		return m.refuse(msg.err.Error())
	}
	if msg.err != nil {
		d.trouble = msg.err.Error()
		return nil
	}
	d.view, d.raw, d.compared, d.trouble = msg.view, msg.raw, msg.compared, ""
	if extra := extraSections(d.view); len(extra) > 0 {
		d.view.Sections = append(d.view.Sections, extra...)
	}
	d.open = make([]bool, len(d.view.Sections))
	for i := range d.view.Sections {
		d.open[i] = d.view.Sections[i].Open
	}
	clear(d.unfold)
	d.flatten()
	m.pager().cur, m.pager().top = 0, 0
	if m.top() == viewDump {
		for i := range d.flat {
			if d.flat[i].kind == sectionLine {
				m.pager().cur = i
				break
			}
		}
	}
	return nil
}

// extraSections are what belongs to no stack: other output, and the capture.
func extraSections(v *stackdump.View) []stackdump.Section {
	var out []stackdump.Section
	add := func(title string, lines []string, more int) {
		if len(lines) == 0 {
			return
		}
		s := stackdump.Section{Kind: stackdump.RuntimeSection, Title: title, Count: len(lines), Summary: lines[0]}
		for _, l := range lines {
			s.Rows = append(s.Rows, stackdump.Row{Kind: stackdump.FactRow, Name: l})
		}
		if more > 0 {
			s.Rows = append(s.Rows, stackdump.Row{Kind: stackdump.FactRow, Name: "and " + count(more) + " more: the raw text has them"})
		}
		out = append(out, s)
	}
	if v.More > 0 {
		add(count(v.More)+" more stacks", []string{"too many to show: the raw text has them"}, 0)
	}
	add(count(len(v.Stray)+v.StrayMore)+" lines that belong to no dump", v.Stray, v.StrayMore)
	add("how it was taken", v.Log, 0)
	return out
}

// flatten lists the lines that are seen now.
func (d *dumpSeen) flatten() {
	d.flat = d.flat[:0]
	d.version++
	if d.showRaw {
		for i := range d.raw {
			d.flat = append(d.flat, dumpLine{kind: rawLine, row: i, text: d.raw[i]})
		}
		return
	}
	v := d.view
	if v == nil {
		return
	}
	d.flat = append(d.flat, dumpLine{kind: verdictLine, text: v.Headline})
	for _, note := range v.Notes {
		d.flat = append(d.flat, dumpLine{kind: noteLine, text: note})
	}
	for _, group := range d.groups() {
		if group.title != "" {
			d.flat = append(d.flat, dumpLine{kind: headingLine, text: group.title})
		}
		for _, i := range group.sections {
			d.flattenSection(i)
		}
	}
}

func (d *dumpSeen) flattenSection(i int) {
	s := &d.view.Sections[i]
	d.flat = append(d.flat, dumpLine{kind: sectionLine, section: i, inner: -1, text: sectionText(s, d.open[i])})
	if !d.open[i] {
		return
	}
	for k := range s.Rows {
		d.flat = append(d.flat, dumpLine{kind: rowLine, section: i, row: k, inner: -1, text: rowText(&s.Rows[k])})
		if !d.unfold[foldKey{i, k}] {
			continue
		}
		for n := range s.Rows[k].Folded {
			d.flat = append(d.flat, dumpLine{kind: rowLine, section: i, row: k, inner: n, text: rowText(&s.Rows[k].Folded[n])})
		}
	}
}

func sectionText(s *stackdump.Section, open bool) string {
	if open || s.Summary == "" {
		return s.Title
	}
	return s.Title + "   " + s.Summary
}

func rowText(r *stackdump.Row) string {
	if r.Where == "" {
		return r.Name
	}
	return r.Where + "  " + r.Name
}

// dumpGroup is sections below one heading.
type dumpGroup struct {
	title    string
	sections []int
	threads  int
}

// groups puts the sections in order. By suspicion they stand as they are.
func (d *dumpSeen) groups() []dumpGroup {
	all := make([]int, len(d.view.Sections))
	for i := range all {
		all[i] = i
	}
	switch d.order {
	case bySize:
		slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(d.view.Sections[b].Count, d.view.Sections[a].Count) })
	case byPlace:
		return d.places(all)
	}
	return []dumpGroup{{sections: all}}
}

// places groups stacks that stand at the same place, the largest group first.
func (d *dumpSeen) places(all []int) []dumpGroup {
	var out []dumpGroup
	at := map[string]int{}
	for _, i := range all {
		s := &d.view.Sections[i]
		k, ok := at[s.Summary]
		if !ok {
			k = len(out)
			at[s.Summary] = k
			out = append(out, dumpGroup{title: s.Summary})
		}
		out[k].sections = append(out[k].sections, i)
		out[k].threads += s.Count
	}
	slices.SortStableFunc(out, func(a, b dumpGroup) int { return cmp.Compare(b.threads, a.threads) })
	for i := range out {
		g := &out[i]
		g.title = fmt.Sprintf("%s  in %s", counted(g.threads, "thread"), firstOf(g.title, "no place"))
		if n := len(g.sections); n > 1 {
			g.title += ", " + count(n) + " different stacks"
		}
	}
	return out
}

func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return count(n) + " " + word + "s"
}

func (m *Model) dumpLines() lines {
	d := &m.dump
	return lines{total: len(d.flat), version: d.version, text: func(i int) string { return d.flat[i].text },
		height: func(i, width int) int {
			l := &d.flat[i]
			if l.kind == sectionLine || l.kind == headingLine {
				return 1
			}
			return wrapCount(l.text, width-dumpIndent(l))
		},
		unfold: d.unfoldMatches}
}

// unfoldMatches opens what is folded and has the text.
func (d *dumpSeen) unfoldMatches(search string) {
	if d.view == nil || d.showRaw {
		return
	}
	want, changed := strings.ToLower(search), false
	has := func(r *stackdump.Row) bool { return foldedIndex(rowText(r), want) >= 0 }
	for i := range d.view.Sections {
		s := &d.view.Sections[i]
		for k := range s.Rows {
			if slices.ContainsFunc(s.Rows[k].Folded, func(r stackdump.Row) bool { return has(&r) }) && !d.unfold[foldKey{i, k}] {
				d.unfold[foldKey{i, k}], d.open[i], changed = true, true, true
			}
			if has(&s.Rows[k]) && !d.open[i] {
				d.open[i], changed = true, true
			}
		}
	}
	if changed {
		d.flatten()
	}
}
