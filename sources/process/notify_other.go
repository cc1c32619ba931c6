//go:build unix && !linux

package process

import (
	"net"

	"golang.org/x/sys/unix"
)

// credentialsKnown: here the kernel does not name the sender of a datagram; that
// only our user can reach the socket is all that protects it.
const credentialsKnown = false

const truncatedFlag = unix.MSG_TRUNC

func controlLength() int { return 4 << 10 }

func askCredentials(*net.UnixConn) error { return nil }

func readControl(control []byte) (sender int, files []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, nil
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			files = append(files, fds...)
		}
	}
	return 0, files
}

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}
