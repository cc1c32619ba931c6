package wire

import (
	"strings"
	"testing"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestPlaces(t *testing.T) {
	const id = watchdog.ID("team.a:job-1")
	for got, want := range map[string]string{
		TerminalSubject(id, 3):                    "agent.terminal.team.a:job-1.3",
		CommandSubject(id):                        "agent.command.team.a:job-1",
		ResultSubject(id, "01J"):                  "agent.result.team.a:job-1.01J",
		EventSubject(id):                          "agent.event.team.a:job-1",
		OutputSubject(id):                         "agent.output.team.a:job-1",
		OutputWantSubject(id):                     "agent.output_want.team.a:job-1",
		DumpSubject(id):                           "agent.dump.team.a:job-1",
		HeadKey(id):                               "{agent:liveness:team.a:job-1}:head",
		TerminalKey(id, 4294967295):               "{agent:liveness:team.a:job-1}:terminal:4294967295",
		LeaseKey(id):                              "{agent:liveness:team.a:job-1}:lease",
		OutboxKey(id):                             "{agent:liveness:team.a:job-1}:outbox",
		CommandsKey(id):                           "{agent:liveness:team.a:job-1}:commands",
		ResultKey(id, "01J"):                      "{agent:liveness:team.a:job-1}:result:01J",
		DumpKey(id, "01J"):                        "{agent:liveness:team.a:job-1}:dump:01J",
		RegistryKey(id):                           "session:team.a:job-1",
		BucketStream(HeadsBucket):                 "KV_SW_HEADS",
		BucketSubject(MetaBucket, "authority"):    "$KV.SW_META.authority",
		BucketSubject(HeadsBucket, BucketKey(id)): "$KV.SW_HEADS.dGVhbS5hOmpvYi0x",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPlacesReadBack(t *testing.T) {
	for _, id := range []watchdog.ID{"a", "team.a.7", "user:42:chat", "世界", `q"\`, watchdog.ID(strings.Repeat("x", MaxIDBytes))} {
		for _, g := range []watchdog.Generation{1, 10, 4294967295} {
			if gotID, gotG, ok := GenerationFromSubject(TerminalSubject(id, g)); gotID != id || gotG != g || !ok {
				t.Errorf("%s#%d reads back from its subject as %q#%d, %v", id, g, gotID, gotG, ok)
			}
			if gotID, gotG, ok := GenerationFromKey(TerminalKey(id, g)); gotID != id || gotG != g || !ok {
				t.Errorf("%s#%d reads back from its key as %q#%d, %v", id, g, gotID, gotG, ok)
			}
		}
		if got, ok := IDFromBucketSubject(HeadsBucket, BucketSubject(HeadsBucket, BucketKey(id))); got != id || !ok {
			t.Errorf("%q reads back from its bucket as %q, %v", id, got, ok)
		}
		if got, rest, ok := IDFromLedgerKey(HeadKey(id)); got != id || rest != "head" || !ok {
			t.Errorf("%q reads back from its head as %q, %q, %v", id, got, rest, ok)
		}
		if got, ok := IDFromRegistryKey(RegistryKey(id)); got != id || !ok {
			t.Errorf("%q reads back from its hash as %q, %v", id, got, ok)
		}
		if got, ok := IDFromCommandSubject(CommandSubject(id)); got != id || !ok {
			t.Errorf("%q reads back from its commands as %q, %v", id, got, ok)
		}
	}
}

func TestPlacesThatNameNothing(t *testing.T) {
	for _, subject := range []string{
		TerminalProbeSubject, "agent.terminal.", "agent.terminal.a", "agent.terminal.a.0", "agent.terminal.a.01", "agent.terminal.a.+1", "agent.terminal.a.-1",
		"agent.terminal.a.1e1", "agent.terminal.a.4294967296", "agent.terminal..1", "agent.terminal.a..1", "agent.terminal.a b.1", "agent.liveness.a.1", "agent.terminal.a.",
		"agent.terminal.a\u200b.1", "agent.terminal.a.1_0",
	} {
		if id, g, ok := GenerationFromSubject(subject); ok {
			t.Errorf("%q names %q#%d", subject, id, g)
		}
	}
	for _, key := range []string{"{agent:liveness:a}:terminal:0", "{agent:liveness:a}:head", "{agent:liveness:}:terminal:1", "agent:liveness:a", "{agent:liveness:a", "{agent:liveness:a b}:terminal:1"} {
		if id, g, ok := GenerationFromKey(key); ok {
			t.Errorf("%q names %q#%d", key, id, g)
		}
	}
	for _, subject := range []string{"$KV.SW_HEADS.", "$KV.SW_HEADS.?", "$KV.SW_HEADS.YQ==", "$KV.SW_HEADS.YR", "$KV.SW_META.YQ", "$KV.SW_HEADS.IA"} {
		if id, ok := IDFromBucketSubject(HeadsBucket, subject); ok {
			t.Errorf("%q names %q", subject, id)
		}
	}
}
