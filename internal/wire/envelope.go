package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// SigningKey signs what this process writes. Its zero value is no key.
type SigningKey struct {
	ID      string
	Private ed25519.PrivateKey
}

// Set reports whether there is a key.
func (k SigningKey) Set() bool { return len(k.Private) == ed25519.PrivateKeySize }

// PublicKeys are the keys whose signatures count, by their ids.
type PublicKeys map[string]ed25519.PublicKey

// Envelope is a payload as it travels, with a signature over its very bytes. A
// payload that is not signed has no key id and no signature.
type Envelope struct {
	Payload   []byte
	KeyID     string
	Signature []byte
}

// Wrap puts a payload into an envelope, signed if there is a key.
func Wrap(payload []byte, key SigningKey) Envelope {
	e := Envelope{Payload: payload}
	if key.Set() {
		e.KeyID, e.Signature = key.ID, ed25519.Sign(key.Private, payload)
	}
	return e
}

// Encode writes the envelope. An error says that it would be too long to be
// read, or that its payload is no text.
func (e Envelope) Encode() ([]byte, error) {
	signature := ""
	if e.Signature != nil {
		signature = base64.StdEncoding.EncodeToString(e.Signature)
	}
	out, err := marshal(struct {
		Payload   string `json:"payload"`
		KeyID     text   `json:"key_id"`
		Signature text   `json:"signature"`
	}{string(e.Payload), text(e.KeyID), text(signature)})
	if err == nil && len(out) > MaxDocumentBytes {
		err = fmt.Errorf("an envelope of %d bytes cannot be sent: %d are the most that is read", len(out), MaxDocumentBytes)
	}
	return out, err
}

// DecodeEnvelope reads an envelope. It says nothing of whether the signature
// holds: Verify does.
func DecodeEnvelope(src []byte) (Envelope, error) {
	var e Envelope
	payload := false
	err := readDocument(src, fields{
		"payload": func(v value) error {
			if v.kind != kindText {
				return errNoText
			}
			e.Payload, payload = []byte(v.text), true
			return nil
		},
		"key_id": exactly(&e.KeyID),
		"signature": func(v value) (err error) {
			e.Signature, err = base64.StdEncoding.DecodeString(v.text)
			if v.kind != kindText || err != nil || len(e.Signature) != ed25519.SignatureSize {
				return errors.New("is not an Ed25519 signature in base64")
			}
			return nil
		},
	})
	if err == nil && !payload {
		err = errNoEnvelope
	}
	if err != nil {
		return Envelope{}, err
	}
	return e, nil
}

var errNoEnvelope = errors.New("it is no signed envelope: it has no payload")

// Verify says why the signature does not count. Nil: one of the keys made it.
func (e Envelope) Verify(keys PublicKeys) error {
	key, known := keys[e.KeyID]
	switch {
	case e.Signature == nil:
		return errors.New("it is not signed")
	case !known || len(key) != ed25519.PublicKeySize:
		return fmt.Errorf("it is signed with the key %q, which is not among the configured ones", termtext.Clean(e.KeyID))
	case !ed25519.Verify(key, e.Payload, e.Signature):
		return fmt.Errorf("its signature is not that of the key %q", termtext.Clean(e.KeyID))
	}
	return nil
}

// Seal is how a ledger signs the records that it writes and what it believes of
// those that it reads. The zero value signs nothing and believes everything: no
// keys are configured.
type Seal struct {
	Key     SigningKey
	Trusted PublicKeys // if there are any, nothing else is believed
}

// Usable says why no terminal record can be written that would be believed; nil:
// it can.
func (s Seal) Usable() error {
	switch {
	case len(s.Trusted) == 0:
		return nil
	case !s.Key.Set():
		return errors.New("no terminal record can be written: public keys are configured, and no signing key; set commands.signing_key_file")
	}
	if err := Wrap([]byte("{}"), s.Key).Verify(s.Trusted); err != nil {
		return fmt.Errorf("no terminal record can be written: %w; put the public key of the signing key among commands.public_keys", err)
	}
	return nil
}

// Record writes a terminal record as it is stored.
func (s Seal) Record(r watchdog.Record) ([]byte, error) {
	plain, err := EncodeRecord(r)
	if err == nil {
		err = s.Usable()
	}
	switch {
	case err != nil:
		return nil, err
	case !s.Key.Set():
		return plain, nil
	}
	return Wrap(plain, s.Key).Encode()
}

// Open reads what is stored at the place of a terminal record. The error wraps
// watchdog.ErrForeignRecord.
func (s Seal) Open(id watchdog.ID, g watchdog.Generation, stored []byte) (watchdog.Record, error) {
	e, err := DecodeEnvelope(stored)
	switch {
	case errors.Is(err, errNoEnvelope) && len(s.Trusted) == 0:
		return DecodeRecord(id, g, stored)
	case err == nil && len(s.Trusted) > 0:
		err = e.Verify(s.Trusted)
	}
	if err != nil {
		return watchdog.Record{}, foreign(id, g, err)
	}
	return DecodeRecord(id, g, e.Payload)
}
