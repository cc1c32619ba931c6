package embedded

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// expiryStep is how often keys are aged: miniredis does not expire by itself.
const expiryStep = 100 * time.Millisecond

// RedisOptions say where the embedded Redis-compatible server listens. The
// zero value is a random port on loopback.
type RedisOptions struct {
	Port int // 0: a random free port
}

// Redis is a Redis-compatible server inside this process, on loopback only. It
// keeps everything in memory. It has no CONFIG, ROLE or keyspace notifications.
type Redis struct {
	server *miniredis.Miniredis
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

// StartRedis starts the server. Keys expire in real time until Close.
func StartRedis(o RedisOptions) (*Redis, error) {
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("redis port %d is not between 0 and 65535", o.Port)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("cannot start the embedded Redis on %s; choose another port or stop what uses it: %w", addr, err)
	}
	r := &Redis{server: server, stop: make(chan struct{}), done: make(chan struct{})}
	go r.expire()
	return r, nil
}

// Addr is the host and port that the server listens on.
func (r *Redis) Addr() string { return r.server.Addr() }

// URL is what a client is given as REDIS_URL.
func (r *Redis) URL() string { return "redis://" + r.server.Addr() }

// Close stops the server and cuts its connections. It may be called twice.
func (r *Redis) Close() {
	r.once.Do(func() {
		close(r.stop)
		<-r.done
		// miniredis forgets its server before it cuts the connections, and an
		// INFO that arrives between the two panics. So the clients go first.
		cut := make(chan struct{})
		go func() {
			defer close(cut)
			r.server.Server().Close()
		}()
		r.wake(cut)
		r.server.Close()
	})
}

// wake lets those clients go that wait in a blocking command. Told that all is
// over, one that was just about to wait misses it and would wait for ever: what
// empties the store wakes it again.
func (r *Redis) wake(done <-chan struct{}) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for r.server.CtxCancel(); ; r.server.FlushAll() {
		select {
		case <-done:
			return
		case <-again.C:
		}
	}
}

// expire ages all keys by the time that really passed, so that a starved
// process catches up instead of keeping keys for too long.
func (r *Redis) expire() {
	defer close(r.done)
	ticker := time.NewTicker(expiryStep)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
			now := time.Now()
			r.server.FastForward(now.Sub(last))
			last = now
		}
	}
}
