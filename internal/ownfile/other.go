//go:build !unix

package ownfile

import "io/fs"

const (
	// NoFollow are flags of os.OpenFile; there are none here.
	NoFollow = 0
	// PermissionsMatter says that the mode of a file tells who may read it.
	PermissionsMatter = false
)

// Ours cannot be asked here; the directory's access list protects the file.
func Ours(fs.FileInfo) bool { return true }
