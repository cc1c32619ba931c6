package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/clock"
	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/internal/ownfile"
	"github.com/sessionwatch/sessionwatch/sources/alarm"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// findServe is how long the serve of this machine has to answer.
const findServe = time.Second

// serveFeed is a screen's feed of a serve.
type serveFeed struct {
	*serveview.Feed
	client *serveview.Client
	about  ui.About
	quiet  context.CancelFunc // ends what rings here
	rung   sync.WaitGroup
}

// About says what is watched.
func (f *serveFeed) About() ui.About { return f.about }

// Do asks the serve for an action.
func (f *serveFeed) Do(ctx context.Context, c watchdog.Command) (watchdog.Action, error) {
	if f.about.ReadOnly {
		return watchdog.Action{}, watchdog.ErrReadOnly
	}
	if c.ID == "" {
		c.ID = rand.Text() // so that asking again is safe
	}
	c.IssuedBy = cmp.Or(c.IssuedBy, operatorName())
	return f.client.Do(ctx, c)
}

// Note writes what an operator says of an alert, through the serve.
func (f *serveFeed) Note(ctx context.Context, n watchdog.AlertNote) error {
	if f.about.ReadOnly {
		return watchdog.ErrReadOnly
	}
	n.Author = cmp.Or(n.Author, operatorName())
	if n.At.IsZero() {
		n.At = time.Now()
	}
	return f.client.PutNote(ctx, n)
}

// Close ends the feed, and what rings.
func (f *serveFeed) Close() {
	f.quiet()
	f.Feed.Close()
	f.rung.Wait()
}

// ring tells whoever looks of what the serve raises: a bell and a notice on the
// desktop alone. The webhook and the command are the serve's.
func (f *serveFeed) ring(ctx context.Context, settings *config.Config, h *host) {
	ways := alarm.Options{Cluster: f.about.Name, Logger: h.log}
	if settings.Alerts.Bell {
		ways.Bell = h.rings.bell
	}
	if settings.Alerts.Desktop {
		ways.Desktop = h.rings.desktop
	}
	bells, err := alarm.New(ways)
	if err != nil || len(bells.Ways()) == 0 { // without a webhook nothing can be wrong
		return
	}
	for _, run := range []func(){func() { bells.Run(ctx) }, func() { f.client.Raised(ctx, bells.Raise) }} {
		f.rung.Add(1)
		h.spawn(func() {
			defer f.rung.Done()
			run()
		})
	}
}

// Release lets the serve settle what it holds.
func (f *serveFeed) Release(ctx context.Context, reason string) (int, error) {
	if f.about.ReadOnly {
		return 0, errors.New("this view is read-only; leave --read-only (read_only in the configuration) out to allow it")
	}
	return f.client.Release(ctx, operatorName(), reason)
}

// serveClient reaches the serve at an address: its socket, or a port with the
// token of serve.token_file (or registry.token_file), or of SESSIONWATCH_TOKEN.
func serveClient(settings *config.Config, address, token string) (*serveview.Client, error) {
	o := serveview.ClientOptions{Address: address, Token: token}
	if strings.Contains(address, "://") {
		for _, key := range []string{"serve.token_file", "registry.token_file"} {
			if o.Token != "" {
				break
			}
			secret, err := settings.SecretFile(key)
			if err != nil {
				return nil, err
			}
			o.Token = secret.Reveal()
		}
		if o.Token == "" && settings.DataDir != "" {
			if text, err := os.ReadFile(settings.DataDir + "/token"); err == nil {
				o.Token = strings.TrimSpace(string(text))
			}
		}
		if o.Token == "" {
			return nil, errors.New("the view of a serve on a port wants its token; set serve.token_file, or SESSIONWATCH_TOKEN")
		}
		if cert := settings.Serve.TLS.CertFile; strings.HasPrefix(address, "https:") && cert != "" {
			pem, err := os.ReadFile(cert)
			if err != nil {
				return nil, fmt.Errorf("serve.tls.cert_file: cannot read %q: %w", cert, reason(err))
			}
			pool, err := x509.SystemCertPool()
			if err != nil {
				pool = x509.NewCertPool()
			}
			pool.AppendCertsFromPEM(pem)
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		}
	}
	return serveview.NewClient(o)
}

// localServe reaches the serve of this machine; nil if none answers.
func localServe(ctx context.Context, settings *config.Config) (*serveview.Client, serveview.About) {
	if settings.DataDir == "" {
		return nil, serveview.About{}
	}
	path := socketPath(settings.DataDir)
	if info, err := os.Lstat(path); err != nil || !ownfile.Ours(info) {
		return nil, serveview.About{}
	}
	client, err := serveClient(settings, path, "")
	if err != nil {
		return nil, serveview.About{}
	}
	ctx, cancel := context.WithTimeout(ctx, findServe)
	defer cancel()
	about, err := client.About(ctx)
	if err != nil {
		client.Close()
		return nil, about
	}
	return client, about
}

// openServe shows a screen the view of a serve.
func (h *host) openServe(settings *config.Config, client *serveview.Client, about serveview.About) ui.Feed {
	ctx, quiet := context.WithCancel(context.Background())
	f := &serveFeed{Feed: serveview.Follow(client, clock.System(), h.spawn), client: client, quiet: quiet,
		about: ui.About{Name: about.Name, Elsewhere: true, Operator: operatorName(), Sweeper: about.Sweeper, ReadOnly: about.ReadOnly || settings.ReadOnly, Late: remoteLate{client}, Shift: client, Output: remoteChildren{client}}}
	for _, word := range about.Release {
		f.about.Hooks = append(f.about.Hooks, clean(word))
	}
	if about.Trial {
		f.about.Trial = remoteTrial{client}
	}
	f.ring(ctx, settings, h)
	return f
}

// lookThrough asks a serve for one window.
func lookThrough(ctx context.Context, client *serveview.Client, ask watchdog.Ask) (watchdog.Window, error) {
	w, err := client.Look(ctx, ask)
	if err != nil {
		return w, untold(err)
	}
	return w, nil
}

// serveOf reaches the serve that a command looks through: the one that --serve
// names, or that of this machine unless the command line names servers of its
// own. nil: there is none.
func (a *app) serveOf(ctx context.Context, c *cobra.Command, settings *config.Config, f *flags) (*serveview.Client, error) {
	if f.serve != "" && f.serve != config.None {
		client, err := serveClient(settings, f.serve, a.env.getenv("SESSIONWATCH_TOKEN"))
		if err != nil {
			return nil, misconfigured(err)
		}
		if _, err := client.About(ctx); err != nil {
			client.Close()
			return nil, untold(err)
		}
		return client, nil
	}
	if f.serve == config.None || namesServers(c) {
		return nil, nil
	}
	client, _ := localServe(ctx, settings)
	return client, nil
}

// namesServers reports whether the command line says what is to be watched.
func namesServers(c *cobra.Command) bool {
	for _, name := range []string{"nats", "redis", "context"} {
		if flag := c.Flags().Lookup(name); flag != nil && flag.Changed {
			return true
		}
	}
	return false
}

// throughServe asks a serve for one window. One that is to be watched for a
// while is asked at the end of it.
func (a *app) throughServe(ctx context.Context, client *serveview.Client, q *asking, ask watchdog.Ask) (watchdog.Window, error) {
	if q.whole {
		select {
		case <-ctx.Done():
			return watchdog.Window{}, untold(errors.New("interrupted before anything could be told"))
		case <-time.After(q.wait):
		}
	}
	return lookThrough(ctx, client, ask)
}

// Children reads what the serve keeps of the sessions that it supervises.
func (f *serveFeed) Children() ui.Children { return remoteChildren{f.client} }

// remoteChildren asks a serve.
type remoteChildren struct{ *serveview.Client }

// Logs gives lines of output.
func (c remoteChildren) Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]ui.LogLine, error) {
	lines, err := c.Client.Logs(ctx, id, from, most)
	out := make([]ui.LogLine, len(lines))
	for i, l := range lines {
		out[i] = ui.LogLine(l)
	}
	return out, err
}

// Dumps lists captures.
func (c remoteChildren) Dumps(ctx context.Context, id watchdog.ID) ([]ui.DumpEntry, error) {
	list, err := c.Client.Dumps(ctx, id)
	out := make([]ui.DumpEntry, len(list))
	for i, d := range list {
		out[i] = ui.DumpEntry{Name: d.ID, ID: d.SessionID, Generation: d.Generation, At: d.At, Reason: d.Reason, Bytes: d.Bytes,
			Truncated: d.Truncated, Method: known(d.Method), Format: known(d.Format), Verdict: known(d.Verdict), Culprit: known(d.Culprit), LoopThread: d.LoopThread}
	}
	return out, err
}

// servedChildren offers what this process keeps through its serve.
type servedChildren struct{ localChildren }

// Logs gives lines of output.
func (c servedChildren) Logs(ctx context.Context, id watchdog.ID, from int64, most int) ([]serveview.Line, error) {
	lines, err := c.localChildren.Logs(ctx, id, from, most)
	out := make([]serveview.Line, len(lines))
	for i, l := range lines {
		out[i] = serveview.Line(l)
	}
	return out, err
}

// Dumps lists captures.
func (c servedChildren) Dumps(_ context.Context, id watchdog.ID) ([]serveview.Dump, error) {
	list, err := c.dumps.List(id)
	if err != nil {
		return nil, err
	}
	out := make([]serveview.Dump, len(list))
	for i, h := range list {
		e := dumpEntry(&h)
		out[i] = serveview.Dump{ID: h.ID, SessionID: e.ID, Generation: e.Generation, At: h.At.Time, Reason: h.Reason, Method: h.Method,
			Bytes: h.Bytes, Truncated: h.Truncated, Format: h.Format, Verdict: h.Verdict, Culprit: h.Culprit, LoopThread: h.LoopThread}
	}
	return out, nil
}
