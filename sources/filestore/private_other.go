//go:build !unix

package filestore

import (
	"io/fs"
	"os"
)

const (
	noFollow          = 0
	permissionsMatter = false
)

// ownedByUs cannot be asked here; the directory's access list protects it.
func ownedByUs(fs.FileInfo) bool { return true }

// unlock is for systems that tie the lock to the memory map.
func unlock(*os.File) {}
