package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/embedded"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// noting gives settings with addresses and more lines of configuration, in a data
// directory of its own.
func noting(t *testing.T, nats, redis, more string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	o := config.Options{Path: path, Getenv: func(string) string { return "" }, Flags: []config.Flag{{Name: "data-dir", Key: "data_dir", Value: filepath.Join(dir, "data")}}}
	for key, value := range map[string]string{"nats.url": nats, "redis.url": redis} {
		if value != "" {
			o.Flags = append(o.Flags, config.Flag{Name: key, Key: key, Value: value})
		}
	}
	settings, err := config.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// boardsOn runs the boards of what settings name, and gives what was told of them
// last.
func boardsOn(t *testing.T, settings *config.Config) (b *noteBoards, told func() (notes []watchdog.AlertNote, whole bool)) {
	t.Helper()
	b, err := newNoteBoards(settings, false, clock.System(), discard())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var last []watchdog.AlertNote
	var known bool
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.run(ctx, plainly, func(notes []watchdog.AlertNote, whole bool) {
			mu.Lock()
			defer mu.Unlock()
			last, known = notes, whole
		})
	}()
	t.Cleanup(func() { cancel(); <-over })
	return b, func() ([]watchdog.AlertNote, bool) {
		mu.Lock()
		defer mu.Unlock()
		return last, known
	}
}

func acked(key watchdog.AlertKey, at time.Time) watchdog.AlertNote {
	return watchdog.AlertNote{Key: key, Kind: watchdog.NoteAck, Author: "ops1", Text: "seen", At: at}.OnBoard()
}

// eventually polls.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s: not in 30 s", what)
		}
	}
}

func sees(t *testing.T, told func() ([]watchdog.AlertNote, bool), want ...watchdog.AlertNote) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d notes are told", len(want)), func() bool {
		notes, whole := told()
		return whole && slices.Equal(notes, want)
	})
}

func putNote(t *testing.T, b *noteBoards, n watchdog.AlertNote) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Put(ctx, n); err != nil {
		t.Fatalf("%s: %v", n.Key, err)
	}
}

func startNATS(t *testing.T, jetStream bool) string {
	t.Helper()
	server, err := embedded.StartNATS(embedded.NATSOptions{JetStream: jetStream, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.ClientURL()
}

func startRedis(t *testing.T) *embedded.Redis {
	t.Helper()
	server, err := embedded.StartRedis(embedded.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// nowhere is an address at which nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestNotesAreShared writes from one process and looks from others.
func TestNotesAreShared(t *testing.T) {
	nats, redis := startNATS(t, true), startRedis(t).URL()
	now := time.Now()
	settings := noting(t, nats, redis, "")
	one, seenByOne := boardsOn(t, settings)
	_, seenByTwo := boardsOn(t, noting(t, nats, redis, "read_only: true"))
	onRedis, seenOnRedis := boardsOn(t, noting(t, config.None, redis, ""))
	sees(t, seenByTwo)
	a, b := acked("a#1/stalled", now), acked("b#1/stalled", now)
	putNote(t, one, a)
	sees(t, seenByTwo, a)
	putNote(t, onRedis, b) // who sees Redis alone is heard by all
	sees(t, seenOnRedis, b)
	sees(t, seenByTwo, a, b)
	sees(t, seenByOne, a, b)
	if _, err := os.Stat(settings.DataDir); err == nil {
		t.Error("what is shared was written to a file of this machine")
	}
}

// TestNotesWithoutAPlaceToShareThem says so where a bus is configured, and takes a
// file where none is.
func TestNotesWithoutAPlaceToShareThem(t *testing.T) {
	t.Run("a bus is away", func(t *testing.T) {
		settings := noting(t, "nats://"+nowhere(t), config.None, "")
		b, told := boardsOn(t, settings)
		err := b.Put(t.Context(), acked("a#1/stalled", time.Now()))
		if err == nil || !strings.Contains(err.Error(), "NATS: ") {
			t.Errorf("it says %v", err)
		}
		eventually(t, "what is known counts after a while", func() bool { _, whole := told(); return whole })
		if _, err := os.Stat(settings.DataDir); err == nil {
			t.Error("it was written to this machine alone")
		}
	})
	t.Run("NATS keeps nothing", func(t *testing.T) {
		b, told := boardsOn(t, noting(t, startNATS(t, false), startRedis(t).URL(), ""))
		n := acked("a#1/stalled", time.Now())
		putNote(t, b, n)
		sees(t, told, n)
	})
	t.Run("NATS keeps nothing, and there is no Redis", func(t *testing.T) {
		b, told := boardsOn(t, noting(t, startNATS(t, false), config.None, ""))
		n := acked("a#1/stalled", time.Now())
		var here *watchdog.KeptHere
		if err := b.Put(t.Context(), n); !errors.As(err, &here) || !strings.Contains(err.Error(), "on this machine alone: the NATS server has no JetStream") {
			t.Errorf("it says %v", err)
		}
		sees(t, told, n)
	})
	t.Run("no bus at all", func(t *testing.T) {
		settings := noting(t, config.None, config.None, "")
		b, told := boardsOn(t, settings)
		_, toldOther := boardsOn(t, settings)
		n := acked("a#1/stalled", time.Now())
		putNote(t, b, n)
		sees(t, told, n)
		sees(t, toldOther, n)
		if info, err := os.Stat(filepath.Join(settings.DataDir, noteFile)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		settings := noting(t, config.None, config.None, "read_only: true")
		b, _ := boardsOn(t, settings)
		if err := b.Put(t.Context(), acked("a#1/stalled", time.Now())); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("it says %v", err)
		}
	})
}

// TestAnswersComeAfterWhatWasShown lets an operator whose clock is behind answer a
// colleague's note that he sees, and not one that he does not.
func TestAnswersComeAfterWhatWasShown(t *testing.T) {
	settings := noting(t, config.None, startRedis(t).URL(), "")
	b, told := boardsOn(t, settings)
	ahead := acked("a#1/stalled", time.Now().Add(time.Hour))
	ahead.Author = "ops2"
	putNote(t, b, ahead)
	sees(t, told, ahead)
	mine := acked("a#1/stalled", time.Now())
	putNote(t, b, mine)
	mine.At = ahead.At.Add(time.Millisecond)
	sees(t, told, mine)
	gone := acked("a#1/stalled", mine.At.Add(time.Hour))
	gone.Kind = watchdog.NoteClear
	putNote(t, b, gone)
	sees(t, told)
	again := acked("a#1/stalled", time.Now())
	putNote(t, b, again)
	again.At = gone.At.Add(time.Millisecond)
	sees(t, told, again)
	blind, err := newNoteBoards(settings, false, clock.System(), discard())
	if err != nil {
		t.Fatal(err)
	}
	defer blind.shut()
	var newer *watchdog.NewerNote
	if err := blind.Put(t.Context(), acked("a#1/stalled", time.Now())); !errors.As(err, &newer) || newer.Stands != again {
		t.Errorf("a note that nobody has seen here is answered: %v", err)
	}
}

func raisedFor(id watchdog.ID, evidence uint64) watchdog.Raise {
	return watchdog.Raise{Alert: watchdog.Alert{Key: watchdog.AlertKey(id) + "#1/stalled", ID: id, Generation: 1, Cause: watchdog.CauseStalled, N: 1,
		Evidence: evidence, Text: fmt.Sprintf("STALLED %s #1: no work 5m00, limit 5m00; beats go on.", id)}}
}

// alertingOn runs what stands behind alerts, with an engine that watches nobody.
func alertingOn(t *testing.T, settings *config.Config, o alertingOptions) *alerting {
	t.Helper()
	o.clock, o.log, o.spawn = clock.System(), discard(), plainly
	a, err := newAlerting(settings, o)
	if err != nil {
		t.Fatal(err)
	}
	a.watch(watchdog.NewEngine(watchdog.EngineConfig{Clock: o.clock}))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-over })
	return a
}

// TestWhatWasAnsweredIsNotTold raises alerts before it is known what colleagues
// have answered.
func TestWhatWasAnsweredIsNotTold(t *testing.T) {
	redis := startRedis(t)
	before, _ := boardsOn(t, noting(t, config.None, redis.URL(), ""))
	now := time.Now()
	old := acked("evolved#1/stalled", now)
	old.Evidence = 1
	snoozed := acked("snoozed#1/stalled", now)
	snoozed.Kind, snoozed.Until = watchdog.NoteSnooze, now.Add(time.Hour)
	over := acked("over#1/stalled", now.Add(-time.Hour))
	over.Kind, over.Until = watchdog.NoteSnooze, now.Add(-time.Minute)
	muted := acked(watchdog.MatchKey("etl-*"), now)
	muted.Kind, muted.Until = watchdog.NoteMute, now.Add(time.Hour)
	for _, n := range []watchdog.AlertNote{acked("acked#1/stalled", now), old, snoozed, over, muted} {
		putNote(t, before, n)
	}
	var mu sync.Mutex
	rings := 0
	var texts []string
	a := alertingOn(t, noting(t, config.None, redis.URL(), "alerts: {desktop: true}"), alertingOptions{ringer: ringer{
		bell:    func() { mu.Lock(); defer mu.Unlock(); rings++ },
		desktop: func(_, text string) { mu.Lock(); defer mu.Unlock(); texts = append(texts, text) },
	}})
	a.effects([]watchdog.Effect{raisedFor("acked", 0), raisedFor("evolved", 2), raisedFor("snoozed", 0), raisedFor("over", 0), raisedFor("etl-nightly", 0)})
	eventually(t, "two alerts are told", func() bool { mu.Lock(); defer mu.Unlock(); return rings == 2 && len(texts) == 2 })
	a.effects([]watchdog.Effect{raisedFor("acked", 5)}) // the engine knows by now
	eventually(t, "one more alert is told", func() bool { mu.Lock(); defer mu.Unlock(); return rings == 3 && len(texts) == 3 })
	want := []string{"STALLED evolved #1", "STALLED over #1", "STALLED acked #1"}
	for i, text := range texts {
		if !strings.HasPrefix(text, want[i]) {
			t.Errorf("notice %d is %q", i, text)
		}
	}
	if news, count, _ := a.raised.after(0); count != 3 || len(news) != 3 {
		t.Errorf("screens are told of %d", count)
	}
}

// TestNotesWhoseAlertIsOver are cleared by a serve, and by whoever wrote them.
func TestNotesWhoseAlertIsOver(t *testing.T) {
	redis := startRedis(t)
	board, told := boardsOn(t, noting(t, config.None, redis.URL(), ""))
	mine, others := acked("mine#1/stalled", time.Now()), acked("others#1/stalled", time.Now())
	mine.Author = operatorName()
	putNote(t, board, mine)
	putNote(t, board, others)
	sees(t, told, mine, others)
	screen := alertingOn(t, noting(t, config.None, redis.URL(), ""), alertingOptions{})
	serve := alertingOn(t, noting(t, config.None, redis.URL(), ""), alertingOptions{clears: true})
	for _, a := range []*alerting{screen, serve} {
		eventually(t, "the notes are known", func() bool { _, ok := a.boards.stands(others.Key); return ok })
	}
	screen.effects([]watchdog.Effect{watchdog.NoteOver{Note: mine}, watchdog.NoteOver{Note: others}})
	sees(t, told, others)
	newer := others
	newer.Text, newer.At = "looked again", others.At.Add(time.Second)
	putNote(t, board, newer)
	sees(t, told, newer)
	eventually(t, "the newer note is known", func() bool { n, _ := serve.boards.stands(others.Key); return n == newer })
	serve.effects([]watchdog.Effect{watchdog.NoteOver{Note: others}}) // what was written since stays
	serve.effects([]watchdog.Effect{watchdog.NoteOver{Note: newer}})
	sees(t, told)
}

// TestHooksOfASetting sends what is raised to a webhook and a command.
func TestHooksOfASetting(t *testing.T) {
	got := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- string(text)
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "paged")
	settings := noting(t, config.None, config.None, fmt.Sprintf("alerts: {webhook: %q, command: [/bin/sh, -c, %q], timeout: 10s}", hook.URL+"/secret", "cat > "+file+".new; mv "+file+".new "+file))
	a := alertingOn(t, settings, alertingOptions{writer: "serve@eu1/7"})
	a.effects([]watchdog.Effect{raisedFor("job", 0)})
	select {
	case text := <-got:
		if !strings.Contains(text, `"session_id":"job","generation":1,"kind":"alert"`) || !strings.Contains(text, `"cluster":"local","writer":"serve@eu1/7"`) {
			t.Errorf("the webhook is told %s", text)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the webhook is told nothing")
	}
	eventually(t, "the command ran", func() bool { text, _ := os.ReadFile(file); return strings.Contains(string(text), `"session_id":"job"`) })
	demo := alertingOn(t, settings, alertingOptions{demo: true, ringer: ringer{bell: func() { t.Error("a demo rings") }}})
	if ways := demo.alarm.Ways(); len(ways) != 0 {
		t.Errorf("a demo alarms people by %v", ways)
	}
	putNote(t, demo.boards, acked("job#1/stalled", time.Now()))
	eventually(t, "a demo keeps notes", func() bool { _, ok := demo.boards.stands("job#1/stalled"); return ok })
}

// TestAlertingLeavesNothing ends while a bus is away and alerts come.
func TestAlertingLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	settings := noting(t, "nats://"+nowhere(t), "redis://"+nowhere(t), "")
	a, err := newAlerting(settings, alertingOptions{clock: clock.System(), log: discard(), spawn: plainly})
	if err != nil {
		t.Fatal(err)
	}
	a.watch(watchdog.NewEngine(watchdog.EngineConfig{Clock: clock.System()}))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.run(ctx)
	}()
	for i := range 2000 {
		a.effects([]watchdog.Effect{raisedFor(watchdog.ID(fmt.Sprint(i)), 0), watchdog.NoteOver{}})
	}
	cancel()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}
