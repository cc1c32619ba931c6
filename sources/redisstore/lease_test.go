package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestBeatOfAnEndedExecutionIsRefused(t *testing.T) {
	mini := miniredis.RunT(t)
	target, err := Options{URL: "redis://" + mini.Addr()}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t.Context(), target, nil)
	defer c.Close()
	beat := Holding{ID: "a.b:c", BootID: "k3x9", Payload: []byte(`{"x":1}`), TTL: time.Minute, Lease: time.Minute}
	hold := func(h Holding) error { return c.hold(context.Background(), h) }

	if err := hold(beat); err != nil {
		t.Fatal(err)
	}
	if got, _ := mini.Get("agent:liveness:a.b:c"); got != `{"x":1}` {
		t.Errorf("the liveness key holds %q", got)
	}
	if got, _ := mini.Get("{agent:liveness:a.b:c}:lease"); got != `{"generation":null,"boot_id":"k3x9"}` {
		t.Errorf("the lease holds %q", got)
	}
	if ttl := mini.TTL("{agent:liveness:a.b:c}:lease"); ttl != time.Minute {
		t.Errorf("the lease lives for %v", ttl)
	}

	_ = mini.Set("{agent:liveness:a.b:c}:head", `{"executions":[{"generation":2,"boot_id":"k3x9"},{"generation":1,"boot_id":"old"}]}`)
	_ = mini.Set("{agent:liveness:a.b:c}:terminal:2", `{"the":"end"}`)
	mini.Del("agent:liveness:a.b:c")
	var refused *Refused
	if err := hold(beat); !errors.As(err, &refused) || string(refused.Record) != `{"the":"end"}` {
		t.Errorf("a beat of an ended boot id: %v", err)
	}
	named := beat
	named.Generation, named.BootID = 2, "another"
	if err := hold(named); !errors.As(err, &refused) {
		t.Errorf("a beat of an ended generation: %v", err)
	}
	if mini.Exists("agent:liveness:a.b:c") {
		t.Error("a refused beat was written")
	}
	named.Generation = 3
	if err := hold(named); err != nil {
		t.Errorf("a beat of the next generation: %v", err)
	}
	if got, _ := mini.Get("{agent:liveness:a.b:c}:lease"); got != `{"generation":3,"boot_id":"another"}` {
		t.Errorf("the lease holds %q", got)
	}
	stalled := named
	stalled.Payload = nil
	mini.Del("agent:liveness:a.b:c")
	mini.Del("{agent:liveness:a.b:c}:lease")
	if err := hold(stalled); err != nil || mini.Exists("agent:liveness:a.b:c") || !mini.Exists("{agent:liveness:a.b:c}:lease") {
		t.Errorf("a stalled publisher renews its lease and nothing else: %v", err)
	}
	last := named
	last.Lease = 0
	other := last
	other.BootID = "somebody"
	if err := hold(other); err != nil || !mini.Exists("{agent:liveness:a.b:c}:lease") {
		t.Errorf("the last beat of another took the lease away: %v", err)
	}
	if err := hold(last); err != nil || mini.Exists("{agent:liveness:a.b:c}:lease") {
		t.Errorf("the last beat left its lease: %v", err)
	}
}
