package cli

import (
	"context"
	"errors"
	"os/user"

	"github.com/spf13/cobra"
)

func (a *app) releaseCommand() *cobra.Command {
	var f flags
	var text string
	c := &cobra.Command{
		Use:   "release --reason TEXT",
		Short: "Let sessions be settled that went silent together and are held",
		Long: `When many sessions fall silent together, what they share has probably failed, and
settling them is held. Release says that they are really gone: the serve settles
them now. It is audited with your reason.`,
		Example: `  sessionwatch release --reason "rack 7 is gone for good, ticket 4711"`,
		Args:    cobra.NoArgs,
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, _ []string) error {
			if text == "" {
				return &usageError{errors.New("give --reason: it stands in the audit file")}
			}
			ctx, stop := a.env.Interrupts(context.Background())
			defer stop()
			settings, err := a.settings(c, &f, false)
			if err != nil {
				return err
			}
			if settings.ReadOnly {
				return badNews(errors.New("read-only: nothing is released; leave --read-only (read_only in the configuration) out to allow it"))
			}
			client, err := a.serveOf(ctx, c, settings, &f)
			if err != nil {
				return err
			}
			if client == nil {
				return badNews(errors.New("no serve runs here, so nobody settles and nothing is held; name one with --serve"))
			}
			defer client.Close()
			n, err := client.Release(ctx, operatorName(), text)
			if err != nil {
				return badNews(err)
			}
			if n == 0 {
				a.note("nothing was held")
				return nil
			}
			a.note("released: %d sessions are settled unless they beat again", n)
			return nil
		},
	}
	a.addConfig(c, &f)
	a.addServe(c, &f)
	c.Flags().Bool("read-only", false, "refuse")
	c.Flags().StringVar(&text, "reason", "", "why, for the audit file")
	return c
}

// operatorName is who acts, for audit files: the user of this process.
func operatorName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}
