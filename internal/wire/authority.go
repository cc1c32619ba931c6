package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

type authority struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`
}

// EncodeAuthority writes the marker of a cluster's authority.
func EncodeAuthority(a watchdog.Authority) ([]byte, error) {
	if err := checkAuthority(a); err != nil {
		return nil, fmt.Errorf("the authority %q cannot be written down: %w", termtext.Clean(a.Name), err)
	}
	return marshal(authority(a))
}

// DecodeAuthority reads the marker of a cluster's authority. An error says what
// is wrong with it; nothing may be settled then.
func DecodeAuthority(src []byte) (a watchdog.Authority, err error) {
	err = readDocument(src, fields{"name": exactly(&a.Name), "identity": exactly(&a.Identity)})
	if err == nil {
		err = checkAuthority(a)
	}
	if err != nil {
		return watchdog.Authority{}, fmt.Errorf("the marker of the ledger's authority cannot be read: %w; find out who wrote it before you remove it", err)
	}
	return a, nil
}

func checkAuthority(a watchdog.Authority) error {
	if !slices.Contains([]string{"jetstream", "redis", "file", "memory"}, a.Name) {
		return fmt.Errorf("its name is %q, and jetstream, redis, file and memory are known", termtext.Clean(a.Name))
	}
	if !plainName(a.Identity) {
		return errors.New("it does not say which one it is")
	}
	return nil
}
