package watchdog

import (
	"hash/maphash"
	"time"
)

// The store keeps a million sessions in memory that the garbage collector
// never scans: records without pointers in slabs, text in an arena, an
// open-addressed index. Facts that few sessions have stand in side records.

const (
	slabBits = 12
	slabSize = 1 << slabBits
)

// moment is a Mono in tenths of a second, counted from the tracker's epoch and
// rounded up so that nothing that is measured from it is ever early.
type moment int32

const noMoment moment = -1 << 31

// never stands for a Mono that has not happened.
const never = time.Duration(-1 << 63)

type recordFlags uint16

const (
	flagWorkKnown    recordFlags = 1 << iota // idle_secs was published, or we see activity
	flagShown                                // has shown a task or credits at all
	flagChanged                              // a visible change was seen
	flagEndedByBeat                          // a completed or error beat
	flagKeyHeld                              // the store held this generation's key
	flagAgeEstimated                         // the last beat is a key at first sight
	flagAgeUnknown
	flagUptime     // uptime is known
	flagExtended   // its deadline stands later than the next beat's may: look at the next beat
	flagGrouped    // member of a correlated silence
	flagRedisAhead // Redis brought a beat that was written after the last one by NATS
	flagUnheard    // told of by the ledger or a supervisor: lastBeat is when
	flagAlerted    // an alert of its verdict, or of a crash loop, stands
	flagAnswered   // somebody answered the alert that tells of its verdict
	flagDismissed  // its bad end was acknowledged, and left the list
	// flagStartGuessed: what is known of the start is a guess from a key's time to
	// live. The truth lies between that and what an age of none gives, or beyond:
	// we do not know what its producer asks for.
	flagStartGuessed
)

// record is the main record of one session.
type record struct {
	lastBeat time.Duration // Mono; of the first sight if the age is estimated
	lastWork time.Duration // Mono; valid with flagWorkKnown
	credits  float64

	id, task, state uint32 // in the arena; state only for StateOther
	side            uint32 // 1 + index of the side record; 0 none
	generation      Generation
	birth           uint32 // number of its making; 0 not in use
	sched           uint32 // wheel tick at which it is looked at; 0 not scheduled
	uptime          uint32

	lastBy     [2]moment // last beat by NATS, by Redis
	lastChange moment
	taskAt     moment // last change of the task
	firstSeen  moment // of this generation
	stateAt    moment // first beat of the published state
	since      moment // of the verdict
	start      moment // estimate
	creditAt   moment
	doneAt     moment
	burn       float32 // credits a minute
	spent      float32 // the last step that the credits went down by
	rate       float32 // progress a minute
	done, of   uint32

	flags       recordFlags
	gaps        [gapCount]uint16
	ring        rings
	verdict     Verdict
	rule        ruleID
	pub         State
	wait        Wait
	carried     SourceSet
	parked      SourceSet // its deadline waits for the sight of these; 0 not parked
	gapN        uint8
	thresholds  uint16 // index into Tracker.thresholds
	keyPolls    uint8
	attention   Attention
	natsRunning uint8 // NATS beats saying running since the key was last seen, up to 2
}

// side holds the facts that only some sessions have.
type side struct {
	boot, host, agent, message string
	keyBoot                    string // boot id of who wrote the key in Redis
	natsBoot                   string // boot id of who spoke on NATS last
	oldBoots                   [4]string
	seq, pid                   int64
	interval, stallTimeout     time.Duration
	waitSince                  time.Duration
	waitMax                    time.Duration
	loopLag                    time.Duration
	wedgedAt                   time.Duration // never: not wedged
	keySeen, keyGoneAt         time.Duration
	estimatedAge               time.Duration
	terminal                   TerminalSeen
	supervised                 Supervised
	endedAt                    time.Duration
	lateBeats                  uint64
	maybeNew                   bool          // beats since its end could be of a new execution
	httpSilent                 time.Duration // Mono since which HTTP is silent while others carry it; 0 it is not
	behind                     behind
	takes                      OpSet // commands that its publisher said it takes, if takesSaid
	takesSaid                  bool
	overtaken                  [2]span // the executions before the head's, newest first
	firstSeen                  moment  // of the session, if an execution was overtaken; else noMoment
}

func newSide() side {
	return side{seq: -1, loopLag: -1, wedgedAt: never, keyGoneAt: never, keySeen: never, firstSeen: noMoment}
}

type store struct {
	slabs     [][]record
	used      int // records ever handed out
	free      []uint32
	count     int
	version   uint64 // changes when a session comes or goes
	removals  uint64
	births    uint32
	sides     []side
	freeSides []uint32
	text      arena
	index     index
}

func newStore() *store { return &store{index: newIndex()} }

func (s *store) at(n uint32) *record { return &s.slabs[n>>slabBits][n&(slabSize-1)] }

func (s *store) idOf(r *record) []byte { return s.text.get(r.id) }

// find gives the record of an id.
func (s *store) find(id []byte) (uint32, bool) {
	h := s.index.hash(id)
	return s.index.find(h, func(n uint32) bool { return string(s.text.get(s.at(n).id)) == string(id) })
}

// add makes a record for an id that has none.
func (s *store) add(id []byte) uint32 {
	var n uint32
	if k := len(s.free); k > 0 {
		n = s.free[k-1]
		s.free = s.free[:k-1]
	} else {
		n = uint32(s.used)
		s.used++
		if int(n>>slabBits) == len(s.slabs) {
			s.slabs = append(s.slabs, make([]record, slabSize))
		}
	}
	r := s.at(n)
	s.births++
	*r = record{birth: s.births, lastBeat: never, lastWork: never,
		lastBy: [2]moment{noMoment, noMoment}, lastChange: noMoment, taskAt: noMoment, creditAt: noMoment, doneAt: noMoment}
	r.id = s.text.put(0, id)
	s.index.insert(s.index.hash(id), n)
	s.count++
	s.version++
	return n
}

// remove forgets a session.
func (s *store) remove(n uint32) {
	r := s.at(n)
	h := s.index.hash(s.idOf(r))
	s.index.remove(h, n)
	s.text.release(r.id)
	s.text.release(r.task)
	s.text.release(r.state)
	if r.side != 0 {
		s.sides[r.side-1] = side{}
		s.freeSides = append(s.freeSides, r.side)
	}
	*r = record{}
	s.free = append(s.free, n)
	s.count--
	s.version++
	s.removals++
}

// sideOf gives the side record, or nil.
func (s *store) sideOf(r *record) *side {
	if r.side == 0 {
		return nil
	}
	return &s.sides[r.side-1]
}

// needSide gives the side record, made if there is none. The pointer is valid
// until the next call.
func (s *store) needSide(r *record) *side {
	if r.side == 0 {
		if k := len(s.freeSides); k > 0 {
			r.side = s.freeSides[k-1]
			s.freeSides = s.freeSides[:k-1]
		} else {
			s.sides = append(s.sides, side{})
			r.side = uint32(len(s.sides))
		}
		s.sides[r.side-1] = newSide()
	}
	return &s.sides[r.side-1]
}

// index maps the hash of an id to a record number. It is split in shards so
// that no single growth takes long.
type index struct {
	seed   maphash.Seed
	shards [256]shard
}

type shard struct {
	slots []uint64 // hash high half, record number + 1 low half; 0 empty
	count int
}

func newIndex() index { return index{seed: maphash.MakeSeed()} }

func (x *index) hash(id []byte) uint64 { return maphash.Bytes(x.seed, id) }

func (x *index) shard(h uint64) *shard { return &x.shards[h&255] }

func slotOf(h uint64, n int) int { return int(h>>32) & (n - 1) }

func (x *index) find(h uint64, same func(uint32) bool) (uint32, bool) {
	sh := x.shard(h)
	size := len(sh.slots)
	if size == 0 {
		return 0, false
	}
	for i := slotOf(h, size); ; i = (i + 1) & (size - 1) {
		e := sh.slots[i]
		if e == 0 {
			return 0, false
		}
		if e>>32 == h>>32 {
			if n := uint32(e) - 1; same(n) {
				return n, true
			}
		}
	}
}

func (x *index) insert(h uint64, n uint32) {
	sh := x.shard(h)
	if (sh.count+1)*4 > len(sh.slots)*3 {
		sh.grow()
	}
	sh.place(h&^0xffffffff | uint64(n+1))
	sh.count++
}

func (sh *shard) place(e uint64) {
	size := len(sh.slots)
	for i := slotOf(e, size); ; i = (i + 1) & (size - 1) {
		if sh.slots[i] == 0 {
			sh.slots[i] = e
			return
		}
	}
}

func (sh *shard) grow() {
	old := sh.slots
	sh.slots = make([]uint64, max(16, len(old)*2))
	for _, e := range old {
		if e != 0 {
			sh.place(e)
		}
	}
}

// remove deletes an entry and closes the gap it leaves.
func (x *index) remove(h uint64, n uint32) {
	sh := x.shard(h)
	size := len(sh.slots)
	for i := slotOf(h, size); sh.slots[i] != 0; i = (i + 1) & (size - 1) {
		if uint32(sh.slots[i]) != n+1 {
			continue
		}
		sh.count--
		for j := (i + 1) & (size - 1); ; j = (j + 1) & (size - 1) {
			e := sh.slots[j]
			if e == 0 {
				sh.slots[i] = 0
				return
			}
			home := slotOf(e, size)
			if (j-home)&(size-1) >= (j-i)&(size-1) {
				sh.slots[i] = e
				i = j
			}
		}
	}
}
