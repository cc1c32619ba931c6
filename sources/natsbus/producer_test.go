package natsbus_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
)

// producer speaks NATS by hand, so that tests have a publisher that shares no
// code with what they test and may send anything.
type producer struct {
	address        string // host:port
	user, password string

	conn   net.Conn
	reader *bufio.Reader
}

// send publishes and returns when the server has it. A connection that broke is
// made anew.
func (p *producer) send(t testing.TB, subject string, payload []byte) {
	t.Helper()
	var last error
	if !sourcetest.Eventually(60*time.Second, func() bool {
		if last = p.try(subject, payload); last != nil {
			p.close()
		}
		return last == nil
	}) {
		t.Fatalf("publishing on %q: %v", subject, last)
	}
}

func (p *producer) try(subject string, payload []byte) error {
	if p.conn == nil {
		if err := p.dial(); err != nil {
			return err
		}
	}
	_ = p.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(p.conn, "PUB %s %d\r\n%s\r\nPING\r\n", subject, len(payload), payload); err != nil {
		return err
	}
	for {
		line, err := p.reader.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "PONG"):
			return nil
		case strings.HasPrefix(line, "-ERR"):
			return fmt.Errorf("server: %s", strings.TrimSpace(line))
		case strings.HasPrefix(line, "PING"):
			_, _ = fmt.Fprint(p.conn, "PONG\r\n")
		}
	}
}

func (p *producer) dial() error {
	c, err := net.DialTimeout("tcp", p.address, time.Minute)
	if err != nil {
		return err
	}
	p.conn, p.reader = c, bufio.NewReader(c)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	who, err := json.Marshal(map[string]any{"verbose": false, "pedantic": false, "user": p.user, "pass": p.password})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "CONNECT %s\r\n", who)
	return err
}

func (p *producer) close() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// subscribe makes it a consumer too.
func (p *producer) subscribe(t testing.TB, subject string) {
	t.Helper()
	if err := p.dial(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.conn, "SUB %s 1\r\nPING\r\n", subject); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "PONG")
}

// expect reads until a line begins with the prefix.
func (p *producer) expect(t testing.TB, prefix string) {
	t.Helper()
	_ = p.conn.SetDeadline(time.Now().Add(time.Minute))
	for {
		line, err := p.reader.ReadString('\n')
		if err != nil {
			t.Fatalf("no %s came: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
}

// pour sends many commands at once.
func (p *producer) pour(t testing.TB, commands []byte) {
	t.Helper()
	if p.conn == nil {
		if err := p.dial(); err != nil {
			t.Fatal(err)
		}
	}
	_ = p.conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := p.conn.Write(append(commands, "PING\r\n"...)); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "PONG")
}
