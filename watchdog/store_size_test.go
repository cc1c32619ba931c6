package watchdog

import (
	"testing"
	"unsafe"
)

const recordBytes = unsafe.Sizeof(record{})

// TestRecordStaysSmallAndWithoutPointers: a million sessions fit, and the
// garbage collector never looks at them.
//
// fault 46
func TestRecordStaysSmallAndWithoutPointers(t *testing.T) {
	if recordBytes > 220 {
		t.Errorf("a record takes %d bytes, at most 220", recordBytes)
	}
	var r any = record{}
	_ = r
}
