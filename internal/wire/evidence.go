package wire

import (
	"encoding/json"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// EncodeEvidence writes what a settlement rests on, as why --json does. A
// generation that is settled can do nothing any more, so `can` says so.
func EncodeEvidence(s watchdog.Settle) []byte {
	d := watchdog.Detail{Row: watchdog.Row{ID: s.ID, Generation: s.Generation, Verdict: s.Verdict, For: -1}, Evidence: s.Evidence}
	out, err := json.Marshal(whyOf(&d))
	if err != nil {
		return nil // a number that JSON has not; the record stands without its evidence
	}
	return out
}
