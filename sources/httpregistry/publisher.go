package httpregistry

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/wire"
	"github.com/sessionwatch/sessionwatch/watchdog"
	"github.com/sessionwatch/sessionwatch/watchdog/guard"
)

// PublisherOptions say how an agent's guard reaches a registry.
type PublisherOptions struct {
	URL   string // of the registry: "https://watch.example:7077"
	Token string // the fleet's, or of one generation
	TLS   *tls.Config
	// Recover registers a new generation once this one is gone, so that what
	// is started next under the same id may beat.
	Recover bool
	// Resource and Action are what the agent was at, for the log line of a
	// session that was reaped in the middle of its work. nil: not known.
	Operation func(id watchdog.ID) (resource, action string)
	Logger    *slog.Logger
}

const (
	postWithin = 5 * time.Second
	// foreignGones is how many 410 answers with a body that is not ours count,
	// one after the other, over TLS.
	foreignGones = 2
	answerLimit  = 16 << 10
)

// Publisher posts the beats of a guard to a registry. Any network error is
// transient; only a 410 that the registry itself must have given ends the work.
type Publisher struct {
	o      PublisherOptions
	base   *url.URL
	client *http.Client

	mu       sync.Mutex
	sessions map[watchdog.ID]*posted
}

// posted is what the publisher knows of one session.
type posted struct {
	token string // of the newest generation that was registered; empty: the configured one
	gones int    // 410 answers in a row that may be a proxy's
	told  bool   // the work was told that it is gone
	boot  string // of the execution that was told
}

// OpenPublisher checks the options; it connects to nothing.
func OpenPublisher(o PublisherOptions) (*Publisher, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, errors.New("the registry's address must be http://host:port or https://host:port without a password in it")
	}
	if o.Token == "" {
		return nil, errors.New("the registry wants a token; read it from the file that serve names at its start")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	transport := &http.Transport{TLSClientConfig: o.TLS, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	return &Publisher{o: o, base: u, sessions: map[watchdog.ID]*posted{},
		client: &http.Client{Transport: transport, Timeout: postWithin,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// String names it in logs.
func (p *Publisher) String() string { return "registry " + p.base.Host }

// Close lets go of idle connections.
func (p *Publisher) Close() { p.client.CloseIdleConnections() }

// Publish posts one beat. An error that wraps guard.ErrGone means that the
// registry has given this execution up; it is given once for each.
func (p *Publisher) Publish(ctx context.Context, m guard.Message) error {
	id := watchdog.ID(m.Beat.ID)
	body := appendStamp(wire.AppendBeat(nil, m.Beat), time.Now())
	if m.Plain {
		body = appendStamp(wire.AppendPlainBeat(nil, m.Beat), time.Now())
	}
	token := p.tokenOf(id)
	code, answer, err := p.post(ctx, "/heartbeat", token, body)
	if err != nil {
		return err
	}
	switch {
	case code == http.StatusNoContent:
		p.with(id, func(s *posted) { s.gones = 0 })
		return nil
	case code == http.StatusGone:
		return p.gone(ctx, m.Beat, answer)
	}
	return fmt.Errorf("%s answered %d: %s", p, code, said(answer))
}

// appendStamp puts the sender's clock into a beat: it decides nothing.
func appendStamp(body []byte, now time.Time) []byte {
	body = append(body[:len(body)-1], `,"timestamp":`...)
	return append(strconv.AppendFloat(body, unixSeconds(now), 'f', 3, 64), '}')
}

func (p *Publisher) with(id watchdog.ID, change func(*posted)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[id]
	if s == nil {
		s = &posted{}
		p.sessions[id] = s
	}
	change(s)
}

func (p *Publisher) tokenOf(id watchdog.ID) string {
	token := p.o.Token
	p.with(id, func(s *posted) {
		if s.token != "" {
			token = s.token
		}
	})
	return token
}

func (p *Publisher) post(ctx context.Context, path, token string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %s", p, netreason.Network(err))
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %s", p, netreason.Network(err))
	}
	return res.StatusCode, answer, nil
}

// gone decides whether a 410 is the registry's own word: its body is ours or
// empty, or it came twice in a row over TLS. A proxy's is a fault like others.
func (p *Publisher) gone(ctx context.Context, b *watchdog.Beat, answer []byte) error {
	id, boot := watchdog.ID(b.ID), string(b.BootID)
	var body gone
	answer = bytes.TrimSpace(answer)
	ours := len(answer) == 0 ||
		json.Unmarshal(answer, &body) == nil && body.Error == goneError && body.SessionID == string(id)
	first := false
	p.with(id, func(s *posted) {
		s.gones++
		ours = ours || s.gones >= foreignGones && p.base.Scheme == "https"
		if first = ours && !(s.told && s.boot == boot); first {
			s.told, s.boot, s.gones = true, boot, 0
		}
	})
	if !ours {
		return fmt.Errorf("%s: a 410 whose body is not the registry's is taken for a fault on the way: %s", p, said(answer))
	}
	if first {
		resource, action := "", ""
		if p.o.Operation != nil {
			resource, action = p.o.Operation(id)
		}
		p.o.Logger.Warn("session_reaped_during_operation", "session", string(id), "agent", string(b.Agent), "task", string(b.Task),
			"resource", resource, "action", action, "reason", body.Reason)
		if p.o.Recover {
			p.register(ctx, b)
		}
	}
	return fmt.Errorf("%s: %w (%s)", p, guard.ErrGone, body.Reason)
}

// register asks for a new generation. It fails quietly: the next execution's
// first 410 asks again.
func (p *Publisher) register(ctx context.Context, b *watchdog.Beat) {
	asked, err := json.Marshal(map[string]string{"session_id": string(b.ID), "agent_id": string(b.Agent)})
	if err != nil {
		return
	}
	code, answer, err := p.post(ctx, "/sessions", p.o.Token, asked)
	var given struct {
		Generation watchdog.Generation `json:"generation"`
		Token      string              `json:"token"`
	}
	if err == nil && (code != http.StatusCreated || json.Unmarshal(answer, &given) != nil || given.Token == "") {
		err = fmt.Errorf("%s answered %d: %s", p, code, said(answer))
	}
	if err != nil {
		p.o.Logger.Warn("the session could not be registered anew", "session", string(b.ID), "error", err)
		return
	}
	p.with(watchdog.ID(b.ID), func(s *posted) { s.token = given.Token })
	p.o.Logger.Info("the session was registered anew", "session", string(b.ID), "generation", given.Generation)
}

// said is what an answer says, in short.
func said(answer []byte) string {
	var body struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &body) == nil && body.Error != "" {
		return netreason.Short(body.Error)
	}
	return netreason.Short(string(answer))
}
