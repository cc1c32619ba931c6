package recording

import "context"

// Sync waits until everything is packed.
func (m *Memory) Sync() error { return m.recorder.Sync(context.Background()) }
