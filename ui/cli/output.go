package cli

import (
	"context"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// heardOutput is the output of sessions that others supervise, over NATS.
type heardOutput struct{ *natsbus.OutputReader }

// Logs gives lines of output.
func (h heardOutput) Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]ui.LogLine, error) {
	lines, err := h.Lines(ctx, id, from, most)
	if err != nil {
		return nil, err
	}
	out := make([]ui.LogLine, len(lines))
	for i, l := range lines {
		out[i] = ui.LogLine{Seq: l.Seq, At: l.At, Generation: l.Generation, Stream: l.Stream, Text: l.Text}
	}
	return out, nil
}

// output is what can be heard of sessions that are not supervised here, or why
// nothing can.
func (o *observer) output() (heard ui.Output, why string) {
	switch {
	case o.settings.NATS.Address == config.None:
		return nil, "output of a session that others supervise comes over NATS alone, and no NATS is configured"
	case o.settings.ReadOnly:
		return nil, "output of a session that others supervise: off, this view is READ-ONLY, and a wish for it would have to be published"
	case o.heard == nil:
		return nil, "output cannot be listened to here"
	}
	return heardOutput{o.heard}, ""
}

// outputLines gives what a child wrote to whoever listens over NATS.
func (s *supervising) outputLines(id watchdog.ID, from int64, most int) []wire.OutputLine {
	lines, err := s.Logs(id, from, most)
	if err != nil {
		return nil // it is supervised here no more
	}
	out := make([]wire.OutputLine, 0, len(lines))
	for _, l := range lines {
		if !l.Partial {
			out = append(out, wire.OutputLine{Generation: l.Generation, Seq: l.Seq, At: l.At, Stream: l.Stream.String(), Text: l.Text})
		}
	}
	return out
}
