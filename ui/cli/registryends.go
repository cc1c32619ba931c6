package cli

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/httpregistry"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// registryEnds joins the registry to the ledger that was chosen.
type registryEnds struct{ *settling }

// Head reads the newest generation of a session.
func (e registryEnds) Head(ctx context.Context, id watchdog.ID) (watchdog.Head, error) {
	l, err := e.chosen()
	if err != nil {
		return watchdog.Head{}, err
	}
	h, _, err := l.Head(ctx, id)
	return h, err
}

// Record reads one end.
func (e registryEnds) Record(ctx context.Context, id watchdog.ID, g watchdog.Generation) (watchdog.Record, bool, error) {
	l, err := e.chosen()
	if err != nil {
		return watchdog.Record{}, false, err
	}
	return watchdog.EndOf(ctx, l, id, g)
}

// Settle writes an end once; ours reports whether it is this one.
func (e registryEnds) Settle(ctx context.Context, r watchdog.Record) (stands watchdog.Record, ours bool, err error) {
	r.Nonce = rand.Text()
	stands, err = e.settling.Settle(ctx, r)
	return stands, err == nil && stands.Nonce == r.Nonce, err
}

// registryWatch lets the registry ask the engine before it reaps.
type registryWatch struct {
	engine *watchdog.Engine
	ttl    time.Duration
}

// Sight tells whether the generation beats elsewhere, and whether it is held.
// The registry asks only about who sent no heartbeat for a whole ttl, so a beat
// that is younger came by another way.
func (w registryWatch) Sight(ctx context.Context, id watchdog.ID, g watchdog.Generation) (httpregistry.Sight, error) {
	win, err := w.engine.Look(ctx, watchdog.Ask{Focus: id, KeepEnded: true})
	if err != nil || win.Focus == nil {
		return httpregistry.Sight{}, err
	}
	d := win.Focus
	sight := httpregistry.Sight{Held: d.Evidence.Held}
	others := d.Sources &^ watchdog.SourceHTTP.Set()
	if (d.Generation == g || d.Generation == 0) && others != 0 && d.BeatAge >= 0 && d.BeatAge < w.ttl {
		var names []string
		for _, s := range others.Sources() {
			names = append(names, s.Title())
		}
		sight.Elsewhere = strings.Join(names, ", ")
	}
	return sight, nil
}
