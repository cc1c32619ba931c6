package terminal

import "time"

// AwaitAnswers makes giving back wait that long for answers of the terminal.
func (t *Terminal) AwaitAnswers(d time.Duration) { t.answer = d }
