package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"regexp"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// Session is a command that is supervised.
type Session struct {
	ID               string
	Command          []string // argv
	Dir              string   // empty: the supervisor's
	Env              map[string]string
	Restart          Restart
	RestartExitCodes []int
	StopGrace        time.Duration
	StallTimeout     time.Duration // Load fills in policy.stall_timeout
	StallAction      StallAction
	Dump             Dump
	PTY              bool
	LogFile          string
}

// Restart is when a child that ended is started again.
type Restart string

// The restart policies.
const (
	RestartNever     Restart = "never"
	RestartOnFailure Restart = "on-failure"
	RestartAlways    Restart = "always"
)

// StallAction is what a stall does besides the dump.
type StallAction string

// The stall actions.
const (
	StallAlert   StallAction = "alert"
	StallRestart StallAction = "restart"
	StallStop    StallAction = "stop"
)

func (s *Session) fields() []field {
	return []field{
		{"id", "letters, digits, _ - . and :", textLike(&s.ID, "", "text", checkID)},
		{"command", "[argv], never a shell line", argv(&s.Command)},
		{"dir", "working directory; empty: ours", filePath(&s.Dir)},
		{"env", "further environment variables", &textMap{dst: &s.Env, hidden: true, check: checkVariable}},
		{"restart", "never, on-failure, always", choice(&s.Restart, RestartOnFailure, RestartNever, RestartOnFailure, RestartAlways)},
		{"restart_exit_codes", "restart on these whatever restart says; 78 is never restarted", numbers(&s.RestartExitCodes, []int{75}, 1, 255)},
		{"stop_grace", "from SIGTERM to SIGKILL", duration(&s.StopGrace, 10*time.Second)},
		{"stall", "", &block{[]field{
			{"timeout", "without work; empty: policy.stall_timeout", duration(&s.StallTimeout, 0)},
			{"action", "after the dump: alert, restart, stop", choice(&s.StallAction, StallAlert, StallAlert, StallRestart, StallStop)},
		}}},
		{"dump", "how a stack dump is taken", &block{s.Dump.fields()}},
		{"pty", "run it in a terminal of its own", boolean(&s.PTY, false)},
		{"log_file", "its output is appended here", filePath(&s.LogFile)},
	}
}

// DefaultSession is a session with the defaults of the file, for a command line that
// is supervised without one.
func (c *Config) DefaultSession() Session {
	var s Session
	(&block{s.fields()}).reset()
	s.StallTimeout = c.Policy.StallTimeout
	return s
}

// Dump is how a stack dump of a session is taken.
type Dump struct {
	Mode       DumpMode
	Target     string // name of the descendant to dump; empty: the likeliest
	LoopThread string // name of the event loop's thread; empty: recognised
	Samples    int
	Interval   time.Duration // between samples
	Timeout    time.Duration // of one step
	Budget     time.Duration // of all
	MaxBytes   int64
	Native     DumpNative
	AllowFatal DumpFatal
	Keep       int // captures a session
}

// DumpNative says whether native stacks are taken too.
type DumpNative string

// DumpFatal says when a signal may be used that can end the process.
type DumpFatal string

// The values of native and allow_fatal.
const (
	NativeAuto   DumpNative = "auto"
	NativeAlways DumpNative = "always"
	NativeNever  DumpNative = "never"

	FatalOnKill DumpFatal = "on_kill"
	FatalNever  DumpFatal = "never"
)

func (u *Dump) fields() []field {
	return []field{
		{"mode", "auto, none, signal:SIGUSR1, \"command:[py-spy, dump, --pid, {pid}]\", http:URL, file:PATH", &modeValue{&u.Mode}},
		{"target", "name of the process below the command to dump; empty: the likeliest", text(&u.Target, "")},
		{"loop_thread", "name of the thread that runs the event loop; empty: recognised", text(&u.LoopThread, "")},
		{"samples", "dumps a capture", integer(&u.Samples, 2, 1, 100)},
		{"interval", "between two of them", duration(&u.Interval, 2*time.Second)},
		{"timeout", "of one step", duration(&u.Timeout, 5*time.Second)},
		{"budget", "of the whole capture", duration(&u.Budget, 20*time.Second)},
		{"max_bytes", "kept of a capture", size(&u.MaxBytes, 16<<20)},
		{"native", "native stacks: auto, always, never", choice(&u.Native, NativeAuto, NativeAuto, NativeAlways, NativeNever)},
		{"allow_fatal", "signals that may end it: on_kill, never", choice(&u.AllowFatal, FatalOnKill, FatalOnKill, FatalNever)},
		{"keep", "captures a session", integer(&u.Keep, 20, 1, 10_000)},
	}
}

// DumpMode is the way a dump is taken. One of the fields that Kind names is set.
type DumpMode struct {
	Kind    DumpKind
	Signal  syscall.Signal
	Command []string // argv; "{pid}" in it stands for the process
	URL     string
	File    string
}

// DumpKind is a way to take a dump.
type DumpKind string

// The ways to take a dump.
const (
	DumpAuto    DumpKind = "auto"
	DumpNone    DumpKind = "none"
	DumpSignal  DumpKind = "signal"
	DumpCommand DumpKind = "command"
	DumpHTTP    DumpKind = "http"
	DumpFile    DumpKind = "file"
)

// modeValue reads "auto", "signal:SIGUSR1", or the same as {signal: SIGUSR1}.
type modeValue struct{ dst *DumpMode }

const wantMode = "auto, none, signal:SIGUSR1, command:[argv], http:URL or file:PATH"

func (m *modeValue) reset() { *m.dst = DumpMode{Kind: DumpAuto} }

func (m *modeValue) leaves(path string, visit func(string, leaf)) { visit(path, m) }

func (m *modeValue) decode(d *decoder, path string, n *yaml.Node) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Kind == yaml.ScalarNode {
		m.read(d, path, n.Content[0].Value, n.Content[1])
		return
	}
	if !d.scalar(path, n, wantMode) {
		return
	}
	kind, rest, _ := strings.Cut(n.Value, ":")
	arg := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: rest, Line: n.Line}
	if rest = strings.TrimSpace(rest); DumpKind(kind) == DumpCommand && strings.HasPrefix(rest, "[") {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(rest), &doc) != nil || len(doc.Content) != 1 {
			d.fault(n.Line, path, "%s is not a list; give command:[py-spy, dump, --pid, {pid}]", quoted(rest))
			return
		}
		arg = doc.Content[0]
		relocate(arg, n.Line)
	}
	m.read(d, path, kind, arg)
}

// relocate gives nodes that were parsed out of a text the line of that text.
func relocate(n *yaml.Node, line int) {
	n.Line = line
	for _, c := range n.Content {
		relocate(c, line)
	}
}

func (m *modeValue) read(d *decoder, path, kind string, arg *yaml.Node) {
	mode := DumpMode{Kind: DumpKind(kind)}
	complain := func(what string) { d.fault(arg.Line, path, "%s", what) }
	if arg.Kind == yaml.AliasNode {
		complain("aliases are not supported; write the value out")
		return
	}
	switch mode.Kind {
	case DumpAuto, DumpNone:
		if arg.Value != "" || arg.Kind != yaml.ScalarNode {
			complain(kind + " takes nothing after it; give " + wantMode)
		}
	case DumpSignal:
		switch mode.Signal = unix.SignalNum(arg.Value); mode.Signal {
		case 0:
			complain(quoted(arg.Value) + " is not a signal; give one such as signal:SIGUSR1")
		case unix.SIGKILL, unix.SIGSTOP:
			complain("no program can catch " + arg.Value + ", so none answers it with a dump; give one such as signal:SIGUSR1")
		}
	case DumpCommand:
		argv(&mode.Command).decode(d, path, arg)
		if len(mode.Command) == 0 && !d.bad[path] {
			complain("the command is empty; give command:[py-spy, dump, --pid, {pid}]")
		}
	case DumpHTTP:
		// "http:http://host/..." and "http://host/..." mean the same.
		if mode.URL = arg.Value; strings.HasPrefix(mode.URL, "//") {
			mode.URL = "http:" + mode.URL
		}
		if fault := checkHTTP(mode.URL); fault != "" {
			complain(fault)
		}
	case DumpFile:
		if mode.File = d.path(arg.Value); arg.Value == "" || arg.Kind != yaml.ScalarNode {
			complain("names no file; give file:PATH")
		}
	default:
		complain(quoted(kind) + " is not known; give " + wantMode)
	}
	if !d.bad[path] {
		*m.dst = mode
	}
}

func (m *modeValue) show() string {
	switch m.dst.Kind {
	case DumpSignal:
		return yamlText("signal:" + unix.SignalName(m.dst.Signal))
	case DumpCommand:
		return "{command: " + (&list[string]{dst: &m.dst.Command, item: word}).show() + "}"
	case DumpHTTP:
		return yamlText("http:" + m.dst.URL)
	case DumpFile:
		return yamlText("file:" + m.dst.File)
	}
	return string(m.dst.Kind)
}

var goodID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_:-]*(\.[A-Za-z0-9_:-]+)*$`)

// CheckID says what speaks against an id of a supervised session; empty: nothing.
func CheckID(id string) string { return checkID(id) }

// checkID accepts the ids that we mint, and dots and colons.
func checkID(id string) string {
	if len(id) > 128 || !goodID.MatchString(id) {
		return quoted(id) + " is not a session id; use letters, digits, _ - . and :, 128 at most, the first a letter or digit"
	}
	return ""
}

func checkVariable(name string) string {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return quoted(name) + " is not the name of an environment variable; remove = and empty names"
	}
	return ""
}

// PublicKey is an Ed25519 key whose commands are obeyed.
type PublicKey struct {
	ID  string // the key_id of its messages
	Key ed25519.PublicKey
}

func publicKey(dst *PublicKey) value {
	const want = "\"ops1:\" and the base64 of the 32 bytes of an Ed25519 public key"
	return &scalar[PublicKey]{dst: dst, want: want,
		write: func(k PublicKey) string {
			return yamlText(k.ID + ":" + base64.StdEncoding.EncodeToString(k.Key))
		},
		read: func(t, _ string) (PublicKey, string) {
			id, encoded, _ := strings.Cut(t, ":")
			if !goodName.MatchString(id) {
				return PublicKey{}, quoted(id) + " is not the name of a key; give " + want
			}
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil || len(raw) != ed25519.PublicKeySize {
				return PublicKey{}, "the key of " + quoted(id) + " is not 32 bytes in base64; give " + want
			}
			return PublicKey{ID: id, Key: raw}, ""
		}}
}
