//go:build !unix

package cli

import "io/fs"

const (
	noFollow          = 0
	permissionsMatter = false
)

// ownedByUs cannot be asked here; the directory's access list protects it.
func ownedByUs(fs.FileInfo) bool { return true }
