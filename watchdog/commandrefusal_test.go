package watchdog

import (
	"strings"
	"testing"
	"time"
)

// Commands that were not obeyed are counted, and told of for people as often as
// leaves room for other news.
func TestRefusedCommandsAreToldAndCounted(t *testing.T) {
	tr := NewTracker(DefaultPolicy(), Instant{Mono: time.Hour, Boot: time.Hour})
	var one RefusedCommands
	one.Add(CommandReplayed)
	at := time.Hour
	refuse := func(n int) {
		for range n {
			tr.Apply(Disobeyed{Command: RefusedCommand{Fault: CommandReplayed, Session: "s", Why: "it came again",
				Command: Command{Op: OpStop, IssuedBy: "mallory"}}, Counts: one, At: at})
		}
	}
	told := func() (texts []string) {
		for _, e := range tr.Look(Ask{Events: -1, EventsOf: "s"}).Events {
			if e.Kind == EventRefused {
				texts = append(texts, e.Text)
			}
		}
		return texts
	}
	refuse(1)
	if got := told(); len(got) != 1 || got[0] != "stop by mallory was not obeyed (replayed): it came again" {
		t.Errorf("one was told as %q", got)
	}
	refuse(4999)
	if n := len(told()); n != refusalsTold {
		t.Errorf("%d of 5000 at once were told, want %d", n, refusalsTold)
	}
	at += refusalPause
	refuse(1)
	if got := told(); len(got) != refusalsTold+1 || !strings.HasSuffix(got[0], "more") {
		t.Errorf("later %d were told, the last as %q", len(got), got[0])
	}
	if n := tr.Look(Ask{}).RefusedCommands; n.Of(CommandReplayed) != 5001 || n.String() != "5001 replayed" {
		t.Errorf("counted were %q", n)
	}
}
