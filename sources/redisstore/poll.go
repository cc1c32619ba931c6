package redisstore

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

const (
	// maxValue is the size of the largest beat; see the wire format.
	maxValue = 16 << 10
	// keysPerMGet is large enough to make the round trip cheap, and small
	// enough not to hold up the server's other clients.
	keysPerMGet = 1000
	// mgetBurst is how many MGETs are under way together, so that the server
	// works while we read. A slow link gets one at a time.
	mgetBurst = 8
	// calmPolls is how many good polls end the caution after a time-out.
	calmPolls = 20
	// keysPerLook is how many new keys are asked about in one pipeline.
	keysPerLook = 500
	// goneMemory is how long a key that went is still asked for.
	goneMemory = 10 * time.Minute
)

// asked is an error together with the command that it answers.
type asked struct {
	command string
	err     error
}

func (a asked) Error() string { return a.command + ": " + a.err.Error() }
func (a asked) Unwrap() error { return a.err }

// poller makes one poll after another. One goroutine owns it.
type poller struct {
	target *target
	client *client
	clock  watchdog.Clock
	out    *outbox
	leases *leaseWatch // nil: nobody wants to know

	table *keyTable
	scan  scanner
	seed  maphash.Seed
	last  *survey // of the last poll that got one

	number   uint64        // of this poll
	now      time.Duration // Mono at which this poll began; then of its answers
	lastGood time.Duration // Mono of the last good poll; negative none
	careful  int           // polls for which bursts are avoided
	weighAll bool          // a value may be too large to be read: ask lengths first
	shed     int           // new keys beyond MaxKeys, in the present scan cycle
	full     bool          // there were such keys in the last cycle

	absent []int32
	stale  []int32 // changed, but not watched without a gap
	asking []int32
	keys   []any
	fresh  []freshKey
	bursts [mgetBurst]burst
}

// burst is the memory of one MGET under way.
type burst struct {
	args  []any
	reply replyBuffer
	first int
}

// freshKey is a key met for the first time.
type freshKey struct {
	key    string
	left   time.Duration // PTTL; negative none or not known
	length int64         // -1 not known
}

func newPoller(t *target, clock watchdog.Clock, out *outbox) *poller {
	p := &poller{
		target: t, clock: clock, out: out,
		table: newKeyTable(t.Cluster), seed: maphash.MakeSeed(), lastGood: -1,
	}
	p.scan.restart()
	return p
}

// read is the part of a poll that follows the survey: all known values, then
// keys not known yet. It tells nothing about absence unless all of it worked.
func (p *poller) read(ctx context.Context, v *survey) error {
	p.number++
	p.now = p.clock.Now().Mono
	p.absent, p.stale = p.absent[:0], p.stale[:0]
	if p.weighAll {
		if err := p.weigh(ctx); err != nil {
			return err
		}
	}
	if err := p.readKnown(ctx); err != nil {
		return p.afterFailure(err)
	}
	if err := p.readStale(ctx); err != nil {
		return p.afterFailure(err)
	}
	if err := p.readGiants(ctx); err != nil {
		return p.afterFailure(err)
	}
	p.scan.begin(v, p.table.found(p.number))
	if err := p.scan.run(ctx, p.target.PollInterval, func(keys []string) error { return p.meet(ctx, keys) }); err != nil {
		return p.afterFailure(err)
	}
	p.now = p.clock.Now().Mono
	p.tellAbsent()
	p.table.forgetGone(p.now - goneMemory)
	p.lastGood = p.now
	p.careful = max(p.careful-1, 0)
	if p.scan.ended() {
		p.full, p.shed = p.shed > 0, 0
	}
	return nil
}

// afterFailure makes the next poll more careful if an answer was too large or
// too slow.
func (p *poller) afterFailure(err error) error {
	large := errors.Is(err, errReplyTooLarge)
	if large || explain(err, "").timeout {
		p.careful, p.weighAll = calmPolls, true
	}
	return err
}

// readKnown asks for the value of every known key.
func (p *poller) readKnown(ctx context.Context) error {
	p.asking, p.keys = p.asking[:0], p.keys[:0]
	add := func(i int32) {
		if p.table.entries[i].kind == keyBeat {
			p.asking = append(p.asking, i)
			p.keys = append(p.keys, p.table.keys[i])
		}
	}
	if p.table.withSlot {
		for _, i := range p.table.order() {
			add(i)
		}
	} else {
		for i := range p.table.entries {
			add(int32(i))
		}
	}
	return p.mget(ctx, p.keys, func(i int, value []byte) { p.look(p.asking[i], value) })
}

// look compares the value of a known key with what it was.
func (p *poller) look(i int32, value []byte) {
	if value == nil {
		p.absent = append(p.absent, i)
		return
	}
	e := &p.table.entries[i]
	hash := maphash.Bytes(p.seed, value)
	changed, wasGone := hash != e.hash, e.missed > 0
	e.hash, e.lastSeen, e.poll, e.missed = hash, p.now, p.number, 0
	switch {
	case changed && len(value) > maxValue:
		e.kind, e.beat, e.hash = keyGiant, false, uint64(len(value))
		p.out.refuse(watchdog.RefusedSize, p.table.key(i), value, len(value), p.now)
	case changed && p.gap():
		p.stale = append(p.stale, i)
	case changed:
		e.beat = p.out.value(p.table.key(i), value, p.now, watchdog.AgeExact, 0)
	case wasGone && e.beat:
		p.out.back(p.table.key(i), p.now)
	case e.beat:
		p.out.standing(p.table.key(i), value, p.now)
	}
}

// gap reports whether the last good poll is too long ago to call a change exact.
func (p *poller) gap() bool {
	return p.lastGood < 0 || p.now-p.lastGood > 2*p.target.PollInterval+ioLimit
}

// readStale asks again for keys that changed while nobody looked, now with
// their PTTL, as at first sight.
func (p *poller) readStale(ctx context.Context) error {
	for start := 0; start < len(p.stale); start += keysPerLook {
		part := p.stale[start:min(start+keysPerLook, len(p.stale))]
		pipe := p.client.Pipeline()
		gets, lefts := make([]*redis.StringCmd, len(part)), make([]*redis.DurationCmd, len(part))
		for n, i := range part {
			gets[n], lefts[n] = pipe.Get(ctx, p.table.key(i)), pipe.PTTL(ctx, p.table.key(i))
		}
		_, _ = pipe.Exec(ctx)
		for n, i := range part {
			value, err := gets[n].Bytes()
			if err != nil && !isServerError(err) {
				return asked{"GET", err}
			}
			if err != nil {
				p.table.entries[i].hash = 0 // it went in this moment; if it comes back, it is new
				continue
			}
			kind, age := p.age(lefts[n])
			e := &p.table.entries[i]
			e.hash = maphash.Bytes(p.seed, value)
			e.beat = p.out.value(p.table.key(i), value, p.now, kind, age)
		}
	}
	return nil
}

// age estimates how old a value is from the time that its key has left.
func (p *poller) age(left *redis.DurationCmd) (watchdog.AgeKind, time.Duration) {
	if left.Err() != nil {
		return watchdog.AgeUnknown, 0
	}
	return ageOf(left.Val(), p.target.RedisTTL)
}

// ageOf is ttl - left, if that can be the age of a key.
func ageOf(left, ttl time.Duration) (watchdog.AgeKind, time.Duration) {
	if left <= 0 || left > ttl {
		return watchdog.AgeUnknown, 0
	}
	return watchdog.AgeEstimated, ttl - left
}

// tellAbsent counts the keys that this poll did not find. It is called after a
// good poll only.
func (p *poller) tellAbsent() {
	for _, i := range p.absent {
		e := &p.table.entries[i]
		if e.missed >= 2 {
			continue
		}
		if e.missed++; e.missed == 1 {
			e.goneAt = p.now
		}
		if e.beat {
			p.out.gone(p.table.key(i), e.lastSeen, int(e.missed), p.now)
		}
	}
}

// meet looks at keys that a SCAN returned and takes up the new ones.
func (p *poller) meet(ctx context.Context, keys []string) error {
	p.fresh = p.fresh[:0]
	for _, key := range keys {
		if p.table.has(key) {
			continue
		}
		if p.table.len()+len(p.fresh) >= p.target.MaxKeys {
			p.table.forgetGone(p.now + 1)
			if p.table.len()+len(p.fresh) >= p.target.MaxKeys {
				p.shed++
				continue
			}
		}
		p.fresh = append(p.fresh, freshKey{key: key, left: -1, length: -1})
	}
	for start := 0; start < len(p.fresh); start += keysPerLook {
		if err := p.meetPart(ctx, p.fresh[start:min(start+keysPerLook, len(p.fresh))]); err != nil {
			return err
		}
	}
	return nil
}

// meetPart asks for the length and the TTL of new keys, then for the values of
// those that can be beats.
func (p *poller) meetPart(ctx context.Context, part []freshKey) error {
	pipe := p.client.Pipeline()
	lengths, lefts := make([]*redis.IntCmd, len(part)), make([]*redis.DurationCmd, len(part))
	for i := range part {
		lengths[i], lefts[i] = pipe.StrLen(ctx, part[i].key), pipe.PTTL(ctx, part[i].key)
	}
	_, _ = pipe.Exec(ctx)
	var keys []any
	var askedFor []int
	for i := range part {
		part[i].length = lengths[i].Val()
		if err := lengths[i].Err(); err != nil {
			if !isServerError(err) {
				return asked{"STRLEN", err}
			}
			if explain(err, "").kind != failedDenied {
				continue // of another type, or moved: the next cycle meets it again
			}
			part[i].length = -1
		}
		switch {
		case part[i].length > maxValue:
			p.add(part[i].key, entry{kind: keyGiant, hash: uint64(part[i].length)})
			p.out.refuse(watchdog.RefusedSize, part[i].key, nil, int(part[i].length), p.now)
		default:
			keys, askedFor = append(keys, part[i].key), append(askedFor, i)
		}
	}
	return p.mget(ctx, keys, func(n int, value []byte) {
		if value == nil || p.table.has(part[askedFor[n]].key) {
			return // gone, or named twice by SCAN
		}
		i := askedFor[n]
		kind, age := p.age(lefts[i])
		beat := p.out.value(part[i].key, value, p.now, kind, age)
		p.add(part[i].key, entry{hash: maphash.Bytes(p.seed, value), beat: beat})
	})
}

func (p *poller) add(key string, e entry) {
	if p.table.has(key) {
		return
	}
	e.lastSeen, e.poll = p.now, p.number
	p.table.add(key, e)
	p.scan.added++
	if p.leases != nil {
		p.leases.note(key)
	}
}

// readGiants asks for the lengths of values that are too large for beats. One
// that has shrunk is read by the next poll.
func (p *poller) readGiants(ctx context.Context) error {
	return p.lengths(ctx, keyGiant, func(i int32, length int64) {
		e := &p.table.entries[i]
		switch {
		case length <= maxValue: // gone, or small enough now: the next poll reads it
			e.kind, e.hash = keyBeat, 0
			return
		case uint64(length) != e.hash:
			e.hash = uint64(length)
			p.out.refuse(watchdog.RefusedSize, p.table.key(i), nil, int(length), p.now)
		}
		e.lastSeen, e.poll, e.missed = p.now, p.number, 0
	})
}

// weigh asks for the length of every value, because one of them made the last
// poll fail.
func (p *poller) weigh(ctx context.Context) error {
	err := p.lengths(ctx, keyBeat, func(i int32, length int64) {
		if length > maxValue {
			e := &p.table.entries[i]
			e.kind, e.beat, e.hash = keyGiant, false, uint64(length)
			p.out.refuse(watchdog.RefusedSize, p.table.key(i), nil, int(length), p.now)
		}
	})
	if err == nil {
		p.weighAll = false
	}
	return err
}

// lengths calls visit with the length of each value of one kind; 0 is a key
// that is missing or holds no string.
func (p *poller) lengths(ctx context.Context, kind keyKind, visit func(i int32, length int64)) error {
	var part []int32
	ask := func() error {
		pipe := p.client.Pipeline()
		answers := make([]*redis.IntCmd, len(part))
		for n, i := range part {
			answers[n] = pipe.StrLen(ctx, p.table.key(i))
		}
		_, _ = pipe.Exec(ctx)
		for n, i := range part {
			err := answers[n].Err()
			if err != nil && !isServerError(err) {
				return asked{"STRLEN", err}
			}
			if err == nil || redis.HasErrorPrefix(err, "WRONGTYPE") {
				visit(i, answers[n].Val())
			}
		}
		part = part[:0]
		return nil
	}
	for i := range p.table.entries {
		if p.table.entries[i].kind != kind {
			continue
		}
		if part = append(part, int32(i)); len(part) == keysPerMGet {
			if err := ask(); err != nil {
				return err
			}
		}
	}
	if len(part) == 0 {
		return nil
	}
	return ask()
}

// mget calls visit with the value of each key, nil for one that is missing or
// no string. The value is good during the call only.
func (p *poller) mget(ctx context.Context, keys []any, visit func(i int, value []byte)) error {
	if p.client.cluster != nil {
		return p.mgetBySlot(ctx, keys, visit)
	}
	width := mgetBurst
	if p.careful > 0 {
		width = 1
	}
	for first := 0; first < len(keys); {
		pipe := p.client.Pipeline()
		sent := 0
		for ; sent < width && first < len(keys); sent++ {
			last := min(first+keysPerMGet, len(keys))
			b := &p.bursts[sent]
			b.first = first
			b.args = append(append(b.args[:0], "mget"), keys[first:last]...)
			b.reply.reset((last - first) * (maxValue + 64))
			_ = pipe.Process(ctx, redis.NewRawWriteToCmd(ctx, &b.reply, b.args...))
			first = last
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return asked{"MGET", err}
		}
		p.now = p.clock.Now().Mono
		for n := range sent {
			b := &p.bursts[n]
			err := b.reply.values(len(b.args)-1, func(i int, value []byte) { visit(b.first+i, value) })
			if err != nil {
				return asked{"MGET", err}
			}
		}
	}
	return nil
}

// mgetBySlot is mget for a Cluster, where one MGET may name keys of one slot
// only. Keys of one slot should stand together.
func (p *poller) mgetBySlot(ctx context.Context, keys []any, visit func(i int, value []byte)) error {
	const commands = 1000
	for first := 0; first < len(keys); {
		pipe := p.client.Pipeline()
		var parts []*redis.SliceCmd
		var starts []int
		for len(parts) < commands && first < len(keys) {
			last := first + 1
			for slot := slotOf(keys[first].(string)); last < len(keys) && last-first < keysPerMGet && slotOf(keys[last].(string)) == slot; {
				last++
			}
			cmd := redis.NewSliceCmd(ctx, append([]any{"mget"}, keys[first:last]...)...)
			_ = pipe.Process(ctx, cmd)
			parts, starts = append(parts, cmd), append(starts, first)
			first = last
		}
		_, _ = pipe.Exec(ctx)
		p.now = p.clock.Now().Mono
		for n, cmd := range parts {
			if err := cmd.Err(); err != nil {
				return asked{"MGET", err}
			}
			for i, v := range cmd.Val() {
				if text, ok := v.(string); ok {
					visit(starts[n]+i, []byte(text))
				} else {
					visit(starts[n]+i, nil)
				}
			}
		}
	}
	return nil
}

// ping is a round trip that reads no key.
func (p *poller) ping(ctx context.Context) error {
	if p.last == nil {
		return errors.New("not connected")
	}
	for _, n := range p.last.nodes {
		if err := n.Ping(ctx).Err(); err != nil && explain(err, "").kind != failedDenied {
			return p.client.at(n, err)
		}
	}
	return nil
}
