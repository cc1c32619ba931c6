package cli

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
)

// sealOf is how records and commands are signed, and whose are believed.
func sealOf(settings *config.Config) (wire.Seal, error) {
	var seal wire.Seal
	for _, k := range settings.Commands.PublicKeys {
		if seal.Trusted == nil {
			seal.Trusted = wire.PublicKeys{}
		}
		seal.Trusted[k.ID] = k.Key
	}
	secret, err := settings.SecretFile(keySigning)
	if err != nil || !secret.Set() {
		return seal, err
	}
	key, err := signingKey(secret.Reveal())
	if err != nil {
		return seal, refusedKey(settings, err.Error()+"; how one is made stands in the README under Acting")
	}
	public := key.Private.Public().(ed25519.PublicKey)
	switch trusted, listed := seal.Trusted[key.ID]; {
	case bytes.Equal(key.Private.Seed(), trusted):
		return seal, refusedKey(settings, fmt.Sprintf("it holds the public key of %q; give the private one", key.ID))
	case len(seal.Trusted) > 0 && !listed:
		return seal, refusedKey(settings, fmt.Sprintf("its key %q is not among commands.public_keys, so that nobody would believe what it signs: add %s:%s there",
			key.ID, key.ID, base64.StdEncoding.EncodeToString(public)))
	case listed && !public.Equal(trusted):
		return seal, refusedKey(settings, fmt.Sprintf("commands.public_keys has another key under the name %q: it does not belong to this one", key.ID))
	}
	seal.Key = key
	return seal, nil
}

// refusedKey says what is wrong with the key, at the place where it is named.
func refusedKey(settings *config.Config, text string) error {
	return settings.Refuse(config.Fault{Key: keySigning, Text: text})
}

const keySigning = "commands.signing_key_file"

// signingKey reads "ops1:" and the base64 of an Ed25519 seed (32 bytes) or of a
// seed with its public key (64).
func signingKey(text string) (wire.SigningKey, error) {
	id, encoded, ok := strings.Cut(strings.TrimSpace(text), ":")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	switch {
	case !ok || id == "" || err != nil:
		return wire.SigningKey{}, errors.New(`the file must hold a name, a colon and the base64 of an Ed25519 seed, such as "ops1:BASE64"`)
	case len(raw) == ed25519.SeedSize:
		return wire.SigningKey{ID: id, Private: ed25519.NewKeyFromSeed(raw)}, nil
	case len(raw) == ed25519.PrivateKeySize:
		key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !key.Equal(ed25519.PrivateKey(raw)) {
			return wire.SigningKey{}, errors.New("the two halves of the key do not belong together; give the seed alone")
		}
		return wire.SigningKey{ID: id, Private: key}, nil
	}
	return wire.SigningKey{}, fmt.Errorf("the key has %d bytes; give the base64 of 32 (a seed) or 64", len(raw))
}
