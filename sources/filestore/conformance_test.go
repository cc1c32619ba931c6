//go:build unix

package filestore

import (
	"errors"
	"os"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func TestLedgerConformance(t *testing.T) {
	sourcetest.RunLedger(t, sourcetest.LedgerHarness{
		Serve:     func(t testing.TB) sourcetest.LedgerStore { return &disk{path: pathOf(t)} },
		Exclusive: true,
	})
}

// disk is a place for one file.
type disk struct {
	path string
	file *File
}

func (d *disk) Open(t testing.TB) (watchdog.Ledger, func()) {
	t.Helper()
	f, err := Open(d.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.file = f
	return f.Ledger(wire.Seal{}, clock.System()), func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// PutTerminal writes what no ledger would, and tells as a write of ours does.
func (d *disk) PutTerminal(t testing.TB, id watchdog.ID, g watchdog.Generation, stored []byte) bool {
	t.Helper()
	return d.put(t, bucketRecords, recordKey(id, g), stored, change{id, g})
}

func (d *disk) PutHead(t testing.TB, id watchdog.ID, stored []byte) bool {
	t.Helper()
	return d.put(t, bucketHeads, []byte(id), stored, change{id: id})
}

func (d *disk) put(t testing.TB, bucket, key, stored []byte, c change) bool {
	t.Helper()
	if err := d.file.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, stored) }); err != nil {
		t.Fatal(err)
	}
	d.file.changed(c)
	return true
}

// Replace puts another file in the place of the open one.
func (d *disk) Replace(t testing.TB) {
	t.Helper()
	if err := errors.Join(os.Remove(d.path), create(d.path, layFile)); err != nil {
		t.Fatal(err)
	}
}
