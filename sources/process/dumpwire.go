package process

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// OnWire is a capture as it goes over a bus. What is known of it beyond the
// capture itself stands in the store, if it was kept.
func (s *DumpStore) OnWire(c Capture) wire.Dump {
	d := wire.Dump{
		Session: c.ID, Generation: c.Generation, At: c.At, Reason: string(c.Reason), Method: c.Method, Truncated: c.Truncated,
		Format: c.Format, Verdict: c.Verdict, Culprit: c.Culprit, PID: int64(c.PID), Text: c.Text,
	}
	for _, step := range c.Steps {
		d.Steps = append(d.Steps, wire.DumpStep{Method: step.Method, Taken: step.Taken, Detail: step.Detail, Took: step.Took})
	}
	if c.Kept == "" {
		return d
	}
	h, body, err := s.Open(c.Kept)
	if err != nil {
		return d // it was removed for newer ones
	}
	_ = body.Close()
	d.ID, d.Target, d.Runtime, d.LoopThread, d.Took = h.ID, h.Target, h.Runtime, h.LoopThread, time.Duration(h.TookMs)*time.Millisecond
	d.ExitCode = wide(h.ExitCode)
	for _, p := range h.Parts {
		d.Parts = append(d.Parts, wire.DumpPart{Method: p.Method, Sample: int64(p.Sample), At: p.At.Time, Offset: p.Offset, Bytes: p.Bytes, ExitCode: wide(p.ExitCode), Truncated: p.Truncated})
	}
	return d
}

// Receive keeps a dump that came over a bus, and gives its header. What it shows
// is read from its text, whatever its sender says; its time is ours. One that this
// store has already, since its sender uses it too, is not kept twice. All but the
// newest keep of its session are removed.
func (s *DumpStore) Receive(d wire.Dump, at time.Time, keep int) (DumpHeader, error) {
	if h, ok := s.has(d); ok {
		return h, nil
	}
	h := received(d, at)
	_, err := s.Save(&h, d.Text, keep)
	return h, err
}

// Had reports of dumps that stand on a bus whether they were received before, or
// stem from this very store; it knows those of one session, of all if id is empty.
func (s *DumpStore) Had(id watchdog.ID) (func(wire.Dump) bool, error) {
	list, err := s.List(id)
	if err != nil {
		return nil, err
	}
	type origin struct{ name, by string }
	had := map[origin]bool{}
	for i := range list {
		if h := &list[i]; h.Origin != nil && h.By != nil {
			had[origin{*h.Origin, *h.By}] = true
		}
	}
	return func(d wire.Dump) bool { return had[origin{d.ID, d.By}] || s.names(d) }, nil
}

// names reports whether a dump of that name and session stands here.
func (s *DumpStore) names(d wire.Dump) bool {
	h, body, err := s.Open(d.ID)
	if err != nil {
		return false
	}
	_ = body.Close()
	return h.SessionID == string(d.Session) && h.Origin == nil && h.At.Equal(d.At) && h.PID == int(d.PID)
}

// has finds a dump that its sender put into this store.
func (s *DumpStore) has(d wire.Dump) (DumpHeader, bool) {
	if !strings.HasPrefix(d.ID, string(d.Session)+"@") {
		return DumpHeader{}, false
	}
	h, body, err := s.Open(d.ID)
	if err != nil {
		return DumpHeader{}, false
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, int64(len(d.Text))+1))
	return h, err == nil && h.SessionID == string(d.Session) && bytes.Equal(text, d.Text)
}

func received(d wire.Dump, at time.Time) DumpHeader {
	h := DumpHeader{
		SessionID: string(d.Session), At: WireTime{at.UTC().Truncate(time.Millisecond)}, Reason: d.Reason, Method: known(d.Method),
		Bytes: int64(len(d.Text)), Truncated: d.Truncated, PID: int(d.PID), Target: d.Target, Runtime: d.Runtime,
		ExitCode: narrow(d.ExitCode), LoopThread: d.LoopThread, TookMs: d.Took.Milliseconds(), Parts: []DumpPart{}, Steps: []DumpStep{},
		Command: known(d.Command), By: known(d.By), Origin: known(d.ID),
	}
	if n := uint64(d.Generation); n != 0 {
		h.Generation = &n
	}
	facts := describeSafely(d.Text, d.LoopThread)
	h.Format, h.Verdict, h.Culprit = known(facts.Format), known(facts.Verdict), known(termtext.Clean(facts.Culprit))
	for _, p := range d.Parts {
		if p.Offset < 0 || p.Offset > h.Bytes || p.Bytes < 0 || p.Bytes > h.Bytes-p.Offset {
			continue // it was cut away, or never was
		}
		h.Parts = append(h.Parts, DumpPart{Method: p.Method, Sample: int(p.Sample), At: WireTime{p.At}, Offset: p.Offset, Bytes: p.Bytes, ExitCode: narrow(p.ExitCode), Truncated: p.Truncated})
	}
	for _, step := range d.Steps {
		h.Steps = append(h.Steps, DumpStep{Method: step.Method, Taken: step.Taken, Detail: step.Detail, TookMs: step.Took.Milliseconds()})
	}
	return h
}

// describeSafely reads hostile text: that its reader fails loses the description
// and nothing else.
func describeSafely(text []byte, loopThread string) (facts DumpFacts) {
	defer func() {
		if recover() != nil {
			facts = DumpFacts{}
		}
	}()
	return describeDump(text, loopThread)
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}

func narrow(n *int64) *int {
	if n == nil {
		return nil
	}
	w := int(*n)
	return &w
}
