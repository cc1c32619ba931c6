package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// paper is a reader that takes each write after a pause, and from a moment on
// nothing until it goes on.
type paper struct {
	pause time.Duration

	mu   sync.Mutex
	text strings.Builder
	hold chan struct{} // nil: it reads
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	time.Sleep(p.pause)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func TestASlowReaderMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{pause: time.Second}
		o := newOutlet(p, nil)
		o.room = 100
		var want strings.Builder
		for i := range 500 {
			line := fmt.Sprintf("line %d\n", i)
			want.WriteString(line)
			fmt.Fprint(o, line)
		}
		o.close()
		if p.String() != want.String() {
			t.Errorf("%d of %d bytes came", len(p.String()), want.Len())
		}
	})
}

// Whoever writes to a reader that takes nothing waits once, and not for ever;
// a reader that goes on is told how much it missed.
func TestAStalledReaderHangsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{hold: make(chan struct{})}
		o := newOutlet(p, nil)
		o.room = 100
		began := time.Now()
		for i := range 1000 {
			fmt.Fprintf(o, "line %d\n", i)
		}
		if took := time.Since(began); took > 2*o.patience {
			t.Errorf("the writer waited for %v", took)
		}
		close(p.hold)
		synctest.Wait()
		fmt.Fprintln(o, "the last")
		o.close()
		if got := p.String(); !strings.HasPrefix(got, "line 0\nline 1\n") || !strings.HasSuffix(got, "\nthe last\n") ||
			!strings.Contains(got, " lines are missing here: nobody read for 2s]\n") {
			t.Errorf("got %q", got)
		}
	})
}

func TestAReaderThatLeavesIsToldOnce(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	gone := make(chan struct{})
	o := newOutlet(w, func() { close(gone) })
	for range 10 {
		if n, err := io.WriteString(o, "lost\n"); n != 5 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	<-gone
	o.close()
}

// The end waits for a reader that takes nothing for a bounded time.
func TestTheEndWaitsForNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{hold: make(chan struct{})}
		o := newOutlet(p, nil)
		fmt.Fprintln(o, "unread")
		began := time.Now()
		o.close()
		if took := time.Since(began); took > 2*o.patience {
			t.Errorf("it took %v", took)
		}
		close(p.hold) // so that nothing is left
		<-o.over
	})
}
