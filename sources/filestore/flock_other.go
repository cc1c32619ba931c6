//go:build !unix

package filestore

import "os"

// unlock is for systems that tie the lock to the memory map.
func unlock(*os.File) {}
