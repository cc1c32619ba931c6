package orders

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// key is a key of a fixed seed.
func key(id string) wire.SigningKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, id)
	return wire.SigningKey{ID: id, Private: ed25519.NewKeyFromSeed(seed)}
}

func public(keys ...wire.SigningKey) wire.PublicKeys {
	out := wire.PublicKeys{}
	for _, k := range keys {
		out[k.ID] = k.Private.Public().(ed25519.PublicKey)
	}
	return out
}

func TestWhoIsObeyed(t *testing.T) {
	ours, other := key("ours"), key("other")
	payload := []byte(`{"op":"stop"}`)
	unsigned, signed := wire.Wrap(payload, wire.SigningKey{}), wire.Wrap(payload, ours)
	const obeyed = "obeyed"
	for name, c := range map[string]struct {
		rules Rules
		e     wire.Envelope
		p     Parcel
		want  string
	}{
		"anybody's, over a server that lets anybody in": {Rules{}, unsigned, Parcel{}, "unsigned"},
		"signed, and no key is known":                   {Rules{}, signed, Parcel{}, "unsigned"},
		"over a server that demands authentication":     {Rules{}, unsigned, Parcel{Authenticated: true}, obeyed},
		"from this machine, which is not trusted":       {Rules{}, unsigned, Parcel{Loopback: true}, "unsigned"},
		"from this machine, which is trusted":           {Rules{TrustLoopback: true}, unsigned, Parcel{Loopback: true}, obeyed},
		"from elsewhere, where this machine is trusted": {Rules{TrustLoopback: true}, unsigned, Parcel{}, "unsigned"},
		"signed with a known key":                       {Rules{Trusted: public(ours)}, signed, Parcel{}, obeyed},
		"signed with an unknown key":                    {Rules{Trusted: public(other)}, signed, Parcel{}, "signature"},
		"unsigned, where keys are known":                {Rules{Trusted: public(ours), TrustLoopback: true}, unsigned, Parcel{Authenticated: true, Loopback: true}, "unsigned"},
		"another payload than was signed": {
			Rules{Trusted: public(ours)}, wire.Envelope{Payload: []byte(`{"op":"kill"}`), Signature: signed.Signature, KeyID: "ours"}, Parcel{}, "signature",
		},
	} {
		got := obeyed
		if f, err := c.rules.fault(c.e, &c.p); err != nil {
			got = f.String()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestACommandOfAnotherFleet(t *testing.T) {
	for name, c := range map[string]struct {
		ours  func() string
		fleet string
		other bool
	}{
		"no fleet of ours":      {nil, "a", false},
		"ours is not known yet": {func() string { return "" }, "a", false},
		"it names none":         {func() string { return "a" }, "", false},
		"it is ours":            {func() string { return "a" }, "a", false},
		"it is another":         {func() string { return "a" }, "b", true},
	} {
		r := Rules{Fleet: c.ours}
		if got := r.otherFleet(&watchdog.Command{Fleet: c.fleet}); got != c.other {
			t.Errorf("%s: another fleet's is %v", name, got)
		}
	}
}

// TestSealIsRead: what a sender seals, a receiver with its public key obeys.
func TestSealIsRead(t *testing.T) {
	r := Rules{Key: key("ours"), Trusted: public(key("ours"))}
	c := stop("c1")
	sealed, err := r.Seal(c)
	if err != nil {
		t.Fatal(err)
	}
	e, err := wire.DecodeEnvelope(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.fault(e, &Parcel{}); err != nil {
		t.Error(err)
	}
	if got, err := wire.DecodeCommand("a", e.Payload); err != nil || got.ID != c.ID || got.Op != c.Op {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	if _, err := r.Seal(watchdog.Command{}); err == nil {
		t.Error("a command without an id is sealed")
	}
}

func TestDefaultsOfRules(t *testing.T) {
	r := Rules{}.WithDefaults()
	if r.Lease != time.Minute || r.MaxDeliveries != 3 {
		t.Errorf("a lease of %v, %d deliveries", r.Lease, r.MaxDeliveries)
	}
	r = Rules{Lease: time.Second, MaxDeliveries: 1}.WithDefaults()
	if r.Lease != time.Second || r.MaxDeliveries != 1 {
		t.Errorf("what was set became a lease of %v, %d deliveries", r.Lease, r.MaxDeliveries)
	}
}
