//go:build linux && !race

package cli_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// signer is a key pair as the configuration names it.
type signer struct {
	id, public, file string
	key              ed25519.PrivateKey
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := signer{id: id, public: id + ":" + base64.StdEncoding.EncodeToString(public), file: filepath.Join(t.TempDir(), id), key: private}
	if err := os.WriteFile(s.file, []byte(id+":"+base64.StdEncoding.EncodeToString(private.Seed())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// envelope is what stands where keys are configured.
type envelope struct {
	Payload   string `json:"payload"`
	KeyID     string `json:"key_id"`
	Signature []byte `json:"signature"`
}

func (s signer) seal(t *testing.T, payload string) string {
	t.Helper()
	text, err := json.Marshal(envelope{payload, s.id, ed25519.Sign(s.key, []byte(payload))})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Where keys are configured an end is signed by whoever settles, and one that is
// not, or by somebody else, is foreign: it is shown, blocks its generation and
// ends nothing, until an operator's expire does.
func TestKeyedServesBelieveSignedEndsAlone(t *testing.T) {
	waits(t)
	ours, theirs := newSigner(t, "ops1"), newSigner(t, "ops2")
	f := fleetOf(t, settleConfig+fmt.Sprintf("commands: {public_keys: [%q], signing_key_file: %q}\n", ours.public, ours.file), "")
	const dies, plain, forged, lives = "dies-00000", "plain-00000", "forged-00000", "lives-00000"
	beating := map[string]*producers{}
	for _, id := range []string{dies, plain, forged, lives} {
		beating[id] = startProducers(t, strings.TrimSuffix(id, "-00000"), 1, f.nats, f.redis)
		f.eventually(id+" has a number", func() bool { g, v := f.view(0, id); return g == 1 && v == "running" })
	}
	beating[dies].stop()
	bus := dialNATS(t, f.nats)
	defer bus.Close()
	record := func(id string) string {
		return fmt.Sprintf(`{"session_id":%q,"generation":1,"outcome":"completed","settled_by":"agent","writer":"x","nonce":"n","reason":"","at":"2026-11-30T03:12:44.120Z","evidence":null,"records":[]}`, id)
	}
	bus.publish("agent.terminal."+plain+".1", record(plain))
	bus.publish("agent.terminal."+forged+".1", theirs.seal(t, record(forged)))
	for i := range f.serves {
		for _, id := range []string{plain, forged} {
			f.eventually(id+" is disputed", func() bool { g, v := f.view(i, id); return g == 1 && v == "disputed" })
			if out, _ := f.ask(i, "why", id); !strings.Contains(out, "foreign terminal record") {
				t.Errorf("serve %d says of %s:\n%s", i+1, id, out)
			}
			if out, _ := f.ask(i, "events", id); !strings.Contains(out, "foreign terminal record") {
				t.Errorf("serve %d lists of %s:\n%s", i+1, id, out)
			}
		}
		f.eventually("who died is lost", func() bool { g, v := f.view(i, dies); return g == 1 && v == "lost" })
	}
	var e envelope
	text := f.ends()[dies+".1"]
	if json.Unmarshal([]byte(text), &e) != nil || e.KeyID != "ops1" || !ed25519.Verify(ours.key.Public().(ed25519.PublicKey), []byte(e.Payload), e.Signature) {
		t.Errorf("the end is not signed: %.300s", text)
	} else if end := decodeEnd(t, e.Payload); end.Outcome != "lost" || len(end.Records) != 2 {
		t.Errorf("the end is %+v", end)
	}
	f.eventually("Redis has the signed one too", func() bool {
		var inRedis envelope
		return json.Unmarshal([]byte(f.copyOf(dies, 1)), &inRedis) == nil && inRedis.KeyID == "ops1"
	})
	// Who beats no more is silent, and not settled: the place is taken.
	beating[plain].stop()
	beating[forged].stop()
	f.eventually("who beats no more is silent", func() bool { _, v := f.view(0, plain); return v == "silent" })
	time.Sleep(5 * time.Second)
	for _, id := range []string{plain, forged} {
		if _, v := f.view(1, id); v != "silent" {
			t.Errorf("%s is %s", id, v)
		}
	}
	if n := len(f.ends()); n != 3 {
		t.Errorf("%d messages are in the stream: %q", n, f.ends())
	}
	f.looksOnly(ours, dies, lives)
}

// looksOnly is a serve that may believe and not sign: it sees the ends, settles
// nothing, and says why.
func (f *fleet) looksOnly(ours signer, dead, alive string) {
	t := f.t
	f.kill(0)
	text := settleConfig + fmt.Sprintf("commands: {public_keys: [%q]}\n", ours.public)
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start(0)
	f.eventually("it shows what was settled", func() bool { g, v := f.view(0, dead); return g == 1 && v == "lost" })
	f.eventually("it says why it settles nothing", func() bool {
		out, _ := f.ask(0, "why", alive)
		return strings.Contains(out, "signing_key_file") || strings.Contains(f.says[0].String(), "signing_key_file")
	})
}
