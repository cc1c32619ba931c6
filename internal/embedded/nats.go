package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsReadyWithin bounds the start, recovery of a JetStream store included.
const natsReadyWithin = 15 * time.Second

// NATSOptions says what server to start. The zero value is a server without
// JetStream and without authentication on a random port.
type NATSOptions struct {
	// Port on the loopback interface; 0 takes any free one.
	Port int
	// JetStream keeps streams under StoreDir, with every write synced to the
	// disk before it is acknowledged (about half a millisecond a write).
	JetStream bool
	StoreDir  string
	// Volatile leaves the syncing out, for streams that need not outlive the process.
	Volatile bool
	// Users may connect; none lets everybody in.
	Users []NATSUser
	// Logger gets the server's warnings and errors; nil drops them.
	Logger *slog.Logger
}

// NATSUser is one who may connect, and the subjects that are allowed. Nil
// allows every subject, an empty list none.
type NATSUser struct {
	Name, Password     string
	Publish, Subscribe []string
}

// NATS is a running server.
type NATS struct {
	server *server.Server
	stop   sync.Once
}

// StartNATS starts a server and returns when it takes connections. A port that
// is in use, a store that cannot be opened and a start that takes too long are
// errors that say so.
func StartNATS(o NATSOptions) (*NATS, error) {
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(settings)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	log := &natsLog{out: o.Logger, fatal: make(chan string, 1)}
	srv.SetLoggerV2(log, false, false, false)
	n := &NATS{server: srv}
	go srv.Start()
	if err := n.await(log.fatal, o.Port); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// await returns when the server listens, or with the reason why it never will.
func (n *NATS) await(fatal <-chan string, port int) error {
	deadline := time.Now().Add(natsReadyWithin)
	for time.Now().Before(deadline) {
		if n.server.ReadyForConnections(50 * time.Millisecond) {
			return nil
		}
		select {
		case text := <-fatal:
			return startError(port, text)
		default:
		}
	}
	return fmt.Errorf("embedded NATS server: not ready after %v; the machine is very busy, or its store is very large", natsReadyWithin)
}

// startError finds out whether the port is the trouble; the server itself
// gives text only.
func startError(port int, text string) error {
	if port > 0 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("embedded NATS server: port %d cannot be opened: %w; stop what listens there, or choose another port", port, err)
		}
		_ = l.Close()
	}
	return errors.New("embedded NATS server: " + text)
}

// ClientURL is the address for clients, without a user.
func (n *NATS) ClientURL() string { return n.server.ClientURL() }

// Port is the port on which it listens.
func (n *NATS) Port() int {
	if a, ok := n.server.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// Close ends the server and all its connections, and waits for it. It may be
// called more than once.
func (n *NATS) Close() {
	n.stop.Do(func() {
		n.server.Shutdown()
		n.server.WaitForShutdown()
	})
}

func (o NATSOptions) settings() (*server.Options, error) {
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("embedded NATS server: port %d is not between 0 and 65535", o.Port)
	}
	if o.JetStream && o.StoreDir == "" {
		return nil, errors.New("embedded NATS server: JetStream needs a directory for its store")
	}
	s := &server.Options{
		ServerName: "sessionwatch-embedded",
		Host:       "127.0.0.1",
		Port:       o.Port,
		// Its signal handler would end our process on SIGTERM.
		NoSigs: true,
		NoLog:  true,
	}
	if o.Port == 0 {
		s.Port = server.RANDOM_PORT
	}
	if o.JetStream {
		s.JetStream = true
		s.StoreDir = o.StoreDir
		s.SyncAlways = !o.Volatile
	}
	for _, u := range o.Users {
		s.Users = append(s.Users, &server.User{
			Username: u.Name,
			Password: u.Password,
			Permissions: &server.Permissions{
				Publish:   allowed(u.Publish),
				Subscribe: allowed(u.Subscribe),
			},
		})
	}
	return s, nil
}

func allowed(subjects []string) *server.SubjectPermission {
	switch {
	case subjects == nil:
		return nil
	case len(subjects) == 0:
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects}
}

// natsLog is the server's logger. A fatal message of the server's own logger
// would end the process; here it fails the start.
type natsLog struct {
	out   *slog.Logger
	fatal chan string
}

func (l *natsLog) write(level slog.Level, format string, args []any) {
	if l.out == nil || !l.out.Enabled(context.Background(), level) {
		return
	}
	l.out.Log(context.Background(), level, "embedded NATS server", "text", fmt.Sprintf(format, args...))
}

func (l *natsLog) Fatalf(format string, args ...any) {
	l.write(slog.LevelError, format, args)
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default:
	}
}

func (l *natsLog) Errorf(format string, args ...any)  { l.write(slog.LevelError, format, args) }
func (l *natsLog) Warnf(format string, args ...any)   { l.write(slog.LevelWarn, format, args) }
func (l *natsLog) Noticef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }
func (l *natsLog) Debugf(string, ...any)              {}
func (l *natsLog) Tracef(string, ...any)              {}
