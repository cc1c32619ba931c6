package terminal

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// The answer to a question comes when it comes: over a slow connection perhaps
// after the screen has gone, and then into the line of the shell. So whoever
// gives the terminal back looks what it has been asked and has not answered, and
// waits a moment for that.
//
// Terminals answer in the order in which they are asked. A last question that
// nearly all of them know (fence) therefore tells that everything before it has
// been answered or never will be, and that what is typed after its answer was
// typed by a person who no longer saw the screen.
const (
	// answerLimit is how long giving the terminal back waits for answers.
	answerLimit = 500 * time.Millisecond
	// answerAge is how old a question is that will not be answered any more: a
	// mute terminal is waited for only soon after a first frame.
	answerAge = 3 * time.Second
	// fence is the last question: for the primary device attributes.
	fence = ansi.RequestPrimaryDeviceAttributes
)

// question is a kind of question; each has an answer of a form of its own.
type question uint8

const (
	noQuestion   question = iota
	askCursor             // CSI 6 n, answered by CSI row ; column R
	askMode               // CSI ? mode $ p, answered by CSI ? mode ; value $ y
	askColour             // OSC 10 to 12 ; ?, answered by OSC number ; rgb:...
	askAttribute          // CSI c, answered by CSI ? ... c
)

// asks is the question that a sequence puts to the terminal.
func asks(seq []byte) question {
	if seq[1] == ']' {
		if number, rest, _ := bytes.Cut(seq[2:], []byte{';'}); isColour(number) && bytes.HasPrefix(rest, []byte{'?'}) {
			return askColour
		}
		return noQuestion
	}
	switch body := seq[2:]; {
	case string(body) == "6n":
		return askCursor
	case bytes.HasSuffix(body, []byte("$p")):
		return askMode
	case string(body) == "c" || string(body) == "0c":
		return askAttribute
	}
	return noQuestion
}

// answers is the question that a sequence from the terminal answers.
func answers(seq []byte) question {
	if len(seq) < 3 {
		return noQuestion
	}
	switch body, final := seq[2:], seq[len(seq)-1]; {
	case seq[1] == ']':
		if number, _, _ := bytes.Cut(body, []byte{';'}); isColour(number) {
			return askColour
		}
	case seq[1] != '[':
	case final == 'R' && !bytes.HasPrefix(body, []byte("1;")): // which F3 sends too
		return askCursor
	case bytes.HasSuffix(body, []byte("$y")):
		return askMode
	case final == 'c' && body[0] == '?':
		return askAttribute
	}
	return noQuestion
}

func isColour(number []byte) bool { return slices.Contains([]string{"10", "11", "12"}, string(number)) }

// questions are those that went out and are not answered yet. Its methods may be
// called from any goroutine.
type questions struct {
	mu   sync.Mutex
	open []asked
}

type asked struct {
	what question
	at   time.Time
}

// ask notes a question that goes out.
func (q *questions) ask(what question, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = append(q.open, asked{what, now})
}

// answered notes an answer: to the oldest question of its kind, and by silence to
// all that were asked before it.
func (q *questions) answered(what question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.IndexFunc(q.open, func(a asked) bool { return a.what == what }); i >= 0 {
		q.open = q.open[i+1:]
	}
}

// owed reports whether there is a question without its answer.
func (q *questions) owed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) > 0
}

// waiting reports whether an answer may still come.
func (q *questions) waiting(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) > 0 && now.Sub(q.open[len(q.open)-1].at) < answerAge
}

// forget gives up on answers.
func (q *questions) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = nil
}

// settle waits until the terminal has answered all that it was asked, at most
// limit, and reports whether it has. The input is sealed by then: nobody else reads.
//
// What a person types meanwhile is lost with that: a byte that has been read
// cannot be put back, and the answers are behind it. Nothing is read beyond the
// last answer, though.
func (in *Input) settle(limit time.Duration) bool {
	defer in.asked.forget()
	until := time.Now().Add(limit)
	var whole []byte
	for in.asked.owed() {
		left := time.Until(until)
		if in.fd < 0 || left <= 0 {
			return false
		}
		// A reader that hangs may hold mu.
		if !in.mu.TryLock() {
			time.Sleep(min(left, time.Millisecond))
			continue
		}
		var err error
		if pollFor(int(in.file.Fd()), unix.POLLIN, min(left, answerPoll)) {
			whole, err = in.take(whole[:0], 1)
		}
		in.mu.Unlock()
		if err != nil {
			return false
		}
	}
	return true
}

// answerPoll is how long a wait for answers keeps others from reading.
const answerPoll = 10 * time.Millisecond
