package natsbus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

type deaf struct{}

func (deaf) Beats([]watchdog.Beat) {}
func (deaf) Post(watchdog.Event)   {}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
}

func TestOpenSaysWhatIsWrongWithTheOptions(t *testing.T) {
	const secret = "s3cr3t"
	cert, _ := certificate(t)
	_, otherKey := certificate(t)
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no creds", Options{CredsFile: "/nowhere/x.creds"}, "nats.creds_file: /nowhere/x.creds cannot be read: no such file"},
		{"creds are something else", Options{CredsFile: write(t, secret)}, "holds no user JWT"},
		{"no nkey", Options{NKeyFile: "/nowhere/x.nk"}, "nats.nkey_file: /nowhere/x.nk cannot be read"},
		{"nkey is something else", Options{NKeyFile: write(t, secret)}, "holds no NKey seed"},
		{"no password file", Options{User: "u", PasswordFile: "/nowhere/p"}, "nats.password_file: /nowhere/p cannot be read"},
		{"empty password file", Options{User: "u", PasswordFile: write(t, "\n")}, "is empty"},
		{"empty token file", Options{TokenFile: write(t, "")}, "nats.token_file"},
		{"password without user", Options{Password: secret}, "nats.user: is empty"},
		{"two ways", Options{User: "u", Password: secret, Token: secret}, "exclude each other"},
		{"unreadable CA", Options{TLS: TLSOptions{CAFile: "/nowhere/ca.pem"}}, "nats.tls.ca_file: /nowhere/ca.pem cannot be read"},
		{"CA is something else", Options{TLS: TLSOptions{CAFile: write(t, "x")}}, "holds no PEM certificate"},
		{"certificate without key", Options{TLS: TLSOptions{CertFile: cert}}, "belong together"},
		{"key of another", Options{TLS: TLSOptions{CertFile: cert, KeyFile: otherKey}}, "no certificate and its key"},
		{"scheme", Options{URLs: []string{"http://u:" + secret + "@h"}}, "none of nats, tls, ws, wss"},
		{"port", Options{URLs: []string{"nats://u:" + secret + "@h:99999"}}, "not between 1 and 65535"},
		{"not a URL", Options{URLs: []string{"nats://u:" + secret + "/x@h:port"}}, "nats.url: is not an address"},
		{"no host", Options{URLs: []string{"nats://:4222"}}, "names no host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(c.o, deaf{}, clock.System(), slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q holds the secret", err)
			}
		})
	}
}

func TestOpenListsAllFaults(t *testing.T) {
	_, err := Open(Options{URLs: []string{"ftp://x"}, CredsFile: "/nowhere/a", TLS: TLSOptions{CAFile: "/nowhere/b"}},
		deaf{}, clock.System(), slog.New(slog.DiscardHandler))
	for _, want := range []string{"nats.url", "nats.creds_file", "nats.tls.ca_file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestKeysAreReadAndUsed(t *testing.T) {
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
	p, err := Options{NKeyFile: write(t, string(seed)+"\n")}.plan()
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.secrets()
	if err != nil {
		t.Fatal(err)
	}
	o := p.clientOptions(p.seeds[0], s)
	if o.Nkey != public {
		t.Errorf("the client names the key %q, want %q", o.Nkey, public)
	}
	signed, err := o.SignatureCB([]byte("nonce"))
	if err != nil || pair.Verify([]byte("nonce"), signed) != nil {
		t.Errorf("the nonce is not signed: %v", err)
	}
	creds := "-----BEGIN NATS USER JWT-----\naaa.bbb.ccc\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" +
		string(seed) + "\n------END USER NKEY SEED------\n"
	if p, err = (Options{CredsFile: write(t, creds)}).plan(); err != nil {
		t.Fatal(err)
	}
	if s, err = p.secrets(); err != nil {
		t.Fatal(err)
	}
	o = p.clientOptions(p.seeds[0], s)
	if jwt, err := o.UserJWT(); err != nil || jwt != "aaa.bbb.ccc" || o.Nkey != "" {
		t.Errorf("the client sends JWT %q, nkey %q, %v", jwt, o.Nkey, err)
	}
}

func TestRenewedSecretsAreTakenUp(t *testing.T) {
	file := write(t, "old")
	p, err := Options{User: "u", PasswordFile: file}.plan()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := p.secrets()
	if err != nil || s.password != "new" {
		t.Errorf("password %q, %v", s.password, err)
	}
}
