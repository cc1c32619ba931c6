package watchdog

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// incidentBook finds out what happened from one event after another.
type incidentBook struct {
	of     map[ID]*HandoverIncident // the last one of each session
	list   []*HandoverIncident
	silent []*HandoverIncident // began within GroupWindow, and may be of a group
	groups []*HandoverIncident // that have not ended
	joined map[*HandoverIncident]joining
	inside map[*HandoverIncident]bool // told by its group
	stale  map[ID]*HandoverIncident   // open when its observer ended, and not told of since
	waits  map[ID]*HandoverIncident   // for a human, that go on
}

// joining is how a group grew.
type joining struct {
	n    int
	last time.Time // when the last one fell silent
}

// incidents lists the troubles that began, or went on, since then.
func (h *Handover) incidents(happened []Transition) {
	b := incidentBook{of: map[ID]*HandoverIncident{}, joined: map[*HandoverIncident]joining{}, inside: map[*HandoverIncident]bool{}, stale: map[ID]*HandoverIncident{}, waits: map[ID]*HandoverIncident{}}
	for i := range happened {
		switch t := &happened[i]; t.Kind {
		case "":
			b.wait(t)
			b.verdict(t)
		case EventGroup:
			b.group(t)
		case EventWatch:
			b.another(t)
		}
	}
	for _, one := range b.stale {
		one.Became = Unknown.String()
	}
	slices.SortStableFunc(b.list, func(x, y *HandoverIncident) int { return x.At.Compare(y.At) })
	all := []HandoverIncident{}
	for _, one := range b.list {
		switch {
		case b.inside[one], one.At.Before(h.Since) && (one.Until == nil || one.Until.Before(h.Since)):
			continue // an old one that goes on stands among the open ones
		case one.Verdict == Silent.String() && one.ID != "" && one.Until != nil && one.Until.Sub(one.At) < tellSilentAfter:
			continue // nobody was told of it either
		case one.ID == "":
			h.Groups++
			told, of, _ := strings.Cut(one.Text, " of ") // of those alone with which it was formed
			if formed, err := strconv.Atoi(strings.ReplaceAll(told, ",", "")); err == nil {
				one.Text = FormatCount(max(b.joined[one].n, formed)) + " of " + of
			}
		default:
			h.Alerts++
		}
		all = append(all, *one)
	}
	left := max(len(all)-handoverListed, 0)
	h.Unlisted += left
	h.Happened = all[left:]
}

// wait follows the waits for a human. One is no trouble until it needs somebody,
// which no change of a verdict tells: whether it did is known once it is over.
func (b *incidentBook) wait(t *Transition) {
	at, now := wallTime(t.At.Wall), b.waits[t.ID]
	human := t.To == Waiting && strings.Contains(t.Text, waitWord(WaitHuman))
	switch {
	case t.To == Unknown, human && now != nil:
	case human:
		b.waits[t.ID] = &HandoverIncident{At: at, ID: t.ID, Generation: t.Generation, Verdict: Waiting.String(), Text: t.Text, Times: 1, Found: t.New}
	case now != nil:
		delete(b.waits, t.ID)
		if at.Sub(now.At) >= HumanWaitAttention {
			now.Until, now.Became, now.Generation = &at, t.To.String(), max(now.Generation, t.Generation)
			b.list = append(b.list, now)
		}
	}
}

// troubled reports whether a verdict is trouble by itself.
func troubled(v Verdict) bool {
	switch v {
	case Stalled, Wedge, CrashLoop, Lost, Failed, Silent, Disputed:
		return true
	case Running, Waiting, Quiet, Unknown, Restarting, Completed, Stopped, Expired, VerdictCount:
	}
	return false
}

// verdict follows one session. Not to see it ends no trouble.
func (b *incidentBook) verdict(t *Transition) {
	at, now := wallTime(t.At.Wall), b.of[t.ID]
	delete(b.stale, t.ID)
	switch {
	case t.To == Unknown:
	case !troubled(t.To):
		if now != nil && now.Until == nil {
			now.Until, now.Became = &at, t.To.String()
		}
	case now != nil && now.Until == nil: // it became worse, or is told again by who looks now
		now.Verdict, now.Generation = t.To.String(), max(now.Generation, t.Generation)
		if t.Text != "" {
			now.Text = t.Text
		}
	case now != nil && at.Sub(*now.Until) < loopStable && !b.inside[now]:
		now.Until, now.Became, now.Times = nil, "", now.Times+1
		now.Verdict, now.Text, now.Generation = t.To.String(), t.Text, max(now.Generation, t.Generation)
	default:
		one := &HandoverIncident{At: at, ID: t.ID, Generation: t.Generation, Verdict: t.To.String(), Text: t.Text, Times: 1, Found: t.New}
		b.of[t.ID] = one
		b.list = append(b.list, one)
		if t.To == Silent {
			b.fellSilent(one)
		}
	}
}

// another follows from one observer to the next: what was open goes on only if
// the next one tells of it.
func (b *incidentBook) another(t *Transition) {
	if t.Text != WatchBegan {
		return
	}
	at := wallTime(t.At.Wall)
	for _, g := range b.groups {
		g.Until, g.Became = &at, "its observer ended"
	}
	b.groups, b.silent = nil, nil
	for id, one := range b.of {
		if one.Until == nil {
			b.stale[id] = one
		}
	}
}

// fellSilent takes a silence into the group that forms around it.
func (b *incidentBook) fellSilent(one *HandoverIncident) {
	b.silent = slices.DeleteFunc(b.silent, func(o *HandoverIncident) bool { return one.At.Sub(o.At) > GroupWindow })
	for _, g := range b.groups {
		if j := b.joined[g]; one.At.Sub(j.last) <= GroupWindow {
			b.inside[one], b.joined[g] = true, joining{j.n + 1, one.At}
			return
		}
	}
	b.silent = append(b.silent, one)
}

// group follows the groups: which of them ended is not told, so that the oldest
// is taken for it.
func (b *incidentBook) group(t *Transition) {
	at := wallTime(t.At.Wall)
	if reason, over := strings.CutPrefix(t.Text, groupOverText); over {
		if len(b.groups) > 0 {
			b.groups[0].Until, b.groups[0].Became = &at, reason
			b.groups = b.groups[1:]
		}
		return
	}
	if !strings.Contains(t.Text, groupFormedText) {
		for _, g := range b.groups { // somebody released them
			if _, who, ok := strings.Cut(t.Text, " is "); ok {
				g.Released = who
			}
		}
		return
	}
	began, n := at, 0
	for _, one := range b.silent {
		if at.Sub(one.At) <= GroupWindow {
			b.inside[one] = true
			n++
			if one.At.Before(began) {
				began = one.At
			}
		}
	}
	b.silent = b.silent[:0]
	text, _, _ := strings.Cut(t.Text, ";")
	g := &HandoverIncident{At: began, Verdict: Silent.String(), Text: text, Times: 1}
	b.joined[g] = joining{n, at}
	b.groups, b.list = append(b.groups, g), append(b.list, g)
}

// blindness lists when a source was not seen, and when nobody looked.
func (h *Handover) blindness(happened []Transition) {
	open := map[string]*HandoverBlind{}
	var list []*HandoverBlind
	var last time.Time // of the last event before
	ended := false
	for i := range happened {
		t := &happened[i]
		at := wallTime(t.At.Wall)
		switch {
		case t.Kind == EventWatch && t.Text == WatchBegan:
			for source, b := range open {
				until := last
				b.Until = &until
				delete(open, source)
			}
			if !last.IsZero() {
				list = append(list, &HandoverBlind{From: last, Until: &at, Vague: !ended})
			}
		case t.Kind != EventSight:
		default:
			source, reason, blind := sightTold(t.Text)
			switch b := open[source]; {
			case blind && b == nil:
				b = &HandoverBlind{Source: source, From: at, Reason: reason}
				open[source], list = b, append(list, b)
			case !blind && b != nil:
				b.Until = &at
				delete(open, source)
			}
		}
		last, ended = at, t.Kind == EventWatch && t.Text == WatchEnded
	}
	h.Blind = []HandoverBlind{}
	for _, b := range list {
		if b.Until == nil || b.Until.After(h.Since) {
			h.Blind = append(h.Blind, *b)
		}
	}
	slices.SortStableFunc(h.Blind, func(a, b HandoverBlind) int { return a.From.Compare(b.From) })
	left := max(len(h.Blind)-handoverListed, 0)
	h.Unlisted += left
	h.Blind = h.Blind[left:]
}

// sightTold reads what noteSight wrote.
func sightTold(text string) (source, reason string, blind bool) {
	if source, reason, blind = strings.Cut(text, sightBlindText); blind {
		return source, reason, true
	}
	return strings.TrimSuffix(text, sightSeenText), "", false
}
