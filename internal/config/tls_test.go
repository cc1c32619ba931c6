package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate makes a self-signed certificate and its key.
func writeCertificate(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestTLSClient(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir)
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := TLSFiles{CAFile: cert, CertFile: cert, KeyFile: key}.Client()
	if err != nil || c.RootCAs == nil || len(c.Certificates) != 1 {
		t.Fatalf("%+v %v", c, err)
	}
	if c, err := (TLSFiles{}).Client(); err != nil || c.RootCAs != nil || len(c.Certificates) != 0 {
		t.Errorf("no files: %+v %v", c, err)
	}
	for want, files := range map[string]TLSFiles{
		"tls.ca_file: cannot read":                  {CAFile: filepath.Join(dir, "gone")},
		"tls.ca_file: " + `"` + garbage + `" holds`: {CAFile: garbage},
		"tls.cert_file: cannot use":                 {CertFile: cert, KeyFile: garbage},
	} {
		if _, err := files.Client(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
