package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/embedded"
)

// The ports on which agents look for their servers when nobody tells them.
const (
	natsPort  = 4222
	redisPort = 6379
)

// bus is the two embedded servers on loopback.
type bus struct {
	nats  *embedded.NATS
	redis *embedded.Redis
}

// startBus starts both or none; a port of 0 is a random one.
func startBus(natsPort, redisPort int, log *slog.Logger) (*bus, error) {
	n, err := embedded.StartNATS(embedded.NATSOptions{Port: natsPort, Logger: log})
	if err != nil {
		return nil, err
	}
	r, err := embedded.StartRedis(embedded.RedisOptions{Port: redisPort})
	if err != nil {
		n.Close()
		return nil, err
	}
	return &bus{n, r}, nil
}

func (b *bus) close() {
	b.redis.Close()
	b.nats.Close()
}

func (a *app) busCommand() *cobra.Command {
	var natsAt, redisAt int
	c := &cobra.Command{
		Use:   "bus",
		Short: "Run a NATS and a Redis-compatible server for local agents",
		Long: `Run a NATS and a Redis-compatible server on 127.0.0.1, in this process and in
memory alone, until interrupted. Agents that use the default addresses join it
without a setting.`,
		Args:    cobra.NoArgs,
		GroupID: groupTry,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := c.Flags().GetString("log-file")
			if err != nil {
				return err
			}
			return a.bus(natsAt, redisAt, path)
		},
	}
	set := c.Flags()
	set.IntVar(&natsAt, "nats-port", natsPort, "`PORT` of the NATS server, 0 for any free one")
	set.IntVar(&redisAt, "redis-port", redisPort, "`PORT` of the Redis-compatible server, 0 for any free one")
	set.String("log-file", "", "append the program's own log to `FILE`, made with mode 0600; JSON if it ends in .json")
	return c
}

func (a *app) bus(natsAt, redisAt int, logFile string) error {
	for _, port := range []int{natsAt, redisAt} {
		if port < 0 || port > 65535 {
			return &usageError{fmt.Errorf("%d is no port; give 1 to 65535, or 0 for any free one", port)}
		}
	}
	log, closeLog, err := openLog(logFile)
	if err != nil {
		return misconfigured(err)
	}
	defer closeLog.Close()
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	b, err := startBus(natsAt, redisAt, log)
	if err != nil {
		return badNews(err)
	}
	defer b.close()
	natsURL, redisURL := b.nats.ClientURL(), b.redis.URL()
	beat := "sessionwatch beat hello --task \"it works\""
	watch := "sessionwatch attach"
	if b.nats.Port() != natsPort || redisAt != redisPort {
		servers := fmt.Sprintf(" --nats %s --redis %s", natsURL, redisURL)
		beat, watch = beat+servers, watch+servers
	}
	p := &printer{w: a.env.Stdout}
	p.printf("NATS   %s\nRedis  %s\n\n", natsURL, redisURL)
	p.printf("First beat, from another window:\n  %s\nThe screen:\n  %s\n", beat, watch)
	p.printf("It lets anybody on this machine in. To have agents stopped and restarted over it:\n  commands: {trust_loopback: true}   in the configuration of who runs them\n")
	p.printf("Kept in memory alone; interrupt to end it.\n")
	if p.err != nil {
		return a.say(p.err)
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		return badNews(ctx.Err())
	}
	return nil
}
