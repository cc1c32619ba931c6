package redisstore

import (
	"context"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
)

// The rule of the scan; the package comment explains it.
const (
	scanCount   = 1000             // slots that one SCAN looks at
	scanSteps   = 20               // SCANs that every poll may make
	scanHurry   = 5                // times as many when the database grew
	scanPolls   = 5                // polls that a cycle may take at most
	scanCycle   = 10 * time.Second // time that a cycle may take at most
	scanMinTime = 100 * time.Millisecond
)

// scanner walks the keyspace of every master, over several polls if it is large.
type scanner struct {
	marks    []scanMark
	complete bool  // every master was walked once since restart
	size     int64 // keys of the database now; -1 cannot tell
	began    int64 // the same when this cycle began
	known    int64 // the same when the last complete cycle began: those are all known
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

// begin starts a cycle if none is under way.
func (s *scanner) begin(v *survey) {
	s.size = v.keys()
	for _, m := range s.marks {
		if !m.done {
			return
		}
	}
	s.marks = s.marks[:0]
	for _, n := range v.nodes {
		s.marks = append(s.marks, scanMark{node: n})
	}
	s.began = s.size
}

// budget is how many SCANs this poll may make.
func (s *scanner) budget(interval time.Duration) int {
	if !s.complete || s.size < 0 {
		return int(^uint(0) >> 1)
	}
	polls := min(max(int(scanCycle/interval), 1), scanPolls)
	whole := int(s.size/scanCount) + len(s.marks)
	steps := max(scanSteps, (whole+polls-1)/polls)
	if s.size > s.known {
		steps *= scanHurry
	}
	return steps
}

// run makes this poll's share of SCANs and calls found with the keys of each.
// The first cycle has no limit of time, because nothing is known before it ends.
func (s *scanner) run(ctx context.Context, interval time.Duration, found func([]string) error) error {
	budget, began := s.budget(interval), time.Now()
	limit := max(interval/2, scanMinTime)
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
	s.complete, s.known = true, s.began
	return nil
}
