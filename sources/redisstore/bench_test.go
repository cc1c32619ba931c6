//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

type deafSink struct{ beats int }

func (d *deafSink) Beats(b []watchdog.Beat) { d.beats += len(b) }
func (d *deafSink) Post(watchdog.Event)     {}

// BenchmarkSteadyPoll compares a poll of 100,000 known keys, its share of the
// scan included, with SCAN + MGET of everything through go-redis. The goal is a
// ratio of at most 0.5.
func BenchmarkSteadyPoll(b *testing.B) {
	const n = 100_000
	s := startReal(b)
	fill(b, s.admin, n, 1)
	ctx := b.Context()
	sink := &deafSink{}
	store, err := Open(Options{URL: "redis://" + s.Address()}, sink, testClock(), nil)
	if err != nil {
		b.Fatal(err)
	}
	store.poller.client = newClient(ctx, store.target, store.logger)
	poll := func() {
		if err := store.poll(ctx); err != nil {
			b.Fatal(err)
		}
	}
	poll()
	if sink.beats != n {
		b.Fatalf("%d beats at first sight, want %d", sink.beats, n)
	}
	floorClient := redis.NewClient(&redis.Options{Addr: s.Address(), Protocol: 2})
	defer func() { _ = floorClient.Close() }()
	var ours, floor []time.Duration
	for b.Loop() {
		ours = append(ours, timed(poll))
		floor = append(floor, timed(func() { scanAndGet(b, floorClient) }))
	}
	report(b, ours, floor, n)
}

// scanAndGet is the way that a simple client polls.
func scanAndGet(b *testing.B, c *redis.Client) {
	var cursor uint64
	for {
		keys, next, err := c.Scan(b.Context(), cursor, "agent:liveness:*", 1000).Result()
		if err == nil && len(keys) > 0 {
			err = c.MGet(b.Context(), keys...).Err()
		}
		if err != nil {
			b.Fatal(err)
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// report compares the best runs: on a shared machine the others measure the
// neighbours.
func report(b *testing.B, ours, floor []time.Duration, n int) {
	o, f := slices.Min(ours), slices.Min(floor)
	b.ReportMetric(float64(o)/float64(f), "ratio")
	b.ReportMetric(float64(o.Nanoseconds())/float64(n), "ns/key")
	b.ReportMetric(float64(f.Nanoseconds())/float64(n), "floor-ns/key")
}

// BenchmarkPublish compares a publisher's pipeline of 10,000 sessions with
// redis-benchmark sending the same SETs in pipelines of 1,000. The goal is at
// least 0.9 of its rate.
func BenchmarkPublish(b *testing.B) {
	const n, rounds = 10_000, 10
	s := startReal(b)
	tool := sourcetest.RealBinary(b, "redis-benchmark")
	p, err := OpenPublisher(Options{URL: "redis://" + s.Address()}, 0, testClock(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	ids, payloads := make([]watchdog.ID, n), make([][]byte, n)
	for i := range n {
		id := fmt.Sprintf("batch-job-%06d", i)
		ids[i], payloads[i] = watchdog.ID(id), beatOf(id, i)
	}
	var rates, floors []float64
	for b.Loop() {
		for range rounds {
			for i, id := range ids {
				if err := p.PublishBeat(id, payloads[i]); err != nil {
					b.Fatal(err)
				}
			}
			took := timed(func() {
				if err := p.flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
			rates = append(rates, n/took.Seconds())
			floors = append(floors, floorRate(b, tool, s.port, string(payloads[0])))
		}
	}
	if sent := p.Counts().Sent; sent != uint64(n*len(rates)) {
		b.Fatalf("%d beats were sent, want %d", sent, n*len(rates))
	}
	rate, floor := slices.Max(rates), slices.Max(floors)
	b.ReportMetric(rate/floor, "ratio")
	b.ReportMetric(rate, "beats/s")
	b.ReportMetric(floor, "floor-beats/s")
}

var rateOf = regexp.MustCompile(`([0-9.]+) requests per second`)

func floorRate(b *testing.B, tool string, port int, payload string) float64 {
	b.Helper()
	out, err := exec.Command(tool, "-p", strconv.Itoa(port), "-n", "10000", "-c", "1", "-P", "1000", "-r", "10000", "-q",
		"SET", "agent:liveness:batch-job-__rand_int__", payload, "EX", "60").CombinedOutput()
	found := rateOf.FindAllSubmatch(out, -1)
	if err != nil || len(found) == 0 {
		b.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	rate, err := strconv.ParseFloat(string(found[len(found)-1][1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}
