package cli

import (
	"context"

	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// quarantined lists what this process keeps of what came late.
type quarantined struct{ *filestore.Quarantine }

// Late lists the newest of one session, or of all.
func (q quarantined) Late(ctx context.Context, id watchdog.ID, most int) ([]watchdog.Late, error) {
	if id == "" {
		return q.Latest(ctx, most)
	}
	return q.List(ctx, id, most)
}

// remoteLate asks a serve for what it keeps.
type remoteLate struct{ client *serveview.Client }

// Late lists the newest of one session, or of all.
func (r remoteLate) Late(ctx context.Context, id watchdog.ID, most int) ([]watchdog.Late, error) {
	return r.client.LateList(ctx, id, most)
}
