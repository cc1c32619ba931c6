package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// build says from what this program was made, as far as the Go tool recorded it.
type build struct {
	Version  string `json:"version"`  // module version, "devel" for a working tree
	Revision string `json:"revision"` // commit; empty not recorded
	Modified bool   `json:"modified"` // the working tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	parts := []string{"sessionwatch", b.Version}
	if b.Revision != "" {
		revision := b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			revision += "+changes"
		}
		parts = append(parts, revision)
	}
	return strings.Join(append(parts, b.Go, b.Platform), " ")
}

func (a *app) versionCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:     "version",
		Short:   "Say which version this is",
		Args:    cobra.NoArgs,
		GroupID: groupSetup,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if f.json {
				return a.say(json.NewEncoder(a.env.Stdout).Encode(b))
			}
			_, err := fmt.Fprintln(a.env.Stdout, b)
			return a.say(err)
		},
	}
	f.addJSON(c)
	return c
}
