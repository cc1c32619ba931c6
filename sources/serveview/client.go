package serveview

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// ClientOptions say where a serve is.
type ClientOptions struct {
	// Address is the path of its socket, or http://host:port or https://host:port.
	Address string
	Token   string // for a port; a socket needs none
	TLS     *tls.Config
}

const (
	dialWithin   = 2 * time.Second
	answerWithin = 10 * time.Second
	maxDump      = 64 << 20
	maxWindow    = 256 << 20 // a list of a million sessions
)

// ErrNoServe: nothing answers at the address.
var ErrNoServe = errors.New("no serve answers there")

// Client looks through a serve.
type Client struct {
	o    ClientOptions
	base string
	http *http.Client
}

// NewClient checks the address; it connects to nothing.
func NewClient(o ClientOptions) (*Client, error) {
	dialer := &net.Dialer{Timeout: dialWithin}
	transport := &http.Transport{TLSClientConfig: o.TLS, DialContext: dialer.DialContext, ResponseHeaderTimeout: answerWithin,
		TLSHandshakeTimeout: dialWithin, MaxIdleConnsPerHost: 4}
	c := &Client{o: o, base: strings.TrimSuffix(o.Address, "/"), http: &http.Client{Transport: transport}}
	if u, err := url.Parse(o.Address); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if u.User != nil || u.Host == "" {
			return nil, errors.New("the address of a serve is http://host:port or https://host:port, without a password in it; the token stands in serve.token_file")
		}
		return c, nil
	}
	if _, _, err := net.SplitHostPort(o.Address); err == nil && !strings.ContainsAny(o.Address, `/\`) {
		return nil, fmt.Errorf("%q is not the address of a serve without its scheme; give http://%s or https://%s", o.Address, o.Address, o.Address)
	}
	if o.Address == "" || strings.Contains(o.Address, "://") {
		return nil, fmt.Errorf("%q is not the address of a serve; give the path of its socket, http://host:port or https://host:port", o.Address)
	}
	c.base = "http://serve"
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", o.Address)
	}
	return c, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// do asks, and gives the body of a good answer.
func (c *Client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w (%s): %s", ErrNoServe, c.o.Address, unreachable(err))
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAskBytes)) // what came says enough
	var said struct {
		Error string `json:"error"`
	}
	switch err := json.Unmarshal(answer, &said); {
	case err == nil && said.Error != "":
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed:
		said.Error = "it cannot do that: it is older than this program; update it"
	default:
		said.Error = "it answered " + res.Status
	}
	return nil, fmt.Errorf("the serve at %s: %s", c.o.Address, netreason.Short(said.Error))
}

// unreachable says why nothing answers, in few words.
func unreachable(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such socket"
	}
	return cmp.Or(netreason.Network(err), netreason.TLS(err), netreason.Short(err.Error()))
}

func (c *Client) json(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxWindow)).Decode(into); err != nil {
		return c.unreadable("its answer")
	}
	return nil
}

// About asks who serves.
func (c *Client) About(ctx context.Context) (a About, err error) {
	return a, c.json(ctx, http.MethodGet, "/v1/about", nil, &a)
}

// Look asks for one window.
func (c *Client) Look(ctx context.Context, a watchdog.Ask) (watchdog.Window, error) {
	var raw json.RawMessage
	if err := c.json(ctx, http.MethodPost, "/v1/look", spell(&a), &raw); err != nil {
		return watchdog.Window{}, err
	}
	return decodeWindow(raw)
}

// Release lets held groups be settled, and tells how many sessions were in them.
func (c *Client) Release(ctx context.Context, by, reason string) (int, error) {
	var answer struct{ Released int }
	err := c.json(ctx, http.MethodPost, "/v1/release", map[string]string{"by": by, "reason": reason}, &answer)
	return answer.Released, err
}

// Logs reads lines of a supervised child from a sequence number on.
func (c *Client) Logs(ctx context.Context, id watchdog.ID, from int64, most int) (lines []Line, err error) {
	q := url.Values{"id": {string(id)}, "from": {strconv.FormatInt(from, 10)}, "most": {strconv.Itoa(most)}}
	return lines, c.json(ctx, http.MethodGet, "/v1/logs?"+q.Encode(), nil, &lines)
}

// Dumps lists captures, of one session or of all.
func (c *Client) Dumps(ctx context.Context, id watchdog.ID) (dumps []Dump, err error) {
	return dumps, c.json(ctx, http.MethodGet, "/v1/dumps?"+url.Values{"id": {string(id)}}.Encode(), nil, &dumps)
}

// Dump reads one capture.
func (c *Client) Dump(ctx context.Context, name string) ([]byte, error) {
	res, err := c.do(ctx, http.MethodGet, "/v1/dumps/"+(&url.URL{Path: name}).EscapedPath(), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(io.LimitReader(res.Body, maxDump))
}

// Events copies events as lines of JSON, until they end or ctx does.
func (c *Client) Events(ctx context.Context, to io.Writer, id watchdog.ID, follow bool) error {
	q := url.Values{"id": {string(id)}}
	if follow {
		q.Set("follow", "1")
	}
	res, err := c.do(ctx, http.MethodGet, "/v1/events?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(to, res.Body)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Late copies what came after the end of a session, as lines of JSON.
func (c *Client) Late(ctx context.Context, to io.Writer, id watchdog.ID) error {
	res, err := c.do(ctx, http.MethodGet, "/v1/late?"+url.Values{"id": {string(id)}}.Encode(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(to, res.Body)
	return err
}

// LateList reads the newest of what came after the end of a session, or of all.
func (c *Client) LateList(ctx context.Context, id watchdog.ID, most int) ([]watchdog.Late, error) {
	q := url.Values{"id": {string(id)}, "most": {strconv.Itoa(most)}}
	res, err := c.do(ctx, http.MethodGet, "/v1/late?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var out []watchdog.Late
	lines := bufio.NewReader(io.LimitReader(res.Body, maxWindow))
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("the serve at %s: %s", c.o.Address, netreason.Network(err))
		}
		l, err := wire.DecodeLate(line)
		if err != nil {
			return out, fmt.Errorf("the serve at %s: %w; is it of another version?", c.o.Address, err)
		}
		out = append(out, l)
	}
}

// newStream names a stream that nobody else has.
func newStream() string { return rand.Text() }

// stream reads windows until the stream breaks or ctx ends. began is told once
// it stands.
func (c *Client) stream(ctx context.Context, name string, began func(), each func(watchdog.Window)) error {
	res, err := c.do(ctx, http.MethodGet, "/v1/windows?stream="+name, nil)
	if err != nil {
		return err
	}
	began()
	// A serve that hangs sends nothing; one that lives sends a window each second.
	return c.readEvents(res, answerWithin, func(body []byte) error {
		w, err := decodeWindow(body)
		if err != nil {
			return c.unreadable("a window")
		}
		each(w)
		return nil
	})
}
