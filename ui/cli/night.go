package cli

import (
	"bytes"
	_ "embed"

	"github.com/sessionwatch/sessionwatch/sources/recording"
)

// bundledNight is a recording that needs no file and no server: forty minutes
// with a stall, a loss, a dispute, a human wait, a mass silence and a blindness
// of our own. A test writes it; run it with -update to change the story.
//
//go:embed night.jsonl.gz
var bundledNight []byte

const (
	// nightName is how the header calls it.
	nightName = "bundled night"
	// nightSpeed shows the whole night in two minutes.
	nightSpeed = 20
)

// openRecording opens a recording; an empty path is the bundled night.
func openRecording(path string) (*recording.Reader, error) {
	if path == "" {
		return recording.NewReader(nightName, bytes.NewReader(bundledNight))
	}
	return recording.Open(path)
}
