package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/ownfile"
	"github.com/sessionwatch/sessionwatch/ui"
)

// hintFile keeps in the data directory which keys were pointed out, for all screens
// of a user: of each the highest count counts. A directory that cannot be read or
// written forgets.
type hintFile struct {
	settings *config.Config
	mu       sync.Mutex
}

// hintBytes bounds what is read.
const hintBytes = 64 << 10

// hintsOf gives the memory of hints; nil: none are shown.
func hintsOf(settings *config.Config) ui.HintMemory {
	if !settings.UI.Hints {
		return nil
	}
	return &hintFile{settings: settings}
}

func (f *hintFile) path() string { return filepath.Join(f.settings.DataDir, "hints.json") }

// Recall reads what is kept.
func (f *hintFile) Recall() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read()
}

func (f *hintFile) read() map[string]int {
	counts := map[string]int{}
	if f.settings.DataDir == "" {
		return counts
	}
	file, err := os.OpenFile(f.path(), os.O_RDONLY|ownfile.NoFollow, 0)
	if err != nil {
		return counts
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, hintBytes))
	if err != nil || json.Unmarshal(text, &counts) != nil || counts == nil {
		return map[string]int{}
	}
	return counts
}

// Keep adds to what is kept: another screen may have written meanwhile.
func (f *hintFile) Keep(counts map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := dataDir(f.settings)
	if err != nil {
		return
	}
	all := f.read()
	for name, n := range counts {
		all[name] = max(all[name], n)
	}
	text, err := json.Marshal(all)
	if err == nil && len(text) < hintBytes {
		_ = writePrivate(filepath.Join(dir, "hints.json"), string(text)+"\n")
	}
}
