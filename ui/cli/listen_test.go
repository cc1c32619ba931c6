package cli

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// listen subscribes over a bare socket and tells each message. It returns once
// the server has the subscription.
func listen(t *testing.T, address, subject string, heard chan<- struct{}) (stop func()) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "CONNECT {\"verbose\":false}\r\nSUB %s 1\r\nPING\r\n", subject)
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for in := bufio.NewScanner(c); in.Scan(); {
			switch line := in.Text(); {
			case strings.HasPrefix(line, "PONG"):
				close(ready)
			case strings.HasPrefix(line, "PING"):
				fmt.Fprint(c, "PONG\r\n")
			case strings.HasPrefix(line, "MSG"):
				heard <- struct{}{}
			}
		}
	}()
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Fatal("the server does not take the subscription")
	}
	return func() {
		c.Close()
		<-done
	}
}
