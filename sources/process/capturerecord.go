package process

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
)

// capture puts together what was had: the best part first, by sample, then the
// lesser ones. Between parts stands a line of ours; the bytes of each part are
// as they were captured.
func (c *capturing) capture() Capture {
	got := Capture{
		ID: c.want.ID, Generation: c.want.Generation, Reason: c.want.Reason,
		At: c.begun, PID: c.target.pid, Steps: c.steps,
	}
	if got.PID == 0 {
		got.PID = c.want.PID
	}
	slices.SortStableFunc(c.parts, func(a, b part) int {
		if a.grade != b.grade {
			return int(b.grade - a.grade)
		}
		return a.Sample - b.Sample
	})
	var text bytes.Buffer
	left := c.want.Dump.MaxBytes
	for i := range c.parts {
		p := &c.parts[i]
		if i > 0 {
			if text.Len() > 0 && text.Bytes()[text.Len()-1] != '\n' {
				text.WriteByte('\n')
			}
			fmt.Fprintf(&text, "## %s, sample %d, %s\n", p.Method, p.Sample, wire.FormatTime(p.At.Time))
		}
		kept, cut := clip(p.text, max(0, left-int64(text.Len())))
		p.Truncated = p.Truncated || cut
		p.Offset, p.Bytes = int64(text.Len()), int64(len(kept))
		text.Write(kept)
		got.Truncated = got.Truncated || p.Truncated
	}
	if len(c.parts) > 0 {
		best := c.parts[0]
		got.Method, got.Text = best.Method, text.Bytes()
		if best.ExitCode != nil {
			got.ExitCode = *best.ExitCode
		}
		facts := c.describe(got.Text)
		got.Format, got.Verdict, got.Culprit = facts.Format, facts.Verdict, facts.Culprit
	}
	return got
}

// header is the record of a capture that is kept with it.
func (c *capturing) header(got Capture) *DumpHeader {
	h := &DumpHeader{
		SessionID: string(got.ID), At: WireTime{got.At.UTC().Truncate(time.Millisecond)}, Reason: string(got.Reason),
		Method: known(got.Method), Format: known(got.Format), Verdict: known(got.Verdict), Culprit: known(got.Culprit), Bytes: int64(len(got.Text)), Truncated: got.Truncated,
		PID: got.PID, Runtime: string(c.target.runtime), LoopThread: c.want.Dump.LoopThread,
		TookMs: time.Since(c.begun).Milliseconds(), Parts: []DumpPart{}, Steps: []DumpStep{},
	}
	if c.target.pid != 0 {
		h.Target = termtext.Clean(c.target.label())
	}
	if n := uint64(got.Generation); n != 0 {
		h.Generation = &n
	}
	for i, p := range c.parts {
		if i == 0 {
			h.ExitCode = p.ExitCode
		}
		h.Parts = append(h.Parts, p.DumpPart)
	}
	for _, s := range got.Steps {
		h.Steps = append(h.Steps, DumpStep{Method: s.Method, Taken: s.Taken, Detail: s.Detail, TookMs: s.Took.Milliseconds()})
	}
	return h
}

// describe asks the reader of dumps. A dump is hostile text: that its reader
// fails loses the description and nothing else.
func (c *capturing) describe(text []byte) (facts DumpFacts) {
	defer func() {
		if p := recover(); p != nil {
			c.ladder.opts.Log.Error("a dump could not be described", "session", c.want.ID, "panic", p)
			facts = DumpFacts{}
		}
	}()
	return c.ladder.opts.Describe(text, c.want.Dump.LoopThread)
}

// known is nil for what is not known.
func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
