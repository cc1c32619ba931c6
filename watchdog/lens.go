package watchdog

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"
)

// lens answers asked windows over the slabs. It keeps what successive windows
// share: the order by id and its buffers. One goroutine uses one lens.
type lens struct {
	t       *Tracker
	version uint64
	births  []uint32 // by record; 0 not in byID
	byID    []uint32 // records in the order of their ids
	place   []uint32 // place of a record in byID
	rank    []uint8  // of each record in this pass: its Attention, or notShown
	keyed   []keyed
	urgent  []urgent
	ordered []uint32
}

// notShown is the rank of a record that the window leaves out.
const notShown = math.MaxUint8

type keyed struct {
	key Key
	rec uint32
}

// urgent is a record that needs attention, with what it is sorted by.
type urgent struct {
	rank     uint8
	answered uint8
	since    moment
	rec      uint32
}

// Look answers one window. It may be called from any goroutine.
func (t *Tracker) Look(a Ask) Window {
	l := lens{t: t}
	return l.look(&a)
}

// look never holds the tracker's lock for longer than one slab takes, so that
// beats do not wait for it.
func (l *lens) look(a *Ask) Window {
	for !l.refreshOrder() {
		// Sessions were forgotten meanwhile; the order must be found anew.
	}
	w := Window{AskSeq: a.Seq, Anchor: -1}
	l.scan(a, &w)
	order := l.order(a)
	w.Matched = len(order)
	l.neighbours(a, order, &w)
	l.fill(a, order, &w)

	t := l.t
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.globals(a, &w)
	if n, ok := t.store.find([]byte(a.Focus)); ok && a.Focus != "" {
		d := t.detail(n)
		w.Focus = &d
	}
	w.Picked = t.picked(a.Picked, l.shows)
	if a.Focus != "" {
		t.payloads.watch(a.Focus, t.now.Mono)
	}
	if a.Payload {
		w.Payloads = t.payloads.list(a.Focus, t.now.Mono)
	}
	return w
}

// orderChunk is how many newcomers are put in order under one lock.
const orderChunk = 512

// refreshOrder brings the order by id up to date: who left goes, and the
// newcomers are merged in, some at a time. It reports false if sessions were
// forgotten while it worked.
func (l *lens) refreshOrder() bool {
	s := l.t.store
	l.t.mu.RLock()
	version, removals, used := s.version, s.removals, s.used
	l.t.mu.RUnlock()
	if version == l.version {
		return true
	}
	fresh := l.newcomers(used)
	for len(fresh) > 0 {
		n := min(orderChunk, len(fresh))
		l.t.mu.RLock()
		if s.removals != removals {
			l.t.mu.RUnlock()
			l.version, l.births, l.byID = 0, nil, nil
			return false
		}
		l.merge(fresh[:n])
		l.t.mu.RUnlock()
		fresh = fresh[n:]
	}
	l.version = version
	l.place = slices.Grow(l.place[:0], used)[:used]
	for i, n := range l.byID {
		l.place[n] = uint32(i)
	}
	return true
}

// newcomers lists the records that are not in byID, and takes out those that
// are no longer what they were.
func (l *lens) newcomers(used int) []uint32 {
	var fresh []uint32
	gone := false
	for len(l.births) < used {
		l.births = append(l.births, 0)
	}
	for first := 0; first < used; first += slabSize {
		l.t.mu.RLock()
		for n := first; n < min(first+slabSize, used); n++ {
			r := l.t.store.at(uint32(n))
			if r.birth == l.births[n] {
				continue
			}
			gone = gone || l.births[n] != 0
			l.births[n] = 0
			if r.birth != 0 {
				fresh = append(fresh, uint32(n))
			}
		}
		l.t.mu.RUnlock()
	}
	if gone {
		l.byID = slices.DeleteFunc(l.byID, func(n uint32) bool { return l.births[n] == 0 })
	}
	return fresh
}

// merge puts records into byID. The caller holds the lock.
func (l *lens) merge(fresh []uint32) {
	s := l.t.store
	compare := func(a, b uint32) int { return bytes.Compare(s.idOf(s.at(a)), s.idOf(s.at(b))) }
	slices.SortFunc(fresh, compare)
	old := l.byID
	l.byID = append(l.byID, fresh...)
	end := len(old)
	for k := len(fresh) - 1; k >= 0; k-- {
		n := fresh[k]
		l.births[n] = s.at(n).birth
		at, _ := slices.BinarySearchFunc(old[:end], n, compare)
		copy(l.byID[at+k+1:], l.byID[at:end])
		l.byID[at+k] = n
		end = at
	}
}

// scan counts the fleet and ranks each record, slab by slab.
func (l *lens) scan(a *Ask, w *Window) {
	t := l.t
	l.rank = slices.Grow(l.rank[:0], len(l.place))[:len(l.place)]
	l.keyed, l.urgent = l.keyed[:0], l.urgent[:0]
	for first := 0; first < len(l.place); first += slabSize {
		t.mu.RLock()
		s := scanner{t: t, a: a, l: l, fleet: &w.Fleet, now: t.now.Mono}
		for n := first; n < min(first+slabSize, len(l.place)); n++ {
			l.rank[n] = notShown
			if r := t.store.at(uint32(n)); r.birth != 0 && r.birth == l.births[n] {
				w.Total++
				s.one(uint32(n), r)
			}
		}
		t.mu.RUnlock()
	}
}

type scanner struct {
	t     *Tracker
	a     *Ask
	l     *lens
	fleet *Fleet
	now   time.Duration
}

// shown is the verdict as it is shown: blindness covers what we cannot see.
func (t *Tracker) shown(r *record) (Verdict, Attention) {
	if r.carried&t.sighted == 0 && t.blind[r.carried].open && !coversBlindness(r.verdict) {
		return Unknown, AttentionUnknown
	}
	return r.verdict, r.attention
}

// coversBlindness reports whether a verdict stands above unknown in the table.
func coversBlindness(v Verdict) bool {
	return v.Ended() || v == CrashLoop || v == Restarting
}

func (s *scanner) one(n uint32, r *record) {
	verdict, attention := s.t.shown(r)
	f := s.fleet
	f.ByVerdict[verdict]++
	if !verdict.Ended() {
		f.Live++
		if s.t.assessed(r, s.now) {
			f.Assessed++
		}
	}
	switch {
	case r.flags&flagDismissed != 0:
		f.Past[verdict]++
	case attention.Counted() && r.flags&flagAnswered != 0:
		f.Answered++
	case attention.Counted():
		f.NeedYou++
	}
	if attention == AttentionWait {
		if r.rule == ruleOverdue {
			f.Overdue++
		} else {
			f.Human++
		}
	}
	if s.a.OnlyAttention && attention == AttentionNone {
		return
	}
	if !s.a.KeepEnded && attention == AttentionNone && verdict.Ended() && s.now-s.t.mono(r.since) > CompletedLinger {
		return
	}
	if s.a.Match != nil || s.a.Sort != nil {
		c := s.t.candidate(r, verdict, attention, s.now)
		if s.a.Match != nil && !s.a.Match(&c) {
			return
		}
		if s.a.Sort != nil {
			s.l.keyed = append(s.l.keyed, keyed{s.a.Sort(&c), n})
		}
	}
	s.l.rank[n] = uint8(attention)
	if attention < AttentionUnknown {
		s.l.urgent = append(s.l.urgent, urgent{uint8(attention), r.answered(), r.since, n})
	}
}

// answered sorts what somebody answered after the rest.
func (r *record) answered() uint8 {
	if r.flags&flagAnswered != 0 {
		return 1
	}
	return 0
}

// assessed reports whether the work of a session can be judged already.
func (t *Tracker) assessed(r *record, now time.Duration) bool {
	return r.flags&(flagWorkKnown|flagChanged) != 0 || r.verdict != Running ||
		now-t.mono(r.firstSeen) >= t.thresholds[r.thresholds].StallTimeout
}

func (t *Tracker) candidate(r *record, verdict Verdict, attention Attention, now time.Duration) Candidate {
	c := Candidate{
		ID: t.store.idOf(r), Task: t.store.text.get(r.task), State: t.stateText(r),
		Generation: r.generation, Verdict: verdict, Attention: attention,
		For: now - t.mono(r.since), BeatAge: t.beatAge(r, now), WorkKnown: r.flags&flagWorkKnown != 0,
		Uptime: -1, Credits: r.credits, Waiting: r.wait, Sources: r.carried,
	}
	if verdict != r.verdict {
		c.For = now - t.blind[r.carried].Since()
	}
	c.WorkAge, _ = t.workAge(r, now)
	if r.flags&flagUptime != 0 {
		c.Uptime = t.uptime(r, now)
	}
	if sd := t.store.sideOf(r); sd != nil {
		c.Host, c.Agent = []byte(sd.host), []byte(sd.agent)
	}
	return c
}

// beatAge is the age of the last beat; -1 unknown.
func (t *Tracker) beatAge(r *record, now time.Duration) time.Duration {
	age := max(now-r.lastBeat, 0)
	switch {
	case r.flags&flagAgeUnknown != 0:
		return -1
	case r.flags&flagAgeEstimated != 0:
		age += t.store.sideOf(r).estimatedAge
	}
	return age
}

// workAge is the age of the last work, or of the last visible change; bound
// says that no change was seen since we watch.
func (t *Tracker) workAge(r *record, now time.Duration) (age time.Duration, bound bool) {
	if r.flags&flagWorkKnown != 0 {
		return max(now-r.lastWork, 0), false
	}
	if r.lastChange == noMoment {
		return max(now-t.mono(r.firstSeen), 0), true
	}
	return max(now-t.mono(r.lastChange), 0), false
}

// uptime goes on while beats arrive; it stands still once the execution ended,
// whatever its verdict then is: restarting and held as a crash loop too.
func (t *Tracker) uptime(r *record, now time.Duration) time.Duration {
	published := time.Duration(r.uptime) * time.Second
	if r.verdict.Ended() || ended(r, t.store.sideOf(r)) {
		return published
	}
	return published + max(now-r.lastBeat, 0)
}

func (t *Tracker) stateText(r *record) []byte {
	if r.pub == StateOther {
		return t.store.text.get(r.state)
	}
	return []byte(r.pub.String())
}

// order gives the matched records in the order of the window: by its sort key,
// or else what needs attention first (most urgent, of that what nobody has
// answered, then newest), then the rest by id, so that rows stand still.
func (l *lens) order(a *Ask) []uint32 {
	order := l.ordered[:0]
	if a.Sort != nil {
		slices.SortFunc(l.keyed, func(x, y keyed) int {
			c := compareKeys(x.key, y.key)
			if a.Invert && !math.IsNaN(x.key.Num) && !math.IsNaN(y.key.Num) {
				c = -c
			}
			if c == 0 {
				c = int(l.place[x.rec]) - int(l.place[y.rec])
			}
			return c
		})
		for _, k := range l.keyed {
			order = append(order, k.rec)
		}
		l.ordered = order
		return order
	}
	slices.SortFunc(l.urgent, func(x, y urgent) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.answered, y.answered), cmp.Compare(y.since, x.since), cmp.Compare(l.place[x.rec], l.place[y.rec]))
	})
	for _, u := range l.urgent {
		order = append(order, u.rec)
	}
	for _, rank := range [...]Attention{AttentionUnknown, AttentionNone} {
		for _, n := range l.byID {
			if l.rank[n] == uint8(rank) {
				order = append(order, n)
			}
		}
	}
	if a.Invert {
		slices.Reverse(order)
	}
	l.ordered = order
	return order
}

// compareKeys orders by number, then text; NaN comes last.
func compareKeys(x, y Key) int {
	xn, yn := math.IsNaN(x.Num), math.IsNaN(y.Num)
	switch {
	case xn != yn:
		if xn {
			return 1
		}
		return -1
	case x.Num < y.Num:
		return -1
	case x.Num > y.Num:
		return 1
	case x.Text < y.Text:
		return -1
	case x.Text > y.Text:
		return 1
	}
	return 0
}

// neighbours finds the anchor and what needs attention before and after it.
func (l *lens) neighbours(a *Ask, order []uint32, w *Window) {
	s := l.t.store
	l.t.mu.RLock()
	anchor, known := s.find([]byte(a.Anchor))
	l.t.mu.RUnlock()
	if known && a.Anchor != "" {
		w.Anchor = slices.Index(order, anchor)
	}
	n := len(order)
	attention := func(i int) bool { return l.rank[order[i]] < uint8(AttentionUnknown) }
	wants := attention
	if slices.ContainsFunc(l.urgent, func(u urgent) bool { return u.answered == 0 }) { // those that somebody answered can wait
		wants = func(i int) bool { return attention(i) && !l.answered(order[i]) }
	}
	idAt := func(i int) ID {
		l.t.mu.RLock()
		defer l.t.mu.RUnlock()
		if r := s.at(order[i]); r.birth == l.births[order[i]] {
			return ID(s.idOf(r))
		}
		return "" // forgotten since the scan
	}
	for k := 1; k <= n; k++ {
		if i := (w.Anchor + k) % n; wants(i) {
			w.NextAttention = idAt(i)
			break
		}
	}
	for k := 1; k <= n; k++ {
		if i := (max(w.Anchor, 0) - k + n) % n; wants(i) {
			w.PrevAttention = idAt(i)
			break
		}
	}
}

// answered reports whether the alert of a record was answered when it was scanned.
func (l *lens) answered(n uint32) bool {
	l.t.mu.RLock()
	defer l.t.mu.RUnlock()
	return l.t.store.at(n).answered() != 0
}

// fillChunk is how many rows are copied under one lock.
const fillChunk = 128

// fill copies the wanted rows.
func (l *lens) fill(a *Ask, order []uint32, w *Window) {
	height := a.Height
	if height < 0 || height > len(order) {
		height = len(order)
	}
	offset := min(max(a.Offset, 0), len(order)-height)
	if w.Anchor >= 0 && height > 0 {
		offset = max(min(offset, w.Anchor), w.Anchor-height+1)
	}
	w.Offset = offset
	w.Rows = make([]Row, 0, height)
	t := l.t
	for chunk := range slices.Chunk(order[offset:offset+height], fillChunk) {
		t.mu.RLock()
		v := t.view()
		for _, n := range chunk {
			if r := t.store.at(n); r.birth != 0 && r.birth == l.births[n] { // not forgotten since the scan
				row, _, _ := t.row(n, r, &v)
				w.Rows = append(w.Rows, row)
			}
		}
		t.mu.RUnlock()
	}
}

// globals copies what does not belong to one session.
func (t *Tracker) globals(a *Ask, w *Window) {
	now := t.now.Mono
	w.Now, w.Started = t.now, t.epoch
	w.Fleet.LastTrouble = t.lastTrouble
	if t.trouble > 0 {
		w.Fleet.LastTrouble = now
	}
	w.Fleet.LateBeats = t.late
	w.Self = Self{Lag: t.health.lag, Score: t.health.score, Drops: t.drops, Coalesced: t.coalesced,
		Shed: t.shed, Beats: t.beats, Suspended: t.suspended}
	for _, src := range AllSources() {
		if s := &t.sights[src]; s.configured {
			w.Links = append(w.Links, s.shown(now))
		}
	}
	for i := len(t.brake.groups) - 1; i >= 0; i-- {
		w.Groups = append(w.Groups, t.groupShown(t.brake.groups[i], now))
	}
	w.Events = t.events.latest(a.Events, a.EventsOf)
	w.RefusedCommands = t.refusals.counts
	w.Actions = t.latestActions(a.Actions, t.now.Mono)
	w.Ledger = t.ledgerShown(now)
	w.Alerts = t.alertsShown(a.Alerts)
}

// shown is a source's link as of now.
func (s *sight) shown(now time.Duration) Link {
	l := s.link
	l.Sighted, l.Reason = s.up, s.reason
	l.Since = max(now-s.changed, 0)
	l.LastTrip = -1
	if s.lastTrip >= 0 {
		l.LastTrip = max(now-s.lastTrip, 0)
	}
	if s.nextTry > 0 {
		l.NextTry = max(s.nextTry-now, 0)
	}
	return l
}

// groupMembersShown bounds the ids that a window names of a group.
const groupMembersShown = 100

func (t *Tracker) groupShown(g *group, now time.Duration) Group {
	out := Group{N: len(g.members), Of: g.of, Began: g.began, Shared: t.shared(g)}
	for _, joined := range g.members { // the last of them to be let go
		if left, held := g.held(&t.policy, joined, now); held && left < 0 {
			out.HeldFor = left
			break
		} else if held {
			out.HeldFor = max(out.HeldFor, left)
		}
	}
	out.Released = g.released
	for n := range g.members {
		out.Members = append(out.Members, ID(t.store.idOf(t.store.at(n))))
	}
	slices.Sort(out.Members)
	out.Members = out.Members[:min(len(out.Members), groupMembersShown)]
	return out
}

// shared names what all members of a group have in common.
func (t *Tracker) shared(g *group) string {
	host, carried := "", SourceSet(0)
	first, same := true, true
	for n := range g.members {
		r := t.store.at(n)
		h := ""
		if sd := t.store.sideOf(r); sd != nil {
			h = sd.host
		}
		if first {
			host, carried, first = h, r.carried, false
			continue
		}
		same = same && host == h
		host = commonPrefix(host, h)
		if carried != r.carried {
			carried = 0
		}
	}
	switch {
	case same && host != "":
		return "all on host " + host
	case len(host) >= 2:
		return "all on hosts " + host + "*"
	case carried == SourceNATS.Set():
		return "all seen by NATS only"
	case carried == SourceRedis.Set():
		return "all seen by Redis only"
	}
	return ""
}

func commonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
