package redisstore

import (
	"context"
	"math"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
)

// The rule of the scan; the package comment explains it.
const (
	scanCount   = 1000             // slots that one SCAN looks at
	scanSteps   = 20               // SCANs that every poll may make
	scanPolls   = 15               // polls that a quiet cycle may take at most
	scanCycle   = 30 * time.Second // time that a quiet cycle may take at most
	scanShare   = 10               // one part in so many of the interval may go into SCANs
	scanMinTime = 100 * time.Millisecond
)

// scanner walks the keyspace of every master, over several polls if it is large.
type scanner struct {
	marks    []scanMark
	complete bool  // every master was walked once since restart
	size     int64 // keys of the database now; -1 cannot tell
	extra    int64 // those of them that we do not ask for: foreign ones and new ones
	began    int64 // the same when this cycle began
	added    int64 // keys that this cycle made known
	known    int64 // extra keys of the last complete cycle that stayed foreign
}

// scanMark is how far one master has been walked.
type scanMark struct {
	node
	cursor uint64
	done   bool
}

// restart forgets all progress: the next poll scans everything. Cursors mean
// nothing to another server.
func (s *scanner) restart() { *s = scanner{} }

// begin starts a cycle if none is under way. found is how many keys the poll
// has already asked for and found.
func (s *scanner) begin(v *survey, found int) {
	s.size = v.keys()
	s.extra = s.size - int64(found)
	if len(s.marks) > 0 && !s.ended() {
		return
	}
	s.marks = s.marks[:0]
	for _, n := range v.nodes {
		s.marks = append(s.marks, scanMark{node: n})
	}
	s.began, s.added = s.extra, 0
}

// ended reports whether no cycle is under way.
func (s *scanner) ended() bool {
	return len(s.marks) > 0 && s.marks[len(s.marks)-1].done
}

// budget is how many SCANs this poll may make.
func (s *scanner) budget(interval time.Duration) int {
	if !s.complete || s.size < 0 || s.extra > s.known {
		return math.MaxInt // something may be new; time alone limits
	}
	polls := min(max(int(scanCycle/interval), 1), scanPolls)
	whole := int(s.size/scanCount) + len(s.marks)
	if whole <= scanSteps {
		return whole + len(s.marks) // a SCAN may need one step more
	}
	return (whole + polls - 1) / polls
}

// run makes this poll's share of SCANs and calls found with the keys of each.
// The first cycle has no limit of time, because nothing is known before it ends.
func (s *scanner) run(ctx context.Context, interval time.Duration, found func([]string) error) error {
	budget, began := s.budget(interval), time.Now()
	limit := max(interval/scanShare, scanMinTime)
	for i := range s.marks {
		m := &s.marks[i]
		for !m.done {
			if budget <= 0 || (s.complete && time.Since(began) > limit) {
				return nil
			}
			budget--
			keys, next, err := m.Scan(ctx, m.cursor, wire.LivenessKeyPattern, scanCount).Result()
			if err != nil {
				return asked{"SCAN", err}
			}
			if err := found(keys); err != nil {
				return err
			}
			m.cursor, m.done = next, next == 0
		}
	}
	// A key that came after the cycle began makes this too low, and the next
	// cycle a quick one: that errs on the good side.
	s.complete, s.known = true, s.began-s.added
	return nil
}
