//go:build !unix

package filestore

import (
	"os"
	"time"
)

// unlock is for systems that tie the lock to the memory map.
func unlock(*os.File) {}

// lockWithin has no lock to wait for.
func lockWithin(*os.File, time.Duration) bool { return false }
