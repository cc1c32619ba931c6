//go:build unix

package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// diary is what a session wrote: a ring like that of a supervisor.
type diary struct {
	mu    sync.Mutex
	lines []wire.OutputLine
	seq   int64
	most  int
	reads int
}

func (d *diary) write(texts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range texts {
		d.seq++
		d.lines = append(d.lines, wire.OutputLine{Generation: 1, Seq: d.seq, At: time.Now(), Stream: "stdout", Text: text})
	}
	if over := len(d.lines) - d.most; d.most > 0 && over > 0 {
		d.lines = d.lines[over:]
	}
}

func (d *diary) read(_ watchdog.ID, from int64, most int) []wire.OutputLine {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	var out []wire.OutputLine
	for _, l := range d.lines {
		if l.Seq >= from {
			out = append(out, l)
		}
	}
	if from < 0 {
		return out[max(len(out)-most, 0):]
	}
	return out[:min(most, len(out))]
}

func outputServer(t *testing.T) string {
	t.Helper()
	server, err := embedded.StartNATS(embedded.NATSOptions{Port: sourcetest.FreePort(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.ClientURL()
}

func sendOutput(t *testing.T, url string, d *diary, ids ...watchdog.ID) {
	t.Helper()
	out, err := natsbus.OpenOutput(natsbus.Options{URLs: []string{url}}, ids, "run@h/1", d.read, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, out, nil)
}

func openOutputReader(t *testing.T, url string) *natsbus.OutputReader {
	t.Helper()
	r, err := natsbus.OpenOutputReader(natsbus.Options{URLs: []string{url}}, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, r, nil)
	return r
}

// texts reads until it has seen the wanted last line.
func texts(t *testing.T, r *natsbus.OutputReader, id watchdog.ID, from int64, last string) (out []string, next int64) {
	t.Helper()
	next = from
	ok := sourcetest.Eventually(60*time.Second, func() bool {
		lines, err := r.Lines(t.Context(), id, next, 2000)
		if err != nil {
			return false
		}
		for _, l := range lines {
			if gap := l.Seq - next; next > 0 && gap > 0 {
				out = append(out, fmt.Sprintf("(%d missing)", gap))
			}
			out, next = append(out, l.Text), l.Seq+1
		}
		return len(out) > 0 && out[len(out)-1] == last
	})
	if !ok {
		t.Fatalf("%q did not come; the last that did: %q", last, out[max(len(out)-5, 0):])
	}
	return out, next
}

func TestOutputComesOnDemand(t *testing.T) {
	url := outputServer(t)
	d := &diary{}
	for i := range 300 {
		d.write(fmt.Sprint("old ", i))
	}
	sendOutput(t, url, d, "team.a:job-1", "other")
	listener, err := nats.Connect(url, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	all, err := listener.SubscribeSync("agent.output.>")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := all.NextMsg(500 * time.Millisecond); err == nil {
		t.Errorf("nobody asked, and %s came", m.Data)
	}
	r := openOutputReader(t, url)
	got, next := texts(t, r, "team.a:job-1", -1, "old 299")
	if len(got) != 200 || got[0] != "old 100" {
		t.Errorf("%d lines that are kept came first, from %q", len(got), got[0])
	}
	d.write("new 1", "new \x1b[2J2")
	if got, _ = texts(t, r, "team.a:job-1", next, "new 2"); strings.Join(got, ",") != "new 1,new 2" {
		t.Errorf("live came %q", got)
	}
	m, err := all.NextMsg(time.Minute)
	if err != nil || m.Subject != "agent.output.team.a:job-1" || !strings.Contains(string(m.Data), `"text":"old 100"`) {
		t.Errorf("on the bus is %+v, %v", m, err)
	}
	second := openOutputReader(t, url) // sees the newest too, and the first one nothing twice
	if got, _ := texts(t, second, "team.a:job-1", -1, "new 2"); len(got) != 200 {
		t.Errorf("the second listener got %d lines", len(got))
	}
	d.write("last")
	if got, _ := texts(t, r, "team.a:job-1", next+2, "last"); strings.Join(got, ",") != "last" {
		t.Errorf("the first listener got %q", got)
	}
}

// A foreign client needs to know two subjects.
func TestABareWishIsEnough(t *testing.T) {
	url := outputServer(t)
	d := &diary{}
	d.write("one")
	sendOutput(t, url, d, "a")
	nc, err := nats.Connect(url, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	lines, err := nc.SubscribeSync("agent.output.a")
	if err != nil {
		t.Fatal(err)
	}
	var answer *nats.Msg
	if !sourcetest.Eventually(60*time.Second, func() bool {
		answer, err = nc.Request("agent.output_want.a", nil, time.Second)
		return err == nil
	}) {
		t.Fatal(err)
	}
	if text := string(answer.Data); !strings.Contains(text, `"held_secs":30`) || !strings.Contains(text, `"by":"run@h/1"`) {
		t.Errorf("the answer is %s", text)
	}
	m, err := lines.NextMsg(time.Minute)
	if err != nil || !strings.Contains(string(m.Data), `"text":"one"`) {
		t.Errorf("%v, %v", m, err)
	}
	for range 3 { // wishes go on, lines do not repeat
		if _, err := nc.Request("agent.output_want.a", []byte("x"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	d.write("two")
	if m, err = lines.NextMsg(time.Minute); err != nil || !strings.Contains(string(m.Data), `"text":"two"`) {
		t.Errorf("%v, %v", m, err)
	}
}

// What is written faster than it is sent is left out, counted and said.
func TestOutputIsBounded(t *testing.T) {
	url := outputServer(t)
	d := &diary{most: 1000}
	d.write("first")
	sendOutput(t, url, d, "a")
	r := openOutputReader(t, url)
	_, next := texts(t, r, "a", -1, "first")
	for i := range 10_000 {
		d.write(fmt.Sprint(i))
	}
	d.write("end")
	got, _ := texts(t, r, "a", next, "end")
	if n := len(got); n > 5000 || !strings.Contains(strings.Join(got, ","), "missing)") {
		t.Errorf("%d lines came, and what is missing is not said", n)
	}
}

func TestOutputSaysWhyThereIsNone(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, err := embedded.StartNATS(embedded.NATSOptions{Port: sourcetest.FreePort(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r, err := natsbus.OpenOutputReader(natsbus.Options{URLs: []string{server.ClientURL()}}, clock.System(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(context.Background()) }()
	if !sourcetest.Eventually(time.Minute, func() bool {
		_, err = r.Lines(t.Context(), "a", -1, 10)
		return errors.Is(err, natsbus.ErrNobodySends)
	}) {
		t.Errorf("where nobody supervises it says %v", err)
	}
	if _, err := r.Lines(t.Context(), "a b", -1, 10); err == nil {
		t.Error("an id that is none was taken")
	}
	r.Close()
	<-ended
	if _, err := r.Lines(t.Context(), "a", -1, 10); err == nil {
		t.Error("a closed reader reads")
	}
	if _, err := natsbus.OpenOutputReader(natsbus.Options{ReadOnly: true}, clock.System(), nil); !errors.Is(err, natsbus.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	if _, err := natsbus.OpenOutput(natsbus.Options{ReadOnly: true}, nil, "", nil, clock.System(), nil); !errors.Is(err, natsbus.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}
