//go:build !unix

package guard

import "os"

// openOwn opens a file to append to.
func openOwn(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}
