package ui

import (
	"fmt"
	"time"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func alertAt(c watchdog.AlertCause, id watchdog.ID, g watchdog.Generation, since time.Duration, text string) watchdog.Alert {
	a := watchdog.Alert{Key: watchdog.AlertKey(fmt.Sprintf("%s#%d/%s", id, g, c)), Cause: c, ID: id, Generation: g, N: 1,
		Since: since, Began: at.Add(-since).UnixNano(), Text: text, Evidence: uint64(at.Add(-since).Unix())}
	if id == "" {
		a.N, a.Key = 0, watchdog.AlertKey("fleet/"+c.String())
	}
	return a
}

func noted(a watchdog.Alert, s watchdog.Standing, text string, until time.Duration) watchdog.Alert {
	a.Standing = s
	a.Note = &watchdog.AlertNote{Key: a.Key, Author: "ops1@eu1-01", Text: text, At: at.Add(-4 * mins), Kind: watchdog.NoteAck}
	if until > 0 {
		a.Note.Until = at.Add(until)
	}
	return a
}

// alertsWindow has the queue of the draft of the view, and more kinds.
func alertsWindow() watchdog.Window {
	w := massWindow()
	hosts := []watchdog.HostCount{{Host: "eu2-07", N: 210}, {Host: "eu2-08", N: 180}, {Host: "", N: 10}}
	group := watchdog.Alert{Key: "group/1796008248", Cause: watchdog.CauseGroup, N: 400, Since: 116 * sec, Began: at.Add(-116 * sec).UnixNano(),
		Text: "400 silent together: all on hosts eu2-*.", Members: w.Groups[0].Members, HeldFor: w.Groups[0].HeldFor, Shared: "all on hosts eu2-*", Hosts: hosts, Evidence: 400}
	list := []watchdog.Alert{
		group,
		alertAt(watchdog.CauseCrashLoop, "etl-nightly", 9, 100*sec, "CRASH-LOOP etl-nightly #9: 3 exits in 52s, code 1; stderr: ConnectionError: redis.lan:6379 refused."),
		alertAt(watchdog.CauseWedged, "gateway-eu1", 3, 5*mins, "WEDGED gateway-eu1 #3: loop 1m20 late, limit 15s."),
		alertAt(watchdog.CauseLost, "batch-job-9", 1, 38*mins, "LOST batch-job-9 #1: no beat 39m; settled 02:34Z by sweeper."),
		alertAt(watchdog.CauseDisputed, "crawler-0031", 1, 185*sec, "DISPUTED crawler-0031 #1: NATS says running, Redis says its key is gone."),
		alertAt(watchdog.CauseCredits, "research-88", 2, 4*mins, "CREDITS research-88: 1.20 left, out in 9m58."),
		alertAt(watchdog.CauseAction, "indexer", 2, 2*mins, "STOP NOT EFFECTIVE indexer #2: acknowledged 03:10Z, still beats. Next: X expire."),
		alertAt(watchdog.CauseReapRate, "", 0, 20*mins, "7 of 120 sessions were reaped within an hour, more than 2 %."),
		noted(alertAt(watchdog.CauseStalled, "batch-job-abc123", 3, 9*mins, "STALLED batch-job-abc123 #3: no work 15m, limit 5m; beats go on."), watchdog.AlertAcked, "vendor called, they look at it until 04:00Z", 0),
		noted(alertAt(watchdog.CauseHuman, "approver-billing", 1, 6*time.Hour+3*mins, "HUMAN approver-billing #1: 6h03 of 8h: approve refund."), watchdog.AlertSnoozed, "", 28*mins),
		noted(alertAt(watchdog.CauseStalled, "etl-hourly", 4, 11*mins, "STALLED etl-hourly #4: publisher says stalled; beats go on."), watchdog.AlertMuted, "deploy", 3*time.Hour),
	}
	list[10].Note.Key = watchdog.MatchKey("etl-h*")
	w.Alerts = watchdog.AlertsView{Total: len(list), Open: 8, Acked: 1, Quiet: 2, List: list,
		Mutes: []watchdog.AlertNote{{Key: watchdog.MatchKey("etl-h*"), Kind: watchdog.NoteMute, Author: "ops1@eu1-01", Text: "deploy", At: at.Add(-4 * mins), Until: at.Add(3 * time.Hour)}}}
	w.Fleet.NeedYou, w.Fleet.Answered = 404, 3
	w.Fleet.ByVerdict[watchdog.Stalled], w.Fleet.ByVerdict[watchdog.CrashLoop], w.Fleet.ByVerdict[watchdog.Wedge] = 2, 1, 1
	w.Fleet.ByVerdict[watchdog.Lost], w.Fleet.ByVerdict[watchdog.Disputed], w.Fleet.Human = 1, 1, 1
	return w
}
