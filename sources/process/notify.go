package process

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// notifySocket is the datagram socket on which one session hears its child. It
// stands in a directory that only our user can enter; and a message counts only
// if the process that the kernel names as its sender belongs to the child.
type notifySocket struct {
	path    string
	conn    *net.UnixConn
	refused atomic.Uint64 // messages of strangers, or that could not be told
	done    sync.WaitGroup
}

// openNotify makes the socket in dir and hears until close. mine reports whether
// a process belongs to the child now; tell is given each message of such a one.
func openNotify(dir, name string, mine func(pid int) bool, tell func(notice)) (*notifySocket, error) {
	path := filepath.Join(dir, name)
	_ = os.Remove(path)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("the notify socket cannot be opened: %w", err)
	}
	n := &notifySocket{path: path, conn: conn}
	if err := askCredentials(conn); err != nil {
		n.close()
		return nil, fmt.Errorf("the notify socket cannot tell its senders: %w", err)
	}
	// A child under another user may write to it, if it can reach it.
	_ = os.Chmod(path, 0o666)
	n.done.Go(func() { n.hear(mine, tell) })
	return n, nil
}

func (n *notifySocket) close() {
	_ = n.conn.Close()
	_ = os.Remove(n.path)
	n.done.Wait()
}

func (n *notifySocket) hear(mine func(pid int) bool, tell func(notice)) {
	message := make([]byte, maxNotice)
	control := make([]byte, controlLength())
	for {
		size, used, flags, _, err := n.conn.ReadMsgUnix(message, control)
		if err != nil {
			return // closed
		}
		// Passed files are closed once the message is dealt with: that is what
		// tells a sender who asks for a barrier that it may go.
		sender, files := readControl(control[:used])
		if flags&truncatedFlag == 0 && (!credentialsKnown || sender > 0 && mine(sender)) {
			tell(parseNotice(message[:size]))
		} else {
			n.refused.Add(1)
		}
		closeFiles(files)
	}
}
