package terminal

import "github.com/sessionwatch/sessionwatch/internal/termtext"

// pushTitle saves the terminal's title on its own stack; the counterpart is
// written by modes.undo. Terminals that have no such stack ignore both.
const pushTitle = "\x1b[22;0t"

// TitleCells is how wide a terminal's title may be.
const TitleCells = 20

// CleanTitle makes text fit for a terminal's title: nothing that a terminal
// would obey, at most TitleCells wide.
func CleanTitle(text string) string {
	return termtext.Truncate(termtext.Clean(text), TitleCells)
}
