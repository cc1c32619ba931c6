package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// inspectorRung pauses the script of a Node process by its own debugger, reads
// where it is, and lets it go on. A script that spins is seen; one that waits in
// native code is not.
//
// The debugger listens on a port, which anyone on the machine may use. One that
// is open already is used; opening it needs consent, and it stays open.
func (c *capturing) inspectorRung(mayOpen bool) rung {
	return rung{
		method: "inspector", grade: gradeRuntime,
		skip: func() string {
			switch {
			case c.target.stopped():
				return "it is stopped: it would not answer"
			case c.inspector != "" || c.inspectorAsked():
				return ""
			case !mayOpen:
				return "its debugger is not open, and SIGUSR1 would open a port: set dump.mode to signal:SIGUSR1 to allow that"
			}
			return c.mayNotSignal(syscall.SIGUSR1)
		},
		take: func(ctx context.Context, _ int64) (taking, error) { return c.takePause(ctx, mayOpen) },
	}
}

// inspectorAsked reports whether the process was started with its debugger open.
func (c *capturing) inspectorAsked() bool {
	asked := func(words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return strings.HasPrefix(w, "--inspect") && !strings.HasPrefix(w, "--inspect-port")
		})
	}
	if asked(c.target.args) {
		return true
	}
	environ, _ := readStart("/proc/"+strconv.Itoa(c.target.pid)+"/environ", 1<<20)
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if options, ok := strings.CutPrefix(v, "NODE_OPTIONS="); ok && asked(strings.Fields(options)) {
			return true
		}
	}
	return false
}

// takePause finds the debugger, or opens it, and asks it.
func (c *capturing) takePause(ctx context.Context, mayOpen bool) (taking, error) {
	var note string
	if c.inspector == "" {
		before, err := listeners(c.target.pid)
		if err != nil {
			return taking{}, err
		}
		known := slices.DeleteFunc(slices.Clone(before), func(a string) bool { return !c.inspectorAsked() && !strings.HasSuffix(a, ":9229") })
		address, script := findInspector(ctx, known)
		if script == "" {
			if !mayOpen {
				return taking{}, errors.New("its debugger does not answer")
			}
			if address, script, err = c.openInspector(ctx, before); err != nil {
				return taking{}, err
			}
			note = "SIGUSR1 opened its debugger on " + address + ", where it stays"
		}
		c.inspector = address + script
	}
	address, path, _ := strings.Cut(c.inspector, "/")
	text, err := pauseScript(ctx, address, "/"+path)
	if err != nil {
		return taking{note: note}, err
	}
	return taking{text: text, note: note}, nil
}

// openInspector sends SIGUSR1 and waits for the port that it opens.
func (c *capturing) openInspector(ctx context.Context, before []string) (address, path string, err error) {
	if why := c.mayNotSignal(syscall.SIGUSR1); why != "" {
		return "", "", errors.New(why)
	}
	if err := c.signal(syscall.SIGUSR1); err != nil {
		return "", "", err
	}
	tick := time.NewTicker(outputPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", "", errors.New("SIGUSR1 opened no debugger: the script waits in native code, its port is taken, or the program handles the signal itself")
		}
		now, err := listeners(c.target.pid)
		if err != nil {
			return "", "", err
		}
		opened := slices.DeleteFunc(now, func(a string) bool { return slices.Contains(before, a) })
		if address, path = findInspector(ctx, opened); path != "" {
			return address, path, nil
		}
	}
}

// findInspector asks addresses whether a debugger is behind them, and gives its
// address and the path of its script; empty if there is none.
func findInspector(ctx context.Context, addresses []string) (address, path string) {
	address, got, err := firstAnswer(ctx, addresses, "/json/list", 1<<20, func(text []byte) bool { return scriptPath(text) != "" })
	if err != nil {
		return "", ""
	}
	return address, scriptPath(got.text)
}

// scriptPath is where the debugger of a Node script takes questions, out of its
// own list; empty if the list is none.
func scriptPath(list []byte) string {
	var targets []struct {
		Type string `json:"type"`
		URL  string `json:"webSocketDebuggerUrl"`
	}
	if json.Unmarshal(list, &targets) != nil {
		return ""
	}
	for _, t := range targets {
		// Its host may be a name of the inside; the address is the one we asked.
		if u, err := url.Parse(t.URL); err == nil && t.Type == "node" && strings.HasPrefix(u.Path, "/") {
			return u.EscapedPath()
		}
	}
	return ""
}

// pausedScript is what is kept of a pause, in the form that readers know.
type pausedScript struct {
	AfterMs int64         `json:"after_ms"` // from the question to the pause
	Frames  []pausedFrame `json:"frames"`   // newest first
	Async   *string       `json:"async"`
}

type pausedFrame struct {
	Function string `json:"functionName"`
	URL      string `json:"url"`
	Line     int    `json:"line"` // from 1
	Col      int    `json:"col"`
}

// inspectorMessage is an answer or an event of the debugger's protocol.
type inspectorMessage struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params struct {
		ScriptID   string `json:"scriptId"`
		URL        string `json:"url"`
		CallFrames []struct {
			Function string `json:"functionName"`
			URL      string `json:"url"`
			Location struct {
				ScriptID string `json:"scriptId"`
				Line     int    `json:"lineNumber"`
				Column   int    `json:"columnNumber"`
			} `json:"location"`
		} `json:"callFrames"`
		AsyncStackTrace *struct {
			Description string `json:"description"`
		} `json:"asyncStackTrace"`
	} `json:"params"`
}

// Numbers of our questions.
const (
	askEnable = iota + 1
	askPause
	askResume
	askDisable
)

// pauseScript pauses, reads the frames, resumes, and waits until that is
// acknowledged: the script must not stay paused, and does not if we vanish, for
// the debugger lets go of it with the connection.
func pauseScript(ctx context.Context, address, path string) ([]byte, error) {
	socket, err := dialWebSocket(ctx, address, path)
	if err != nil {
		return nil, err
	}
	defer socket.close()
	began := time.Now()
	if err := ask(socket, askEnable, "Debugger.enable"); err != nil {
		return nil, err
	}
	if err := ask(socket, askPause, "Debugger.pause"); err != nil {
		return nil, err
	}
	scripts := make(map[string]string)
	var text []byte
	for {
		raw, err := socket.readMessage()
		switch {
		case err != nil && text != nil:
			return text, nil // read, and let go with the connection
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The wish to pause goes with the connection.
			return nil, errors.New("no script ran that could be paused: its loop is idle, or waits in native code")
		case err != nil:
			return nil, fmt.Errorf("its debugger broke off: %w", err)
		}
		var m inspectorMessage
		if json.Unmarshal(raw, &m) != nil {
			continue
		}
		switch {
		case m.Method == "Debugger.scriptParsed":
			scripts[m.Params.ScriptID] = m.Params.URL
		case m.Method == "Debugger.paused" && text == nil:
			if text, err = json.MarshalIndent(m.frames(scripts, time.Since(began)), "", " "); err != nil {
				return nil, err
			}
			text = append(text, '\n')
			if ask(socket, askResume, "Debugger.resume") != nil || ask(socket, askDisable, "Debugger.disable") != nil {
				return text, nil
			}
		case m.ID == askDisable:
			return text, nil
		}
	}
}

func ask(socket *webSocket, id int, method string) error {
	question, err := json.Marshal(map[string]any{"id": id, "method": method})
	if err != nil {
		return err
	}
	if err := socket.writeText(question); err != nil {
		return fmt.Errorf("its debugger broke off: %w", err)
	}
	return nil
}

// frames gives the places of a pause, counted from 1 as people count.
func (m *inspectorMessage) frames(scripts map[string]string, after time.Duration) pausedScript {
	paused := pausedScript{AfterMs: after.Milliseconds(), Frames: []pausedFrame{}}
	for _, f := range m.Params.CallFrames {
		paused.Frames = append(paused.Frames, pausedFrame{
			Function: f.Function, URL: firstOf(f.URL, scripts[f.Location.ScriptID]),
			Line: f.Location.Line + 1, Col: f.Location.Column + 1,
		})
	}
	if a := m.Params.AsyncStackTrace; a != nil {
		paused.Async = &a.Description
	}
	return paused
}
