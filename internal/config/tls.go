package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Client reads the files and gives the TLS settings of a client; without files
// it trusts the system's certificates. It may block on a slow disk. Errors say
// which key names the file at fault.
func (t TLSFiles) Client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: cannot read %q: %s; correct the name or its permissions", t.CAFile, reason(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %q holds no certificate in PEM; name the file of the authority", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: cannot use %q with %q: %s; give a certificate and its own key in PEM", t.CertFile, t.KeyFile, reason(err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
