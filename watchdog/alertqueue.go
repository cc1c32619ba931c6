package watchdog

import (
	"cmp"
	"slices"
)

// maxAlertsShown bounds the alerts that a window carries.
const maxAlertsShown = 1000

// mutesShown and hostsShown bound what a window carries of mutes, and of the hosts
// of one group.
const (
	mutesShown = 100
	hostsShown = 100
)

// compareAlerts orders the queue: what nobody has answered first, the most urgent
// of it, the newest of that.
func compareAlerts(a, b *alert) int {
	return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(causes[a.cause].attention, causes[b.cause].attention),
		cmp.Compare(b.began, a.began), cmp.Compare(b.seq, a.seq))
}

// place sorts out what needs nobody now.
func (a *alert) place() int {
	switch {
	case a.standing == AlertOpen && (!a.gone || a.cause == CauseGroup):
		return 0
	case a.standing == AlertOpen:
		return 1 // it runs again, and is watched
	case a.standing == AlertAcked:
		return 2
	}
	return 3
}

// alertsShown is the queue as it stands, with the first most alerts of it.
func (t *Tracker) alertsShown(most int) AlertsView {
	as := &t.alerts
	v := AlertsView{Total: len(as.all), Open: as.counts[AlertOpen], Acked: as.counts[AlertAcked],
		Quiet: as.counts[AlertSnoozed] + as.counts[AlertMuted], Beside: as.beside}
	if most <= 0 {
		return v
	}
	for _, a := range firstAlerts(as.all, min(most, maxAlertsShown)) {
		shown := t.alertShown(a, true)
		if a.cause == CauseGroup {
			shown.Hosts = t.hostsOf(a)
			shown.Members = t.membersOf(a)
		}
		v.List = append(v.List, shown)
	}
	for _, n := range as.mutes {
		if t.holds(n) {
			v.Mutes = append(v.Mutes, *n)
		}
	}
	slices.SortStableFunc(v.Mutes, func(a, b AlertNote) int { return cmp.Compare(a.end(), b.end()) })
	v.Mutes = v.Mutes[:min(len(v.Mutes), mutesShown)]
	return v
}

// firstAlerts gives the first of all in their order, without sorting the rest.
func firstAlerts(all []*alert, most int) []*alert {
	first := make([]*alert, 0, min(most, len(all))+1)
	for _, a := range all {
		if len(first) == most && compareAlerts(a, first[most-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, a, compareAlerts)
		first = slices.Insert(first, at, a)
		first = first[:min(len(first), most)]
	}
	return first
}

// alertFor is the first of the alerts about a record; nil: there is none.
func (t *Tracker) alertFor(n uint32, r *record) *Alert {
	first := t.alertOf(n, r)
	if first == nil && len(t.alerts.all) > 0 {
		var about []*alert
		for _, a := range [...]*alert{t.alerts.loops[n], t.alerts.credits[n]} {
			if a != nil {
				about = append(about, a)
			}
		}
		if a := t.alerts.named[sessionKey(ID(t.store.idOf(r)), r.generation, CauseAction)]; a != nil {
			about = append(about, a)
		}
		if len(about) > 0 {
			first = slices.MinFunc(about, compareAlerts)
		}
	}
	if first == nil {
		return nil
	}
	shown := t.alertShown(first, true)
	return &shown
}

// records are all that an alert of a group is about.
func (a *alert) records(each func(n uint32)) {
	if a.group != nil {
		for n := range a.group.members {
			each(n)
		}
	}
	for n := range a.lost {
		each(n)
	}
}

// membersOf names what a group's alert is about, in the order of the ids.
func (t *Tracker) membersOf(a *alert) []ID {
	var ids []ID
	a.records(func(n uint32) { ids = append(ids, ID(t.store.idOf(t.store.at(n)))) })
	slices.Sort(ids)
	return ids[:min(len(ids), groupMembersShown)]
}

// hostsOf counts a group's members by their hosts.
func (t *Tracker) hostsOf(a *alert) []HostCount {
	on := map[string]int{}
	a.records(func(n uint32) {
		host := ""
		if sd := t.store.sideOf(t.store.at(n)); sd != nil {
			host = sd.host
		}
		on[host]++
	})
	hosts := make([]HostCount, 0, len(on))
	for host, n := range on {
		hosts = append(hosts, HostCount{host, n})
	}
	slices.SortFunc(hosts, func(a, b HostCount) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Host, b.Host)) })
	return hosts[:min(len(hosts), hostsShown)]
}
