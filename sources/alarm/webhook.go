package alarm

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
)

const (
	// againAfter is how long after a failure the second try comes.
	againAfter = time.Second
	// answerMost is how much of an answer is read: it is thrown away.
	answerMost = 64 << 10
	// headMost bounds the head of an answer.
	headMost = 16 << 10
)

// webhook posts alarms to one address.
type webhook struct {
	url     string
	host    string // what may be told of the address
	timeout time.Duration
	client  *http.Client
	again   time.Duration
}

func newWebhook(address string, timeout time.Duration) (*webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("alerts.webhook: is not a URL; write it as https://host/path, without a password before the host")
	}
	transport := &http.Transport{
		Proxy:                  nil, // see the package comment
		DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    timeout,
		ResponseHeaderTimeout:  timeout,
		MaxResponseHeaderBytes: headMost,
		DisableKeepAlives:      true, // alerts are rare
		DisableCompression:     true,
	}
	return &webhook{url: address, host: u.Host, timeout: timeout, again: againAfter, client: &http.Client{
		Transport:     transport,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// send posts an alarm, twice if the first try failed in a way that may pass.
func (h *webhook) send(ctx context.Context, m wire.Alarm) error {
	body, err := wire.EncodeAlarm(m)
	if err != nil {
		return err
	}
	passing, err := h.post(ctx, body)
	if err == nil || !passing {
		return err
	}
	pause := time.NewTimer(h.again)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
	}
	_, err = h.post(ctx, body)
	return err
}

// post is one try. Its error names the host alone.
func (h *webhook) post(ctx context.Context, body []byte) (passing bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("the webhook at %s cannot be asked; look at alerts.webhook", h.host)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sessionwatch")
	res, err := h.client.Do(req)
	if err != nil {
		return true, fmt.Errorf("the webhook at %s: %s", h.host, networkReason(err))
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, answerMost)) // its status says enough
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return false, nil
	case code >= 300 && code < 400:
		return false, fmt.Errorf("the webhook at %s answered %d and points elsewhere, which is not followed; set alerts.webhook to where it is now", h.host, code)
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return true, fmt.Errorf("the webhook at %s answered %d", h.host, code)
	default:
		return false, fmt.Errorf("the webhook at %s refused the alert with %d; look at alerts.webhook", h.host, code)
	}
}

// networkReason puts an error into words without the address, whose path is a
// secret.
func networkReason(err error) string {
	var in *url.Error
	if errors.As(err, &in) {
		err = in.Err
	}
	if words := netreason.TLS(err); words != "" {
		return "TLS: " + words
	}
	if words := netreason.Network(err); words != "" {
		return words
	}
	return netreason.Short(err.Error())
}
