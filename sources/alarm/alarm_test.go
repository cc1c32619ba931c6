package alarm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func raise(id watchdog.ID) watchdog.Raise {
	return watchdog.Raise{Alert: watchdog.Alert{
		Key: watchdog.AlertKey(id) + "#3/stalled", Cause: watchdog.CauseStalled, Attention: watchdog.AttentionAct, ID: id, Generation: 3, N: 1,
		Began: time.Date(2026, 11, 30, 3, 3, 0, 0, time.UTC).UnixNano(), Text: fmt.Sprintf("STALLED %s #3: no work 5m00, limit 5m00; beats go on.", id),
	}}
}

// sent keeps what an outlet told.
type sent struct {
	mu   sync.Mutex
	all  []wire.Alarm
	fail error
	took time.Duration
}

func (s *sent) send(ctx context.Context, m wire.Alarm) error {
	if s.took > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(s.took):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
	return s.fail
}

func (s *sent) alerts() (n int) {
	for _, m := range s.all {
		n += len(m.Raised) + m.More
	}
	return n
}

// runOutlet runs an outlet of hooks until the bubble is done with it.
func runOutlet(t *testing.T, s *sent, o Options) *outlet {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	out := newOutlet("webhook", hookPace(), s.send, &o)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		out.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-over })
	return out
}

func TestFewAlertsAreToldOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sent{}
		out := runOutlet(t, s, Options{Cluster: "prod", Writer: "serve@eu1/7"})
		for i := range 5 {
			out.take(raise(watchdog.ID(fmt.Sprintf("job-%d", i))))
		}
		synctest.Wait()
		if len(s.all) != 5 || s.alerts() != 5 {
			t.Fatalf("%d alarms tell of %d alerts", len(s.all), s.alerts())
		}
		ids := map[string]bool{}
		for i, m := range s.all {
			ids[m.ID] = true
			if want := raise(watchdog.ID(fmt.Sprintf("job-%d", i))).Alert.Text; m.Text() != want || m.Cluster != "prod" || m.Writer != "serve@eu1/7" {
				t.Errorf("alarm %d is %q of %s by %s", i, m.Text(), m.Cluster, m.Writer)
			}
		}
		if len(ids) != 5 {
			t.Errorf("5 alarms have %d ids", len(ids))
		}
	})
}

// TestStorm raises five hundred alerts at once, and then one each second.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sent{}
		out := runOutlet(t, s, Options{})
		for i := range 500 {
			out.take(raise(watchdog.ID(fmt.Sprintf("job-%d", i))))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.all) > 12 || s.alerts() != 500 {
			t.Errorf("%d alarms tell of %d alerts", len(s.all), s.alerts())
		}
		// How many there are when it is told of them is the scheduler's choice.
		digest := slices.MaxFunc(s.all, func(a, b wire.Alarm) int { return cmp.Compare(len(a.Text()), len(b.Text())) })
		if text := digest.Text(); len(digest.Raised) > wire.MaxAlarmAlerts || !strings.Contains(text, " alerts: STALLED job-") || !strings.HasSuffix(text, " more.") {
			t.Errorf("the digest lists %d and says %q", len(digest.Raised), text)
		}
		before := len(s.all)
		for i := range 300 {
			out.take(raise(watchdog.ID(fmt.Sprintf("late-%d", i))))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.all) - before; n > 10+300/6+2 || s.alerts() != 800 {
			t.Errorf("%d alarms in five minutes, of %d alerts", n, s.alerts()-500)
		}
	})
}

// TestSlowHook tells of what came while one telling took long.
func TestSlowHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sent{took: 10 * time.Second}
		out := runOutlet(t, s, Options{})
		for i := range 30 {
			out.take(raise(watchdog.ID(fmt.Sprintf("job-%d", i))))
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(s.all) > 5 || s.alerts() != 30 {
			t.Errorf("%d alarms tell of %d alerts", len(s.all), s.alerts())
		}
	})
}

func TestFailuresAreSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var told []string
		s := &sent{fail: errors.New("the webhook at hooks.example: refused")}
		out := runOutlet(t, s, Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Failed: func(outlet, text string) { told = append(told, outlet+" "+text) },
		})
		for range 20 {
			out.take(raise("job"))
			time.Sleep(6 * time.Second)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "alerts were not told"); n != 2 {
			t.Errorf("in two minutes it is logged %d times:\n%s", n, log.String())
		}
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		out.take(raise("job"))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if want := []string{"webhook the webhook at hooks.example: refused", "webhook "}; len(told) != 2 || told[0] != want[0] || told[1] != want[1] {
			t.Errorf("told: %q", told)
		}
		if !strings.Contains(log.String(), "alerts are told again") {
			t.Error("that it works again is not logged")
		}
	})
}

func TestPanicCostsOneTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rings := 0
		a, err := New(Options{Bell: func() {
			if rings++; rings == 1 {
				panic("no bell")
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); a.Run(ctx) }()
		for range 2 {
			a.Raise(raise("job"))
			time.Sleep(2 * time.Second)
		}
		cancel()
		<-over
		if rings != 2 {
			t.Errorf("it rang %d times", rings)
		}
	})
}

func TestBellAndDesktop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rings, notices int
		var title, text string
		a, err := New(Options{Cluster: "prod", Bell: func() { rings++ }, Desktop: func(a, b string) { notices++; title, text = a, b }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); a.Run(ctx) }()
		group := raise("")
		group.Alert.Cause, group.Alert.N, group.Alert.Text = watchdog.CauseGroup, 400, "400 silent together."
		a.Raise(group)
		for _, standing := range []watchdog.Standing{watchdog.AlertAcked, watchdog.AlertSnoozed, watchdog.AlertMuted} {
			quiet := raise("quiet")
			quiet.Alert.Standing = standing
			a.Raise(quiet)
		}
		found := raise("found")
		found.Found = true
		a.Raise(found)
		time.Sleep(time.Minute)
		cancel()
		<-over
		if rings != 1 || notices != 1 || title != "sessionwatch prod" || text != "400 silent together." {
			t.Errorf("%d bells, %d notices: %q, %q", rings, notices, title, text)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{
		{Webhook: "hooks.example/T0"}, {Webhook: "ftp://hooks.example/T0"}, {Webhook: "https://u:p@hooks.example/T0"}, {Webhook: "https:///T0"},
		{Command: []string{"true"}, Timeout: -time.Second},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "alerts.") || strings.Contains(err.Error(), "T0") {
			t.Errorf("%+v is answered with %v", o, err)
		}
	}
	a, err := New(Options{})
	if err != nil || len(a.Ways()) != 0 {
		t.Errorf("without any way: %v, %v", a.Ways(), err)
	}
	a.Raise(raise("job")) // nobody is told
}
