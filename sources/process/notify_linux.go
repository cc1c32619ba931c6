package process

import (
	"net"

	"golang.org/x/sys/unix"
)

// credentialsKnown: the kernel names the sender of each message.
const credentialsKnown = true

const truncatedFlag = unix.MSG_TRUNC

// controlLength holds the sender and as many files as one message may pass.
func controlLength() int {
	return unix.CmsgSpace(unix.SizeofUcred) + unix.CmsgSpace(4*maxPassed)
}

// maxPassed is the kernel's own bound (SCM_MAX_FD).
const maxPassed = 253

// askCredentials has the kernel name the sender of each message.
func askCredentials(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}); err != nil {
		return err
	}
	return set
}

// readControl gives the sender, 0 if it is not named, and the passed files.
func readControl(control []byte) (sender int, files []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, nil
	}
	for i := range messages {
		switch messages[i].Header.Type {
		case unix.SCM_RIGHTS:
			if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
				files = append(files, fds...)
			}
		case unix.SCM_CREDENTIALS:
			if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
				sender = int(cred.Pid)
			}
		}
	}
	return sender, files
}

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}
