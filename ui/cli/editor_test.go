package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEditorIsAnArgv(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a b;$(touch x).py")
	for _, name := range []string{file, filepath.Join(dir, "-rf")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	editors := map[string]string{}
	for _, name := range []string{"vim", "code", "hx"} {
		editors[name] = filepath.Join(dir, name)
		if err := os.WriteFile(editors[name], []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		env  map[string]string
		path string
		line int
		want []string
		err  string
	}{
		{env: map[string]string{"EDITOR": editors["vim"]}, path: file, line: 13, want: []string{editors["vim"], "+13", file}},
		{env: map[string]string{"EDITOR": editors["vim"]}, path: file, want: []string{editors["vim"], file}},
		{env: map[string]string{"EDITOR": "nothing", "VISUAL": editors["code"] + " -w"}, path: file, line: 7, want: []string{editors["code"], "-w", "--goto", file + ":7"}},
		{env: map[string]string{"EDITOR": editors["hx"]}, path: file, line: 7, want: []string{editors["hx"], file + ":7"}},
		{env: map[string]string{"EDITOR": editors["vim"]}, path: "-rf", line: 1, want: []string{editors["vim"], "+1", filepath.Join(dir, "-rf")}},
		{env: map[string]string{"EDITOR": editors["vim"]}, path: "/srv/app/gone.py", err: "not on this machine"},
		{env: map[string]string{"EDITOR": editors["vim"]}, path: dir, err: "no regular file"},
		{env: map[string]string{"EDITOR": "no-such-editor-here"}, path: file, err: "cannot be found"},
		{path: file, err: "set VISUAL or EDITOR"},
	} {
		command, err := editorCommand(func(name string) string { return c.env[name] }, c.path, c.line)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v %s: %v", c.env, c.path, err)
			}
		case err != nil:
			t.Errorf("%v %s: %v", c.env, c.path, err)
		case !slices.Equal(command.Args, c.want):
			t.Errorf("%v %s: %q, not %q", c.env, c.path, command.Args, c.want)
		}
	}
}
