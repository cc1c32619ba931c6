package process

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// runtimeKind is what executes the program of a process: it decides how a dump
// can be had.
type runtimeKind string

const (
	runtimePython runtimeKind = "python"
	runtimeJava   runtimeKind = "java"
	runtimeGo     runtimeKind = "go"
	runtimeNode   runtimeKind = "node"
	runtimeRuby   runtimeKind = "ruby"
	runtimePHP    runtimeKind = "php"
	runtimeNative runtimeKind = "native"
	runtimeShell  runtimeKind = "shell"
)

// managed reports whether the runtime has stacks of its own, which native ones
// do not show.
func (k runtimeKind) managed() bool { return k != runtimeNative && k != runtimeShell }

// candidate is a process that may be the one to dump.
type candidate struct {
	processStat
	runtime runtimeKind
	wrapper bool     // it only starts others, as shells and launchers do
	exe     string   // path of what it executes; empty if it may not be read
	args    []string // as it was started, or as it renamed itself
	script  string   // first word of args that is no option
	depth   int      // below the root
}

// chooseTarget finds the process to dump in a tree. A command is often a wrapper
// (a shell, pyenv, npx) whose descendant does the work, and which one that is
// changes while it starts: the tree is read anew for each capture.
func chooseTarget(tree []processStat, name string) (candidate, error) {
	return likeliest(candidates(tree), name)
}

// likeliest chooses among candidates that are ordered by depth and age. Named,
// it is the uppermost of that name; else the uppermost that is no wrapper, one
// with stacks of its own before a native one, the oldest of those.
func likeliest(all []candidate, name string) (candidate, error) {
	if len(all) == 0 {
		return candidate{}, fmt.Errorf("every process of the tree has ended")
	}
	if name != "" {
		for _, c := range all {
			if c.named(name) {
				return c, nil
			}
		}
		return candidate{}, fmt.Errorf("no process below the command is called %q (dump.target); there are %s", name, namesOf(all))
	}
	above := make(map[int]bool) // pids that a better candidate stands over
	var workers []candidate
	for _, c := range all {
		switch {
		case above[c.parent]:
			above[c.pid] = true
		case !c.wrapper:
			above[c.pid] = true
			workers = append(workers, c)
		}
	}
	for _, c := range workers {
		if c.runtime.managed() {
			return c, nil
		}
	}
	if len(workers) > 0 {
		return workers[0], nil
	}
	return all[0], nil
}

// candidates gives the living members of a tree in its order.
func candidates(tree []processStat) []candidate {
	depth := make(map[int]int, len(tree))
	all := make([]candidate, 0, len(tree))
	for _, p := range tree {
		if d, ok := depth[p.parent]; ok {
			depth[p.pid] = d + 1
		} else {
			depth[p.pid] = 0
		}
		if !p.ended() {
			all = append(all, inspect(p, depth[p.pid]))
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.depth - b.depth })
	return all
}

// inspect reads what a process executes.
func inspect(p processStat, depth int) candidate {
	c := candidate{processStat: p, depth: depth}
	dir := "/proc/" + strconv.Itoa(p.pid)
	if exe, err := os.Readlink(dir + "/exe"); err == nil {
		c.exe = strings.TrimSuffix(exe, " (deleted)")
	}
	c.args = readArguments(p.pid)
	if c.exe == "" && len(c.args) > 0 {
		c.exe = c.args[0]
	}
	c.script = firstWord(c.args)
	c.runtime = c.recognise(dir)
	c.wrapper = c.runtime == runtimeShell || c.launches()
	return c
}

// readArguments reads the arguments of a process, within reason.
func readArguments(pid int) []string {
	text, err := readStart("/proc/"+strconv.Itoa(pid)+"/cmdline", 64<<10)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}

// firstWord gives the first argument that is no option: of an interpreter, its
// script. What an option takes as a word of its own is not told apart.
func firstWord(args []string) string {
	for i, a := range args {
		if i > 0 && a != "" && a[0] != '-' {
			return a
		}
	}
	return ""
}

// runtimeOf names the runtime by the name of what is executed, without a version.
func runtimeOf(name string) runtimeKind {
	switch name {
	case "python", "pypy", "python-dbg", "pythonw":
		return runtimePython
	case "java":
		return runtimeJava
	case "node", "nodejs":
		return runtimeNode
	case "ruby", "truffleruby":
		return runtimeRuby
	case "php", "php-fpm", "php-cgi":
		return runtimePHP
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "tcsh", "csh", "busybox":
		return runtimeShell
	}
	return ""
}

// launches reports whether the process is a program that only starts another
// one, by its own name, by its script, or by the title that npm gives itself.
func (c candidate) launches() bool {
	switch filepath.Base(c.exe) {
	case "sudo", "doas", "su", "runuser", "env", "nohup", "nice", "ionice", "chrt", "taskset", "timeout",
		"setsid", "stdbuf", "setpriv", "unshare", "nsenter", "script", "xvfb-run", "time", "strace",
		"tini", "tini-static", "dumb-init", "catatonit", "uv", "uvx", "asdf", "mise", "direnv":
		return true
	case "go":
		return c.script == "run"
	}
	switch filepath.Base(c.script) {
	case "npx", "npx-cli.js", "npm", "npm-cli.js", "yarn", "yarn.js", "pnpm", "pnpm.cjs", "pnpx", "corepack", "corepack.js",
		"pipenv", "poetry", "hatch", "pipx", "bundle", "bundler", "nodemon", "foreman", "honcho":
		return c.runtime.managed()
	}
	title := ""
	if len(c.args) > 0 {
		title, _, _ = strings.Cut(c.args[0], " ")
	}
	return c.runtime == runtimeNode && (title == "npm" || title == "npx" || title == "yarn" || title == "pnpm")
}

// recognise tells the runtime by what is executed, else by what is in memory: an
// interpreter may be a library of a program with another name.
func (c candidate) recognise(dir string) runtimeKind {
	base := filepath.Base(c.exe)
	if kind := runtimeOf(strings.TrimRight(base, "0123456789.-")); kind != "" {
		return kind
	}
	if _, err := buildinfo.ReadFile(dir + "/exe"); err == nil {
		return runtimeGo
	}
	maps, err := readStart(dir+"/maps", 4<<20)
	if err != nil {
		return runtimeNative
	}
	for _, lib := range []struct {
		name string
		kind runtimeKind
	}{
		{"/libjvm.so", runtimeJava}, {"/libpython", runtimePython}, {"/libnode.so", runtimeNode},
		{"/libruby", runtimeRuby}, {"/libphp", runtimePHP},
	} {
		if bytes.Contains(maps, []byte(lib.name)) {
			return lib.kind
		}
	}
	return runtimeNative
}

// named reports whether dump.target means this process: the name of what it
// executes, of its script, or the one it gave itself.
func (c candidate) named(name string) bool {
	return name == c.comm || name == filepath.Base(c.exe) || c.script != "" && name == filepath.Base(c.script)
}

// label names the process for people: its script if it has one.
func (c candidate) label() string {
	switch c.runtime {
	case runtimePython, runtimeNode, runtimeRuby, runtimePHP, runtimeShell:
		if c.script != "" {
			return filepath.Base(c.script)
		}
	}
	return c.comm
}

func namesOf(all []candidate) string {
	var names []string
	for _, c := range all {
		if n := strconv.Quote(c.label()); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return strings.Join(names, ", ")
}
