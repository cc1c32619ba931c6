package ui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Recorder records what comes in to a file.
type Recorder interface {
	// Record begins; a file that is there is refused. It may take long.
	Record(ctx context.Context, path string) error
	// Stop completes the file and says what is in it, and what is missing. It may
	// take long.
	Stop(ctx context.Context) (said string, err error)
	// Tape says what is recorded now; ok is false if nothing is. It does not wait.
	Tape() (t Tape, ok bool)
}

// Tape is a recording that is being made.
type Tape struct {
	Path  string
	For   time.Duration
	Bytes int64
	Err   error // it stopped by itself; nil: it goes on
}

// tapeState is a Tape as of the last window.
type tapeState struct {
	Tape
	on bool
}

func tapeOf(r Recorder) tapeState {
	if r == nil {
		return tapeState{}
	}
	t, on := r.Tape()
	return tapeState{t, on}
}

// recordingDone is what came of beginning or ending a recording.
type recordingDone struct {
	gen  uint64
	tape tapeState
	said string
	err  error
}

func needsRecorder(m *Model) string {
	switch {
	case m.feed == nil:
		return "nothing is watched yet"
	case m.about.Replay != nil:
		return "this is a recording already"
	case m.about.Recorder == nil:
		return "inputs come in at the serve, not here; sessionwatch record FILE records them"
	}
	return ""
}

// record begins a recording under a name that is asked for, or ends the one that
// is made.
func (m *Model) record() tea.Cmd {
	if m.tape.on {
		return m.stopRecording()
	}
	name := "sessionwatch.jsonl.gz"
	if m.have {
		name = "sessionwatch-" + time.Unix(0, m.window.Now.Wall).UTC().Format("20060102-150405") + ".jsonl.gz"
	}
	m.prompt = &prompt{
		label: "record to", hint: "a new file that takes every input from now on; .gz is compressed; :record ends it; esc leaves", in: newInput(name),
		changed: func(m *Model, _ string) tea.Cmd { m.prompt.err = ""; return nil },
		take: func(m *Model, path string) (tea.Cmd, bool) {
			if path == "" {
				m.prompt.err = "type the name of a file that is not there yet"
				return nil, false
			}
			return m.recordTo(path), true
		},
	}
	return nil
}

// recordTo begins a recording.
func (m *Model) recordTo(path string) tea.Cmd {
	if m.tape.on {
		return m.refuse("already recording to " + m.tape.Path + "; :record ends that")
	}
	r, gen := m.about.Recorder, m.gen
	return func() tea.Msg {
		err := r.Record(context.Background(), path)
		return recordingDone{gen: gen, tape: tapeOf(r), said: "recording to " + path + "; :record ends it", err: err}
	}
}

func (m *Model) stopRecording() tea.Cmd {
	r, gen := m.about.Recorder, m.gen
	m.say("completing " + m.tape.Path)
	return func() tea.Msg {
		said, err := r.Stop(context.Background())
		return recordingDone{gen: gen, tape: tapeOf(r), said: said, err: err}
	}
}

func (m *Model) recorded(msg *recordingDone) tea.Cmd {
	if msg.gen != m.gen {
		return nil
	}
	m.tape = msg.tape
	if msg.err != nil {
		return m.refuse(msg.err.Error())
	}
	return m.say(msg.said)
}

// recordBadge is " REC 4m12 1.2M ", or that it failed; empty: nothing is
// recorded.
func (m *Model) recordBadge() string {
	switch {
	case !m.tape.on:
		return ""
	case m.tape.Err != nil:
		return " REC FAILED "
	}
	return " REC " + age(m.tape.For) + " " + size(m.tape.Bytes) + " "
}
