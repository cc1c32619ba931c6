package process

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// maxNotice bounds one message of the notify protocol; the kernel lets through
// more.
const maxNotice = 8 << 10

// notice is one message of systemd's notify protocol, as far as it concerns us.
type notice struct {
	ready    bool    // READY=1
	stopping bool    // STOPPING=1
	work     bool    // WATCHDOG=1
	wedged   bool    // WATCHDOG=trigger
	status   *string // STATUS=, cleaned; nil: not in the message
	extend   time.Duration
	credits  float64 // X_CREDITS=; NaN: not in the message
}

// activity reports whether the message is proof of work. A barrier, or a field
// that we do not know, is none.
func (n *notice) activity() bool {
	return n.ready || n.work || n.status != nil || n.extend > 0 || !math.IsNaN(n.credits)
}

// maxExtend keeps a hostile number of microseconds from overflowing.
const maxExtend = 100 * 365 * 24 * time.Hour

// parseNotice reads a message: NAME=VALUE lines. What is wrong or not known is
// left out, and the rest counts: a child is not punished for a field of another
// program's.
func parseNotice(message []byte) notice {
	n := notice{credits: math.NaN()}
	for line := range bytes.SplitSeq(message, []byte{'\n'}) {
		name, value, ok := strings.Cut(string(line), "=")
		if !ok {
			continue
		}
		switch name {
		case "READY":
			n.ready = n.ready || value == "1"
		case "STOPPING":
			n.stopping = n.stopping || value == "1"
		case "WATCHDOG":
			n.work = n.work || value == "1"
			n.wedged = n.wedged || value == "trigger"
		case "STATUS":
			text := strings.Clone(termtext.Clean(value))
			n.status = &text
		case "EXTEND_TIMEOUT_USEC":
			if us, err := strconv.ParseUint(value, 10, 64); err == nil {
				n.extend = time.Duration(min(us, uint64(maxExtend/time.Microsecond))) * time.Microsecond
			}
		case "X_CREDITS":
			if v, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(v, 0) {
				n.credits = v
			}
		}
	}
	return n
}
