package sourcetest

import (
	"net"
	"testing"
)

// StartWay starts a way to the server at an address, on which a test can interfere,
// and gives the address at which it begins. Each connection is given to carry, with
// one of its own to the server: it is over when carry returns, or has closed near.
func StartWay(t testing.TB, to string, carry func(near, far net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = near.Close() }()
				far, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer func() { _ = far.Close() }()
				carry(near, far)
			}()
		}
	}()
	return l.Addr().String()
}
