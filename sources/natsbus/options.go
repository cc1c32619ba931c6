package natsbus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// DefaultURL is dialled when no address is given.
const DefaultURL = "nats://localhost:4222"

// Options say which servers to talk to, and who we are. The zero value means
// DefaultURL without authentication. Files are checked when a Bus or Publisher
// is opened and read again for every connection, so that renewed credentials
// are taken up.
type Options struct {
	// URLs of one server or of several of one cluster: nats://, tls://, ws://,
	// wss:// or host:port; each may be a list with commas. A user in them is
	// used unless one is given below; it is never shown.
	URLs   []string
	Origin string // where the address came from, for people: default, file, flag, NATS_URL
	Name   string // of the connection, seen by the server's operator; "sessionwatch" if empty

	// At most one of these ways to authenticate.
	CredsFile    string // JWT and seed, as nsc writes them
	NKeyFile     string // an NKey seed
	User         string
	Password     string
	PasswordFile string // replaces Password
	Token        string
	TokenFile    string // replaces Token

	TLS TLSOptions

	// ReadOnly refuses to publish anything at all.
	ReadOnly bool

	// dial replaces the network in tests.
	dial dialFunc
}

// TLSOptions name PEM files. Any of them demands TLS, whatever the URL says.
type TLSOptions struct {
	CAFile   string // replaces the system's roots
	CertFile string // with KeyFile: our own certificate
	KeyFile  string
}

func (t TLSOptions) set() bool { return t != TLSOptions{} }

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// secrets are what was read from the files of the options for one connection.
type secrets struct {
	password, token string
	jwt             string
	key             nkeys.KeyPair // signs the server's nonce; nil without creds or nkey
	tls             *tls.Config   // nil: TLS only if the server or the URL asks for it
}

// plan is a checked Options.
type plan struct {
	Options
	seeds []server
}

// plan checks o and reads its files once. Its errors are sentences that name
// the setting and never contain a secret.
func (o Options) plan() (*plan, error) {
	if o.Name == "" {
		o.Name = "sessionwatch"
	}
	if o.dial == nil {
		o.dial = new(net.Dialer).DialContext
	}
	p := &plan{Options: o}
	var errs []error
	ways := 0
	for _, given := range []bool{o.CredsFile != "", o.NKeyFile != "", o.User != "", o.Token != "" || o.TokenFile != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, errors.New("nats: creds_file, nkey_file, user and token_file exclude each other; leave one"))
	}
	if o.User == "" && (o.Password != "" || o.PasswordFile != "") {
		errs = append(errs, errors.New("nats.user: is empty although a password is given; name the user"))
	}
	seeds, err := parseServers(o.URLs, ways > 0)
	p.seeds = seeds
	errs = append(errs, err)
	_, err = p.secrets()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return p, nil
}

// secrets reads the files that the options name.
func (p *plan) secrets() (secrets, error) {
	s := secrets{password: p.Password, token: p.Token}
	var errs [5]error
	if p.PasswordFile != "" {
		s.password, errs[0] = secretLine("nats.password_file", p.PasswordFile)
	}
	if p.TokenFile != "" {
		s.token, errs[1] = secretLine("nats.token_file", p.TokenFile)
	}
	if p.CredsFile != "" {
		s.jwt, s.key, errs[2] = readCreds(p.CredsFile)
	}
	if p.NKeyFile != "" {
		s.key, errs[3] = readSeed(p.NKeyFile)
	}
	if p.TLS.set() {
		s.tls, errs[4] = p.TLS.read()
	}
	return s, errors.Join(errs[:]...)
}

// readFile reads a file that a setting names.
func readFile(setting, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return text, nil
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return nil, fmt.Errorf("%s: %s cannot be read: %w", setting, path, err)
}

func secretLine(setting, path string) (string, error) {
	text, err := readFile(setting, path)
	if err != nil {
		return "", err
	}
	line := strings.TrimRight(string(text), "\r\n")
	if line == "" {
		return "", fmt.Errorf("%s: %s is empty; write the secret into it", setting, path)
	}
	return line, nil
}

// The errors of the key library may quote what they read, so they go no
// further.

func readCreds(path string) (string, nkeys.KeyPair, error) {
	text, err := readFile("nats.creds_file", path)
	if err != nil {
		return "", nil, err
	}
	jwt, err := nkeys.ParseDecoratedJWT(text)
	if err != nil || strings.Count(jwt, ".") != 2 {
		return "", nil, fmt.Errorf("nats.creds_file: %s holds no user JWT; it must be a credentials file as nsc writes it", path)
	}
	key, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return "", nil, fmt.Errorf("nats.creds_file: %s holds no user seed (SU...); it must be a credentials file as nsc writes it", path)
	}
	return jwt, key, nil
}

func readSeed(path string) (nkeys.KeyPair, error) {
	text, err := readFile("nats.nkey_file", path)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("nats.nkey_file: %s holds no NKey seed (SU...)", path)
	}
	return key, nil
}

func (t TLSOptions) read() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := readFile("nats.tls.ca_file", t.CAFile)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("nats.tls.ca_file: %s holds no PEM certificate", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("nats.tls: cert_file and key_file belong together; give both or neither")
	}
	if t.CertFile == "" {
		return c, nil
	}
	cert, err := readFile("nats.tls.cert_file", t.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := readFile("nats.tls.key_file", t.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("nats.tls: %s and %s are no certificate and its key: %w", t.CertFile, t.KeyFile, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
