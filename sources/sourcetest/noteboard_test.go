//go:build unix

package sourcetest_test

import (
	"testing"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// memoryNotes is the store of a MemoryBoard.
type memoryNotes struct{ board *watchdog.MemoryBoard }

func (m memoryNotes) Open(testing.TB, bool) (watchdog.NoteBoard, func()) { return m.board, func() {} }

func TestMemoryBoard(t *testing.T) {
	sourcetest.RunNoteBoard(t, sourcetest.NoteBoardHarness{InMemory: true, Lasting: true, Encode: wire.EncodeNote, Serve: func(testing.TB) sourcetest.NoteStore {
		return memoryNotes{watchdog.NewMemoryBoard(nil)}
	}})
}
