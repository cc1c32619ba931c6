package natsbus

import "time"

// ReconcileEvery is how often a board that is watched is looked at without a cause.
func (b *Board) ReconcileEvery(d time.Duration) { b.reconcile = d }

// ReconcileEvery is how often a ledger that is followed is looked at without a cause.
func (l *Ledger) ReconcileEvery(d time.Duration) { l.reconcile = d }
