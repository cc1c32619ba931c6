//go:build unix

package natsbus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/sources/natsbus"
	"github.com/sessionwatch/sessionwatch/sources/sourcetest"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// run opens a bus with any options.
func run(t *testing.T, o natsbus.Options) *sourcetest.Recorder {
	t.Helper()
	rec := &sourcetest.Recorder{}
	bus, err := natsbus.Open(o, rec, clock.System(), new(sourcetest.Log).Logger())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = bus.Run(t.Context()) })
	t.Cleanup(func() {
		bus.Close()
		wg.Wait()
	})
	return rec
}

func isUp(rec *sourcetest.Recorder) func() bool {
	return func() bool { return rec.Phase() == watchdog.LinkUp }
}

// says reports whether a reason was given that begins so.
func says(rec *sourcetest.Recorder, detail string) func() bool {
	return func() bool {
		for _, ev := range sourcetest.EventsOf[watchdog.LinkChanged](rec, 0) {
			if strings.HasPrefix(ev.Detail, detail) {
				return true
			}
		}
		return false
	}
}

// serveConfig starts a real server with a configuration.
func serveConfig(t *testing.T, text string) string {
	t.Helper()
	binary := sourcetest.RealBinary(t, "nats-server")
	port := sourcetest.FreePort(t)
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "host: 127.0.0.1\nport: %d\n%s", port, text), 0o600); err != nil {
		t.Fatal(err)
	}
	sourcetest.StartProcess(t, binary, port, "-c", config)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// authority makes certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key, a.file, _ = a.issue(t, "ca")
	return a
}

func (a *authority) issue(t *testing.T, name string) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind, suffix string, der []byte) string {
		path := filepath.Join(a.dir, name+suffix)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return cert, key, write("CERTIFICATE", ".pem", der), write("PRIVATE KEY", "-key.pem", keyDER)
}

func TestMutualTLS(t *testing.T) {
	t.Parallel() // it waits
	ca := newAuthority(t)
	_, _, serverCert, serverKey := ca.issue(t, "server")
	_, _, ourCert, ourKey := ca.issue(t, "client")
	address := serveConfig(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", serverCert, serverKey, ca.file))
	plain := serveConfig(t, "")

	t.Run("with both certificates", func(t *testing.T) {
		rec := run(t, natsbus.Options{URLs: []string{"tls://" + address},
			TLS: natsbus.TLSOptions{CAFile: ca.file, CertFile: ourCert, KeyFile: ourKey}})
		rec.Wait(t, 60*time.Second, "the link is up", isUp(rec))
	})
	t.Run("without ours", func(t *testing.T) {
		rec := run(t, natsbus.Options{URLs: []string{address}, TLS: natsbus.TLSOptions{CAFile: ca.file}})
		rec.Wait(t, 60*time.Second, "the reason", says(rec, "TLS: the server wants a certificate of ours that it trusts"))
	})
	t.Run("without its authority", func(t *testing.T) {
		rec := run(t, natsbus.Options{URLs: []string{"tls://" + address}})
		rec.Wait(t, 60*time.Second, "the reason", says(rec, "TLS: the certificate is signed by an unknown authority"))
	})
	t.Run("server without TLS", func(t *testing.T) {
		rec := run(t, natsbus.Options{URLs: []string{"tls://" + plain}})
		rec.Wait(t, 60*time.Second, "the reason", says(rec, "TLS: the server does not speak it"))
	})
}

func TestNKeyAndToken(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	byKey := serveConfig(t, fmt.Sprintf("authorization { users = [ { nkey: %s } ] }", public))
	rec := run(t, natsbus.Options{URLs: []string{byKey}, NKeyFile: file("nkey", string(seed))})
	rec.Wait(t, 60*time.Second, "the link is up with a key", isUp(rec))

	byToken := serveConfig(t, `authorization { token: "t0ps3cret" }`)
	rec = run(t, natsbus.Options{URLs: []string{byToken}, TokenFile: file("token", "t0ps3cret\n")})
	rec.Wait(t, 60*time.Second, "the link is up with a token", isUp(rec))
	rec = run(t, natsbus.Options{URLs: []string{"nats://t0ps3cret@" + byToken}})
	rec.Wait(t, 60*time.Second, "the link is up with a token in the URL", isUp(rec))
	if all := fmt.Sprintf("%+v", rec.AllEvents()); strings.Contains(all, "t0ps3cret") {
		t.Error("the token stands in an event")
	}
	rec = run(t, natsbus.Options{URLs: []string{byToken}, Token: sourcetest.WrongSecret})
	rec.Wait(t, 60*time.Second, "the reason", says(rec, "authentication refused"))
}

func TestPermissionThatComesLaterIsTakenUp(t *testing.T) {
	t.Parallel() // it waits
	server := serveReal(t, sourcetest.RealBinary(t, "nats-server"))
	rec := run(t, optionsFor(server.Address(), sourcetest.Forbidden))
	denials := func() []watchdog.Denied { return sourcetest.EventsOf[watchdog.Denied](rec, 0) }
	rec.Wait(t, 60*time.Second, "the denial", func() bool { return len(denials()) == 1 })
	server.grant(t)
	rec.Wait(t, 25*time.Second, "the end of the denial", func() bool { return len(denials()) == 2 && denials()[1].Reason == "" })
	server.Send(t, "seen", beat("seen", 1))
	rec.Wait(t, 60*time.Second, "a beat", func() bool { return rec.Heard() == 1 })
}
