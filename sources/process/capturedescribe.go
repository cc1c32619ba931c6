package process

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/stackdump"
)

// DumpFacts is what a reader of dumps says of one.
type DumpFacts struct {
	Format  string // empty: no dump
	Verdict string // empty: none
	Culprit string // "agent.py:13 call_tool", several in a deadlock; empty: none
}

// mostAccused bounds the culprits of one line.
const mostAccused = 4

// describeDump says what a capture shows.
func describeDump(text []byte, loopThread string) DumpFacts {
	s := stackdump.NewSummary(stackdump.Parse(string(text)), stackdump.Options{LoopThread: loopThread})
	facts := DumpFacts{Format: string(s.Format), Verdict: string(s.Verdict)}
	if s.Format == stackdump.None {
		facts.Format = ""
	}
	most := 1 // of a stack: the innermost
	if s.Verdict == stackdump.Deadlock {
		most = mostAccused // one of each member
	}
	var accused []string
	for _, row := range s.Culprit[:min(len(s.Culprit), most)] {
		place := row.Function
		if row.File != nil && row.Line != nil {
			place = *row.File + ":" + strconv.Itoa(*row.Line) + " " + place
		}
		accused = append(accused, place)
	}
	facts.Culprit = strings.Join(accused, ", ")
	return facts
}

// holdsDump reports whether stacks of threads are in a text.
func holdsDump(text []byte) bool { return len(stackdump.Parse(string(text)).Dumps) > 0 }

// lastDumpStart gives the offset at which the last dump in a text begins, or the
// last traceback if there is no dump; -1 if there is neither.
func lastDumpStart(text []byte) int {
	line := 0
	switch f := stackdump.Parse(string(text)); {
	case len(f.Dumps) > 0:
		line = f.Dumps[len(f.Dumps)-1].Line
	case len(f.Other) > 0:
		line = f.Other[len(f.Other)-1].Line
	}
	return lineStart(text, line)
}

// lineStart gives the offset of a line, counted from 1; -1 if there is none.
func lineStart(text []byte, line int) int {
	if line < 1 {
		return -1
	}
	offset := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(text[offset:], '\n')
		if n < 0 {
			return -1
		}
		offset += n + 1
	}
	return offset
}
