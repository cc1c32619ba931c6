package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
)

// facts are what a master says about itself. A server may hide any of them
// (an ACL without INFO, the embedded server): empty and -1 mean "cannot tell".
type facts struct {
	runID       string
	role        string
	uptime      int64  // seconds; -1 cannot tell
	maxMemory   int64  // bytes, 0 no limit; -1 cannot tell
	policy      string // maxmemory-policy
	appendOnly  string // "0", "1"
	evicted     int64  // keys since its start; -1 cannot tell
	keys        int64  // in the database; -1 cannot tell
	connections int    // that we ever made to it
}

// survey is what one poll learned about the store before it read any key.
type survey struct {
	nodes    []node
	facts    map[string]facts // by address
	topology uint64           // of a Cluster: who owns which slots; 0 cannot tell
}

// keys is the number of keys of the database, foreign ones included.
func (s *survey) keys() int64 {
	var total int64
	for _, f := range s.facts {
		if f.keys < 0 {
			return -1
		}
		total += f.keys
	}
	return total
}

// survey asks every master who it is. It is also the ping: it fails unless all
// of them answer.
func (c *client) survey(ctx context.Context) (*survey, error) {
	nodes, err := c.masters(ctx)
	if err != nil {
		return nil, err
	}
	s := &survey{nodes: nodes, facts: make(map[string]facts, len(nodes))}
	for _, n := range nodes {
		f, err := c.factsOf(ctx, n)
		if err != nil {
			return nil, c.at(n, err)
		}
		s.facts[n.addr] = f
	}
	if c.cluster != nil && len(nodes) > 0 {
		s.topology = topologyOf(ctx, nodes[0])
	}
	return s, nil
}

// at names the node of a Cluster that failed.
func (c *client) at(n node, err error) error {
	if c.cluster == nil || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", n.addr, err)
}

func (c *client) factsOf(ctx context.Context, n node) (facts, error) {
	f := facts{uptime: -1, maxMemory: -1, evicted: -1, keys: -1}
	pipe := n.Pipeline()
	ping, info, size := pipe.Ping(ctx), pipe.Info(ctx), pipe.DBSize(ctx)
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := ping.Err(); err != nil && explain(err, "").kind != failedDenied {
		return f, err
	}
	if err := info.Err(); err == nil {
		f.read(info.Val())
	} else if !isServerError(err) {
		return f, err
	}
	if err := size.Err(); err == nil {
		f.keys = size.Val()
	} else if !isServerError(err) {
		return f, err
	}
	f.connections = c.connections(n)
	return f, nil
}

// read takes what it needs from the answer to INFO.
func (f *facts) read(info string) {
	for line := range strings.Lines(info) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		switch name {
		case "run_id":
			f.runID = value
		case "role":
			f.role = value
		case "uptime_in_seconds":
			f.uptime = number(value)
		case "maxmemory":
			f.maxMemory = number(value)
		case "maxmemory_policy":
			f.policy = value
		case "aof_enabled":
			f.appendOnly = value
		case "evicted_keys":
			f.evicted = number(value)
		}
	}
}

// readConfig asks CONFIG for what INFO did not say.
func (f *facts) readConfig(ctx context.Context, n node) {
	if f.policy == "" {
		if got, err := n.ConfigGet(ctx, "maxmemory-policy").Result(); err == nil {
			f.policy = got["maxmemory-policy"]
		}
	}
	if f.maxMemory < 0 {
		if got, err := n.ConfigGet(ctx, "maxmemory").Result(); err == nil {
			f.maxMemory = number(got["maxmemory"])
		}
	}
	if f.appendOnly == "" {
		if got, err := n.ConfigGet(ctx, "appendonly").Result(); err == nil {
			f.appendOnly = map[string]string{"yes": "1", "no": "0"}[got["appendonly"]]
		}
	}
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// warnings are sentences for operators about settings that lose keys.
func (f *facts) warnings() []string {
	var w []string
	if f.role == "slave" {
		w = append(w, "this is a replica: what it shows may be late, and it refuses writes")
	}
	if f.maxMemory > 0 && f.policy != "" && f.policy != "noeviction" {
		w = append(w, "maxmemory-policy "+netreason.Short(f.policy)+" evicts liveness keys under pressure; set noeviction")
	}
	if f.evicted > 0 {
		w = append(w, "keys were evicted: a missing key does not mean an ended session")
	}
	if f.appendOnly == "0" {
		w = append(w, "appendonly is off: a crash loses what was written since the last snapshot")
	}
	return w
}

// changed says why absence means nothing for a while after this answer, or ""
// if it goes on meaning what it did.
func (f *facts) changed(before facts) string {
	switch {
	case f.runID != "" && before.runID != "" && f.runID != before.runID:
		if f.uptime >= 0 && before.uptime >= 0 && f.uptime < before.uptime {
			return "restarted"
		}
		return "another server answers"
	case f.role != before.role && f.role != "" && before.role != "":
		return "role changed from " + before.role + " to " + f.role
	case f.uptime >= 0 && f.uptime < before.uptime:
		return "restarted"
	case f.connections != before.connections:
		return "reconnected"
	}
	return ""
}

// changed compares with the survey of the poll before.
func (s *survey) changed(before *survey) string {
	if before == nil {
		return ""
	}
	if s.topology != before.topology && s.topology != 0 && before.topology != 0 {
		return "cluster topology changed"
	}
	for _, n := range s.nodes {
		old, ok := before.facts[n.addr]
		if !ok {
			return "cluster topology changed"
		}
		now := s.facts[n.addr]
		if reason := now.changed(old); reason != "" {
			return reason
		}
	}
	if len(s.nodes) != len(before.nodes) {
		return "cluster topology changed"
	}
	return ""
}

// topologyOf is a fingerprint of who owns which slots.
func topologyOf(ctx context.Context, n node) uint64 {
	//lint:ignore SA1019 ClusterShards needs Redis 7; Redis 6 knows the slots alone
	slots, err := n.ClusterSlots(ctx).Result()
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	for _, s := range slots {
		if len(s.Nodes) > 0 {
			fmt.Fprintf(h, "%d-%d %s\n", s.Start, s.End, s.Nodes[0].ID)
		}
	}
	return h.Sum64()
}

// isServerError tells an error answer from no answer.
func isServerError(err error) bool {
	var server redis.Error
	return errors.As(err, &server)
}
