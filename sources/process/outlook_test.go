package process

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Who is asked whether a child may be ended sees what would be ended.
func TestOutlookNamesTheWholeTree(t *testing.T) {
	w := new(witness)
	session := shell("a", "sleep 600 & sleep 601 & wait")
	session.StopGrace = 7 * time.Second
	supervise(t, w, nil, session)
	var got *watchdog.Outlook
	eventually(t, "all processes are named", func() bool {
		got = w.outlook()
		return got != nil && len(got.Members) == 3
	})
	if got.Members[0].Name == "sleep" || got.Members[1].Name != "sleep" || got.Members[2].Name != "sleep" || got.Members[0].PID == 0 {
		t.Errorf("the members are %+v", got.Members)
	}
	if got.Grace != 7*time.Second || got.Left != got.Burst || got.Burst == 0 || got.Window <= 0 || got.Brake != "" {
		t.Errorf("the outlook is %+v", got)
	}
}

func (w *witness) outlook() *watchdog.Outlook {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.events) - 1; i >= 0; i-- {
		if e, ok := w.events[i].(watchdog.Supervised); ok {
			return e.Process.Outlook
		}
	}
	return nil
}

func TestMembersAreBoundedAndTheLeaderIsFirst(t *testing.T) {
	var u usageOf
	for pid := range watchdog.MembersTold + 10 {
		u.name(processStat{pid: 100 + pid, comm: "w\x1b[31m"}, 100+watchdog.MembersTold+3)
	}
	if len(u.members) != watchdog.MembersTold || u.members[0].PID != 100+watchdog.MembersTold+3 || u.members[0].Name != "w" {
		t.Errorf("%d members, the first %+v", len(u.members), u.members[0])
	}
}

func TestDumpWords(t *testing.T) {
	type said struct {
		How    string
		Pauses bool
	}
	for name, c := range map[string]struct {
		mode config.DumpMode
		want said
	}{
		"none":    {config.DumpMode{Kind: config.DumpNone}, said{}},
		"signal":  {config.DumpMode{Kind: config.DumpSignal, Signal: 10}, said{"SIGUSR1", false}},
		"command": {config.DumpMode{Kind: config.DumpCommand, Command: []string{"py-spy", "dump"}}, said{"by py-spy", true}},
		"auto":    {config.DumpMode{Kind: config.DumpAuto}, said{"by what its runtime offers", true}},
	} {
		how, pauses := dumpWords(&config.Dump{Mode: c.mode})
		if diff := cmp.Diff(c.want, said{how, pauses}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
