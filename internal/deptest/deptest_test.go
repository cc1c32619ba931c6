package deptest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

func TestEveryImportGoesDown(t *testing.T) {
	command := exec.Command("go", "list", "-json=ImportPath,Imports", Module+"/...")
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 5 {
		t.Fatalf("go list shows %d packages only", len(packages))
	}
	for _, sentence := range Violations(packages) {
		t.Error(sentence)
	}
}

func TestViolations(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		want               string // a part of the sentence; empty: allowed
	}{
		{"watchdog", "time", ""},
		{"watchdog", "github.com/nats-io/nats.go", "the standard library only"},
		{"watchdog", Module + "/internal/wire", "may not import internal/wire"},
		{"watchdog/guard", Module + "/watchdog", ""},
		{"watchdog/guard", Module + "/sources/natsbus", "may not import"},
		{"internal/wire", Module + "/watchdog", ""},
		{"internal/wire", Module + "/internal/termtext", ""},
		{"internal/wire", Module + "/internal/config", "may not import"},
		{"internal/config", "go.yaml.in/yaml/v3", ""},
		{"sources/natsbus", Module + "/internal/wire", ""},
		{"sources/natsbus", Module + "/watchdog/guard", ""},
		{"sources/natsbus", Module + "/sources/redisstore", "may not import"},
		{"sources/natsbus", Module + "/ui", "may not import"},
		{"demo", Module + "/sources/natsbus", ""},
		{"demo", Module + "/ui", "may not import"},
		{"ui", Module + "/internal/query", ""},
		{"ui", Module + "/internal/wire", "may not import"},
		{"ui", Module + "/sources/recording", "may not import"},
		{"ui", "charm.land/bubbletea/v2", ""},
		{"ui", "github.com/spf13/cobra", "allowed libraries"},
		{"ui/terminal", Module + "/ui", ""},
		{"ui/terminal", Module + "/demo", "may not import"},
		{"ui/cli", Module + "/sources/natsbus", ""},
		{"ui/cli", "github.com/spf13/cobra", ""},
		{"", Module + "/ui/cli", ""},
		{"", Module + "/watchdog", "may not import"},
		{"", "github.com/spf13/cobra", "the standard library only"},
		{"helpers", "time", "no room"},
	} {
		path := Module
		if c.importer != "" {
			path += "/" + c.importer
		}
		got := strings.Join(Violations([]Package{{path, []string{c.imported}}}), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q imports %s: got %q, want %q", c.importer, c.imported, got, c.want)
		}
	}
}
