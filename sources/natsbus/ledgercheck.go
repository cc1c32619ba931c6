package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Names in the bucket SW_META besides the marker.
const (
	metaProgress = "progress" // ledgerState
	metaSelfTest = "selftest"
)

// ledgerState is how far the ledger was once seen. It never goes back.
type ledgerState struct {
	Identity  string `json:"identity"`   // when SW_TERMINAL was created
	Heads     string `json:"heads"`      // when KV_SW_HEADS was created
	Terminals uint64 `json:"terminals"`  // last sequence of SW_TERMINAL
	HeadsLast uint64 `json:"heads_last"` // last sequence of KV_SW_HEADS
	Replicas  int    `json:"-"`
}

// Check looks at identity, configuration and sequence, and tests on each new
// connection that the streams refuse what they must refuse. It creates what is
// missing if that has never been there.
func (l *Ledger) Check(ctx context.Context) error {
	c, err := l.js.door.await(ctx, l.js.link)
	if err != nil {
		return away(err)
	}
	if err := l.hold(ctx); err != nil {
		return err
	}
	defer l.release()
	return l.check(ctx, c)
}

// ready gives the connection when a check has passed on it.
func (l *Ledger) ready(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, away(err)
	}
	c, err := l.js.door.await(ctx, l.js.link)
	if err != nil {
		return nil, away(err)
	}
	if err := l.hold(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	if l.checked == c {
		return c, nil
	}
	return c, l.check(ctx, c)
}

// writable is ready for a ledger that may write.
func (l *Ledger) writable(ctx context.Context) (*conn, error) {
	if l.js.plan.ReadOnly {
		return nil, ErrReadOnly
	}
	return l.ready(ctx)
}

func (l *Ledger) hold(ctx context.Context) error {
	select {
	case l.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return away(ctx.Err())
	}
}

func (l *Ledger) release() { <-l.busy }

// check is called by who holds busy.
func (l *Ledger) check(ctx context.Context, c *conn) error {
	l.checked = nil
	err := l.inspect(ctx, c)
	if err == nil && !l.js.plan.ReadOnly && l.probed != c {
		err = l.selfTest(ctx, c)
	}
	if err != nil {
		return away(err)
	}
	l.checked = c
	l.status.Store(&ledgerStatus{identity: l.known.Identity, warning: durability(c, l.known.Replicas)})
	return nil
}

// inspect compares what is there with what must be.
func (l *Ledger) inspect(ctx context.Context, c *conn) error {
	if e := l.expect; e.Name != "" && e.Name != watchdog.AuthorityJetStream {
		return fmt.Errorf("the cluster's authority is %s, not jetstream; set ledger: auto", e)
	}
	named, found, err := l.marker(ctx, c)
	if err != nil {
		return err
	}
	if found && named.Name != watchdog.AuthorityJetStream {
		return fmt.Errorf("SW_META names %s as the cluster's authority, not jetstream; set ledger: auto", named)
	}
	// What others change meanwhile must look newer than what it is held against, so
	// this is read in the order opposite to that in which it is made and written.
	written, err := l.progress(ctx, c)
	if err != nil {
		return err
	}
	heads, headsErr := l.js.info(ctx, c, wire.BucketStream(wire.HeadsBucket))
	terminal, err := l.js.info(ctx, c, wire.TerminalStream)
	if isFault(err, faultNoStream) {
		if err := l.mayCreate(found, heads, headsErr); err != nil {
			return err
		}
		if err := l.create(ctx, c); err != nil {
			return err
		}
		heads, headsErr = l.js.info(ctx, c, wire.BucketStream(wire.HeadsBucket))
		terminal, err = l.js.info(ctx, c, wire.TerminalStream)
	}
	if err != nil {
		return err
	}
	if isFault(headsErr, faultNoStream) { // unless somebody has made them all just now
		if heads, headsErr = l.js.info(ctx, c, wire.BucketStream(wire.HeadsBucket)); isFault(headsErr, faultNoStream) {
			return vanished(wire.BucketStream(wire.HeadsBucket))
		}
	}
	if headsErr != nil {
		return headsErr
	}
	if err := errors.Join(terminal.faults(terminalConfig(0)), heads.faults(bucketConfig(wire.HeadsBucket, 0))); err != nil {
		return err
	}
	return l.compare(ctx, c, named.Identity, written, terminal, heads)
}

// mayCreate says why SW_TERMINAL, which is not there, must not be created. heads
// was asked for before: whoever has just made them all has not been at it then.
func (l *Ledger) mayCreate(named bool, heads streamInfo, headsErr error) error {
	if named || l.known.Identity != "" || l.expect != (watchdog.Authority{}) {
		return vanished(wire.TerminalStream)
	}
	if l.js.plan.ReadOnly {
		return errors.New("there is no stream SW_TERMINAL yet, and this bus is read-only: the first program that settles creates it")
	}
	switch {
	case isFault(headsErr, faultNoStream):
		return nil
	case headsErr == nil && heads.State.Last > 0:
		return vanished(wire.TerminalStream)
	}
	return headsErr
}

func vanished(stream string) error {
	return fmt.Errorf("the stream %s has vanished, and with it what it knew; %s", stream, restoreIt)
}

const restoreIt = "restore the server's store directory from a backup. Only if what had ended does not matter any more, remove the streams SW_TERMINAL, KV_SW_HEADS and KV_SW_META, and the key " +
	wire.AuthorityKey + " in Redis; then they are made anew"

// create makes what the ledger needs, SW_TERMINAL last: where that is, the
// others have been.
func (l *Ledger) create(ctx context.Context, c *conn) error {
	for _, bucket := range []string{wire.MetaBucket, wire.HeadsBucket} {
		if err := l.createBucket(ctx, c, bucket); err != nil {
			return err
		}
	}
	if err := l.createStream(ctx, c, terminalConfig(l.options.Replicas)); err != nil {
		return err
	}
	l.js.log.Info("the ledger's streams were created", "stream", wire.TerminalStream, "bucket", wire.HeadsBucket)
	return nil
}

func (l *Ledger) createBucket(ctx context.Context, c *conn, bucket string) error {
	return l.createStream(ctx, c, bucketConfig(bucket, l.options.Replicas))
}

// createStream creates a stream unless there is one of that name, which is
// looked at afterwards.
func (l *Ledger) createStream(ctx context.Context, c *conn, config streamConfig) error {
	var made streamInfo
	err := l.js.api(ctx, c, "STREAM.CREATE."+config.Name, config, &made)
	if isFault(err, faultNameInUse) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the stream %s cannot be created: %w", config.Name, plainly(err))
	}
	return nil
}

// progress is what was written down last of how far the ledger is.
type progress struct {
	ledgerState
	revision uint64
	noBucket bool // there is no SW_META
}

// compare holds identity and sequence against what was seen before, by us or by
// anybody who wrote it down.
func (l *Ledger) compare(ctx context.Context, c *conn, named string, written progress, terminal, heads streamInfo) error {
	now := ledgerState{
		Identity: terminal.identity(), Heads: heads.identity(),
		Terminals: terminal.State.Last, HeadsLast: heads.State.Last, Replicas: terminal.Config.Replicas,
	}
	if named != "" && named != now.Identity {
		return fmt.Errorf("SW_META names the stream SW_TERMINAL that was created at %s, and the one that is there was created at %s: it was made anew; %s",
			named, now.Identity, restoreIt)
	}
	for _, before := range []ledgerState{{Identity: l.expect.Identity}, l.known, written.ledgerState} {
		if err := now.follows(before); err != nil {
			return err
		}
	}
	if n := terminal.State; n.Messages != n.Last || n.Deleted > 0 {
		return fmt.Errorf("the stream SW_TERMINAL was emptied: of %d records that were written %d are left; %s", n.Last, n.Messages, restoreIt)
	}
	l.known = now
	if l.js.plan.ReadOnly {
		return nil
	}
	if written.noBucket {
		if err := l.restoreMeta(ctx, c); err != nil {
			return err
		}
	}
	if written.ledgerState == (ledgerState{Identity: now.Identity, Heads: now.Heads, Terminals: now.Terminals, HeadsLast: now.HeadsLast}) {
		return nil
	}
	return l.writeProgress(ctx, c, now, written.revision)
}

// follows says why s cannot have come after before.
func (s ledgerState) follows(before ledgerState) error {
	switch {
	case before.Identity != "" && before.Identity != s.Identity:
		return fmt.Errorf("the stream SW_TERMINAL that is there was created at %s, and the one that was used at %s: it was made anew; %s",
			s.Identity, before.Identity, restoreIt)
	case before.Heads != "" && before.Heads != s.Heads:
		return fmt.Errorf("the bucket SW_HEADS that is there was created at %s, and the one that was used at %s: it was made anew; %s",
			s.Heads, before.Heads, restoreIt)
	case s.Terminals < before.Terminals:
		return fmt.Errorf("the stream SW_TERMINAL stands at %d and stood at %d: it lost its newest records; %s", s.Terminals, before.Terminals, restoreIt)
	case s.HeadsLast < before.HeadsLast:
		return fmt.Errorf("the bucket SW_HEADS stands at %d and stood at %d: it lost its newest heads; %s", s.HeadsLast, before.HeadsLast, restoreIt)
	}
	return nil
}

// progress reads what was written down last.
func (l *Ledger) progress(ctx context.Context, c *conn) (progress, error) {
	m, found, err := l.js.message(ctx, c, metaStream, sought{Last: metaSubject(metaProgress)})
	if isFault(err, faultNoStream) {
		return progress{noBucket: true}, nil
	}
	p := progress{revision: m.Sequence}
	if err != nil || !found || isGrave(m) {
		return p, err
	}
	if err := json.Unmarshal(m.Data, &p.ledgerState); err != nil {
		return progress{}, fmt.Errorf("the key %s of the bucket SW_META cannot be read; find out who wrote it, then delete it: %w", metaProgress, err)
	}
	return p, nil
}

// restoreMeta makes the bucket SW_META anew if it has vanished: it is made before
// the others. Nothing in it decides by itself: the marker is named again, and what
// was told is told once more.
func (l *Ledger) restoreMeta(ctx context.Context, c *conn) error {
	if _, err := l.js.info(ctx, c, metaStream); !isFault(err, faultNoStream) {
		return err
	}
	l.js.log.Warn("the bucket SW_META has vanished; it is made anew")
	return l.createBucket(ctx, c, wire.MetaBucket)
}

// writeProgress writes down how far the ledger is. Who comes between has seen
// as much.
func (l *Ledger) writeProgress(ctx context.Context, c *conn, s ledgerState, rev uint64) error {
	payload, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = l.js.store(ctx, c, metaStream, metaSubject(metaProgress), payload, lastSequence(rev))
	if isFault(err, faultWrongSequence) {
		return nil
	}
	return err
}

// selfTest proves on the leaders that a second end is refused, and a write over
// a head that has changed.
func (l *Ledger) selfTest(ctx context.Context, c *conn) error {
	test := []byte(`{"selftest":true}`)
	_, err := l.js.store(ctx, c, wire.TerminalStream, wire.TerminalProbeSubject, test, nil)
	if err == nil {
		_, err = l.js.store(ctx, c, wire.TerminalStream, wire.TerminalProbeSubject, test, nil)
	}
	switch {
	case err == nil:
		return errors.New("the stream SW_TERMINAL takes a second message on one subject, so an end could be overwritten; find out who changed it")
	case !isFault(err, faultSubjectFull):
		return fmt.Errorf("whether the stream SW_TERMINAL refuses a second end is not known: %w", plainly(err))
	}
	subject := headsSelfTest
	m, _, err := l.js.message(ctx, c, wire.BucketStream(wire.HeadsBucket), sought{Last: subject})
	if err != nil {
		return err
	}
	_, err = l.js.store(ctx, c, wire.BucketStream(wire.HeadsBucket), subject, test, lastSequence(m.Sequence))
	if err == nil {
		_, err = l.js.store(ctx, c, wire.BucketStream(wire.HeadsBucket), subject, test, lastSequence(m.Sequence))
	}
	switch {
	case err == nil:
		return errors.New("the bucket SW_HEADS takes a write that is conditioned on what has changed, so two programs could give out one number")
	case !isFault(err, faultWrongSequence):
		return fmt.Errorf("whether the bucket SW_HEADS compares before it sets is not known: %w", plainly(err))
	}
	l.probed = c
	return nil
}

// headsSelfTest is no base64url of an id, so it is no session's.
var headsSelfTest = wire.BucketSubject(wire.HeadsBucket, metaSelfTest+".0")

// streamConfig is what of a stream's configuration matters. Fields that older
// servers do not know are left out where they are zero.
type streamConfig struct {
	Name          string        `json:"name"`
	Subjects      []string      `json:"subjects"`
	Retention     string        `json:"retention"`
	Storage       string        `json:"storage"`
	Discard       string        `json:"discard"`
	DiscardEach   bool          `json:"discard_new_per_subject,omitempty"`
	MaxEach       int64         `json:"max_msgs_per_subject"`
	MaxMessages   int64         `json:"max_msgs"`
	MaxBytes      int64         `json:"max_bytes"`
	MaxAge        time.Duration `json:"max_age"`
	MaxSize       int32         `json:"max_msg_size"`
	MaxConsumers  int           `json:"max_consumers"`
	Replicas      int           `json:"num_replicas"`
	DenyDelete    bool          `json:"deny_delete"`
	DenyPurge     bool          `json:"deny_purge"`
	Rollup        bool          `json:"allow_rollup_hdrs"`
	NoAck         bool          `json:"no_ack,omitempty"`
	Sealed        bool          `json:"sealed,omitempty"`
	MessageTTL    bool          `json:"allow_msg_ttl,omitempty"`
	Counter       bool          `json:"allow_msg_counter,omitempty"`
	Persistence   string        `json:"persist_mode,omitempty"`
	Mirror        any           `json:"mirror,omitempty"`
	Sources       []any         `json:"sources,omitempty"`
	Transform     any           `json:"subject_transform,omitempty"`
	DuplicateSpan time.Duration `json:"duplicate_window,omitempty"`
}

// terminalConfig takes one message for each subject, and lets go of none.
func terminalConfig(replicas int) streamConfig {
	c := keptForEver(wire.TerminalStream, wire.TerminalSubjectAll, replicas)
	c.Discard, c.DiscardEach, c.DenyPurge = "new", true, true
	return c
}

// bucketConfig is a KV bucket that keeps the newest value of each key.
func bucketConfig(bucket string, replicas int) streamConfig {
	return keptForEver(wire.BucketStream(bucket), wire.BucketSubject(bucket, ">"), replicas)
}

func keptForEver(name, subject string, replicas int) streamConfig {
	return streamConfig{
		Name: name, Subjects: []string{subject}, Retention: "limits", Storage: "file", Discard: "new", MaxEach: 1,
		MaxMessages: -1, MaxBytes: -1, MaxSize: -1, MaxConsumers: -1, Replicas: max(1, replicas), DenyDelete: true,
		DenyPurge: true,
	}
}

// streamInfo is what a server tells of a stream.
type streamInfo struct {
	Config  streamConfig `json:"config"`
	Created time.Time    `json:"created"`
	State   struct {
		Messages uint64 `json:"messages"`
		First    uint64 `json:"first_seq"`
		Last     uint64 `json:"last_seq"`
		Deleted  uint64 `json:"num_deleted"`
	} `json:"state"`
}

// identity tells a stream from one of the same name that comes after it.
func (i *streamInfo) identity() string { return i.Created.UTC().Format(time.RFC3339Nano) }

// faults lists the settings that would let something be lost that must stay.
func (i *streamInfo) faults(want streamConfig) error {
	got := i.Config
	var wrong []string
	differs := func(setting string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			wrong = append(wrong, fmt.Sprintf("%s is %v and must be %v", setting, got, want))
		}
	}
	differs("subjects", got.Subjects, want.Subjects)
	differs("retention", got.Retention, want.Retention)
	differs("storage", got.Storage, want.Storage)
	differs("discard", got.Discard, want.Discard)
	differs("discard_new_per_subject", got.DiscardEach, want.DiscardEach)
	differs("max_msgs_per_subject", got.MaxEach, want.MaxEach)
	differs("max_msgs", got.MaxMessages, want.MaxMessages)
	differs("max_bytes", got.MaxBytes, want.MaxBytes)
	differs("max_age", got.MaxAge, want.MaxAge)
	if got.MaxSize >= 0 && got.MaxSize < wire.MaxDocumentBytes {
		differs("max_msg_size", got.MaxSize, want.MaxSize)
	}
	differs("deny_delete", got.DenyDelete, want.DenyDelete)
	differs("deny_purge", got.DenyPurge, want.DenyPurge)
	differs("allow_rollup_hdrs", got.Rollup, want.Rollup)
	differs("no_ack", got.NoAck, false)
	differs("sealed", got.Sealed, false)
	differs("allow_msg_ttl", got.MessageTTL, false)
	differs("allow_msg_counter", got.Counter, false)
	if got.Persistence != "" {
		differs("persist_mode", got.Persistence, "default")
	}
	if got.Mirror != nil || len(got.Sources) > 0 || got.Transform != nil {
		wrong = append(wrong, "it is fed from another stream or changes subjects, and must not")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the configuration of the stream %s was changed: %s; set it back (nats stream edit %s) and find out who may change it",
		want.Name, strings.Join(wrong, ", "), want.Name)
}
