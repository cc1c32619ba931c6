package recording

import (
	"encoding/json"
	"fmt"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// What comes from a file is as hostile as what comes from a bus. Here its text,
// ids and beats become safe, by the same rules.

func cleanText(s string) string { return termtext.Clean(s) }

func readID(s string) (watchdog.ID, bool) {
	if !wire.ValidID(s) {
		return "", false
	}
	return watchdog.ID(s), true
}

// decodeBeat reads a beat as it would be read from a bus. Its bytes are data's.
func decodeBeat(data []byte, b *watchdog.Beat) error {
	var named struct {
		ID string `json:"session_id"`
	}
	if err := json.Unmarshal(data, &named); err != nil {
		return fmt.Errorf("beat: %w", watchdog.RefusedJSON)
	}
	if err := wire.DecodeBeat(b, named.ID, data); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}
