package natsbus

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Dumps that nobody asked for stand in the object store under names of their own:
// the session's, and when they were taken.
const (
	keptPrefix   = "taken-"
	keptMetaRoot = "$O." + wire.DumpsBucket + ".M."
)

// keptDump is one of them.
type keptDump struct {
	name    string
	session watchdog.ID
	stamp   string
}

// KeepDump keeps a dump that nobody asked for, where KeptDumps finds it, and says
// so to who listens. Of a session the newest wire.KeptDumps stand, for as long as
// the object store keeps them.
func (c *Commands) KeepDump(ctx context.Context, d wire.Dump) error {
	d.By, d.Command = cmp.Or(d.By, c.options.Name), ""
	d.Cut(wire.MaxKeptDumpBytes)
	conn, err := c.js.door.await(ctx, c.js.link)
	if err != nil {
		return plainly(err)
	}
	text := d.Text
	d.Object = fmt.Sprintf("%s%s.%013d", keptPrefix, wire.BucketKey(d.Session), max(d.At.UnixMilli(), 0))
	d.Bytes, d.Text = int64(len(text)), nil
	header, err := wire.EncodeDump(d)
	if err != nil {
		return err
	}
	err = c.unlessDenied(ctx, func(ctx context.Context) error {
		store, err := c.dumpStore(ctx, conn, true)
		if err != nil {
			return err
		}
		if err := makeRoom(ctx, store, int64(len(text))); err != nil {
			return err
		}
		if _, err = store.Put(ctx, jetstream.ObjectMeta{Name: d.Object, Description: string(header)}, strings.NewReader(string(text))); err != nil {
			return err
		}
		kept, err := c.listKept(ctx, conn, d.Session)
		for _, old := range kept[min(len(kept), wire.KeptDumps):] {
			err = errors.Join(err, store.Delete(ctx, old.name))
		}
		return err
	})
	if err != nil {
		return plainly(err)
	}
	return plainly(c.js.publish(ctx, conn, wire.DumpSubject(d.Session), header))
}

// KeptDumps gives the dumps that were kept of a session, of all if id is empty,
// the newest first and no more than wire.KeptDumpsShown; those that are had
// already are left out. It makes nothing on the server. What is no dump is passed
// over.
func (c *Commands) KeptDumps(ctx context.Context, id watchdog.ID, had func(wire.Dump) bool) ([]wire.Dump, error) {
	conn, err := c.atHand(ctx)
	if err != nil {
		return nil, plainly(err)
	}
	kept, err := c.listKept(ctx, conn, id)
	if err != nil {
		return nil, plainly(err)
	}
	var out []wire.Dump
	for _, k := range kept[:min(len(kept), wire.KeptDumpsShown)] {
		d, found, err := c.readKept(ctx, conn, k, had)
		if err != nil {
			return out, plainly(err)
		}
		if found {
			out = append(out, d)
		}
	}
	return out, nil
}

// atHand gives the connection, and does not wait for a server that is known to be
// away.
func (c *Commands) atHand(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for ctx.Err() == nil && c.Link().Phase != watchdog.LinkDown {
			select {
			case <-t.C:
			case <-ctx.Done():
			}
		}
		cancel()
	}()
	return c.js.door.await(ctx, c.js.link)
}

// listKept names what stands, the newest first. It asks for names alone, which
// makes nothing on the server.
func (c *Commands) listKept(ctx context.Context, conn *conn, id watchdog.ID) ([]keptDump, error) {
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err := c.js.api(ctx, conn, "STREAM.INFO.OBJ_"+wire.DumpsBucket, map[string]string{"subjects_filter": keptMetaRoot + ">"}, &info)
	if isFault(err, faultNoStream) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []keptDump
	for subject := range info.State.Subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, keptMetaRoot))
		rest, ours := strings.CutPrefix(string(name), keptPrefix)
		session, stamp, stamped := strings.Cut(rest, ".")
		text, badID := base64.RawURLEncoding.DecodeString(session)
		if err != nil || badID != nil || !ours || !stamped || id != "" && watchdog.ID(text) != id {
			continue
		}
		kept = append(kept, keptDump{string(name), watchdog.ID(text), stamp})
	}
	slices.SortFunc(kept, func(a, b keptDump) int {
		return cmp.Or(strings.Compare(b.stamp, a.stamp), strings.Compare(a.name, b.name))
	})
	return kept, nil
}

// readKept reads a dump message by message, for a reader of the client library
// would make a consumer. found is false for one that is had, gone, or no dump.
func (c *Commands) readKept(ctx context.Context, conn *conn, k keptDump, had func(wire.Dump) bool) (d wire.Dump, found bool, err error) {
	stream := "OBJ_" + wire.DumpsBucket
	m, found, err := c.js.message(ctx, conn, stream, sought{Last: keptMetaRoot + base64.URLEncoding.EncodeToString([]byte(k.name))})
	if err != nil || !found {
		return d, false, err
	}
	var meta struct {
		Description string `json:"description"`
		NUID        string `json:"nuid"`
		Deleted     bool   `json:"deleted"`
	}
	if json.Unmarshal(m.Data, &meta) != nil || meta.Deleted || meta.NUID == "" || strings.ContainsAny(meta.NUID, ".*> ") {
		return d, false, nil
	}
	d, err = wire.DecodeDump(k.session, []byte(meta.Description))
	if err != nil || d.Object != k.name || d.Command != "" || d.Bytes > wire.MaxKeptDumpBytes || had(d) {
		return wire.Dump{}, false, nil
	}
	text := make([]byte, 0, d.Bytes)
	for from := uint64(1); int64(len(text)) < d.Bytes; {
		chunk, found, err := c.js.message(ctx, conn, stream, sought{Sequence: from, Next: "$O." + wire.DumpsBucket + ".C." + meta.NUID})
		if err != nil || !found || len(chunk.Data) == 0 {
			return wire.Dump{}, false, err
		}
		text, from = append(text, chunk.Data...), chunk.Sequence+1
	}
	if int64(len(text)) != d.Bytes {
		return wire.Dump{}, false, nil
	}
	d.Text, d.Object = text, ""
	return d, true, nil
}
