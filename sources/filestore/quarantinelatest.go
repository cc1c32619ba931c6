package filestore

import (
	"context"
	"slices"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Latest gives up to limit of what came late from all sessions, newest first.
func (q *Quarantine) Latest(ctx context.Context, limit int) ([]watchdog.Late, error) {
	var ids []watchdog.ID
	err := q.Sessions(ctx, func(id watchdog.ID, _ int) bool { ids = append(ids, id); return true })
	if err != nil {
		return nil, err
	}
	newest := func(a, b watchdog.Late) int { return b.At.Compare(a.At) }
	var out []watchdog.Late
	for _, id := range ids {
		list, err := q.List(ctx, id, limit)
		if err != nil {
			return nil, err
		}
		if out = append(out, list...); len(out) > 4*limit { // memory is that of a few answers
			slices.SortStableFunc(out, newest)
			out = slices.Clip(out[:limit])
		}
	}
	slices.SortStableFunc(out, newest)
	return out[:min(len(out), limit)], nil
}
