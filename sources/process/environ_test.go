package process

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatAChildIsTold(t *testing.T) {
	ours := []string{"PATH=/bin", "HOME=/root", "NATS_URL=nats://user:secret@bus:4222", "REDIS_URL=redis://localhost:6379/0?protocol=3",
		"NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=1", "LISTEN_FDS=3", "SESSIONWATCH_HEARTBEAT_TOKEN=mine", "LANG=C", "=odd", "broken"}
	env := environment(ours, map[string]string{"LANG": "C.UTF-8", "MODEL": "large", "SESSIONWATCH_SESSION_ID": "forged"},
		greeting{id: "indexer", generation: 3, mark: "k3x9", notify: "/tmp/n.sock", url: "http://127.0.0.1:7077/heartbeat", token: "its"})
	want := []string{"HOME=/root", "LANG=C.UTF-8", "MODEL=large", "NOTIFY_SOCKET=/tmp/n.sock", "PATH=/bin", "REDIS_URL=redis://localhost:6379/0?protocol=3",
		"SESSIONWATCH_GENERATION=3", "SESSIONWATCH_HEARTBEAT_TOKEN=its", "SESSIONWATCH_HEARTBEAT_URL=http://127.0.0.1:7077/heartbeat",
		"SESSIONWATCH_RUN=k3x9", "SESSIONWATCH_SESSION_ID=indexer"}
	if !slices.Equal(env, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(env, "\n"), strings.Join(want, "\n"))
	}
	env = environment([]string{"SESSIONWATCH_GENERATION=9", "NATS_URL=nats://bus:4222"}, map[string]string{"REDIS_URL": "redis://:pw@r"}, greeting{id: "a", mark: "m"})
	want = []string{"NATS_URL=nats://bus:4222", "REDIS_URL=redis://:pw@r", "SESSIONWATCH_RUN=m", "SESSIONWATCH_SESSION_ID=a"}
	if !slices.Equal(env, want) {
		t.Errorf("got %q, want %q", env, want)
	}
}

func TestAddressesWithSecretsDoNotPass(t *testing.T) {
	for address, want := range map[string]bool{
		"nats://localhost:4222": false, "localhost:4222": false, "nats://a:1,nats://b:2": false, "": false, "rediss://r:6379/2": false,
		"nats://token@bus": true, "nats://u:p@bus": true, "redis://:p@r": true, "a:1, u:p@b:2": true, "redis://r?password=x": true,
		"redis://r?PASSWD=x": true, "redis://r#secret": true, "nats://bus%zz": true, "://": true, "user@host": true,
	} {
		if got := hasCredentials(address); got != want {
			t.Errorf("%q holds a secret: %v, want %v", address, got, want)
		}
	}
}
