package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/config"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/sources/serveview"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

func (a *app) dumpsCommand() *cobra.Command {
	var f flags
	var show string
	c := &cobra.Command{
		Use:   "dumps [ID]",
		Short: "List the stack dumps that were taken, or print one",
		Long: `List the stack dumps of supervised sessions, the newest first: those of the serve
that runs here or that --serve names, else those in the data directory. With
--show one of them is printed as text, by its number in the list or by its name;
dump-view makes sense of it. Control characters are left out.`,
		Example: `  sessionwatch dumps indexer
  sessionwatch dumps indexer --show 1 | sessionwatch dump-view -`,
		Args:    cobra.MaximumNArgs(1),
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, args []string) error {
			id := ""
			if len(args) == 1 {
				id = args[0]
				if text := config.CheckID(id); text != "" {
					return &usageError{fmt.Errorf("%q is no id: %s", clean(id), text)}
				}
			}
			return a.dumps(c, &f, watchdog.ID(id), show)
		},
	}
	a.addSources(c, &f)
	a.addServe(c, &f)
	f.addJSON(c)
	c.Flags().StringVar(&show, "show", "", "print the dump with this number (1 is the newest) or `NAME`")
	c.MarkFlagsMutuallyExclusive("show", "json")
	return c
}

// dumpKeeper is where dumps are read: a serve, or the data directory.
type dumpKeeper interface {
	list(ctx context.Context, id watchdog.ID) ([]process.DumpEntry, error)
	read(ctx context.Context, name string) ([]byte, error)
}

func (a *app) dumps(c *cobra.Command, f *flags, id watchdog.ID, show string) error {
	settings, err := a.settings(c, f, false)
	if err != nil {
		return err
	}
	ctx, stop := a.env.Interrupts(context.Background())
	defer stop()
	client, err := a.serveOf(ctx, c, settings, f)
	if err != nil {
		return err
	}
	var keeper dumpKeeper
	switch {
	case client != nil:
		defer client.Close()
		keeper = remoteDumps{client}
	case settings.DataDir == "":
		return misconfigured(errors.New("data_dir: no home directory is known; set data_dir in the configuration, or give --data-dir"))
	default:
		if show == "" {
			gatherOnce(ctx, settings, id)
		}
		keeper = localDumps{localChildren{dumps: process.NewDumpStore(settings.DataDir)}}
	}
	list, err := keeper.list(ctx, id)
	if err != nil {
		return untold(err)
	}
	switch {
	case show != "":
		return a.showDump(ctx, keeper, list, show)
	case f.json:
		if list == nil {
			list = []process.DumpEntry{}
		}
		out := json.NewEncoder(a.env.Stdout)
		out.SetEscapeHTML(false)
		return a.say(out.Encode(list))
	case len(list) == 0:
		a.note("no dump was taken%s", behind(" of ", string(id)))
		return nil
	}
	return a.say(printDumps(a, list))
}

func printDumps(a *app, list []process.DumpEntry) error {
	t := newTable(0, 4)
	t.add("", "NAME", "AT", "REASON", "BYTES", "FORMAT", "VERDICT", "CULPRIT")
	for i := range list {
		d := &list[i]
		bytes := strconv.FormatInt(d.Bytes, 10)
		if d.Truncated {
			bytes += "+"
		}
		t.add(strconv.Itoa(i+1), d.ID, d.At.UTC().Format(time.DateTime+"Z"), d.Reason, bytes,
			orNone(known(d.Format)), orNone(known(d.Verdict)), orNone(known(d.Culprit)))
	}
	return t.print(a.env.Stdout, "")
}

// showDump prints one capture as text.
func (a *app) showDump(ctx context.Context, keeper dumpKeeper, list []process.DumpEntry, show string) error {
	name := ""
	n, err := strconv.Atoi(show)
	for i := range list {
		if list[i].ID == show || err == nil && i+1 == n {
			name = list[i].ID
		}
	}
	if name == "" {
		return untold(fmt.Errorf("there is no dump %s; %s here: list them without --show", clean(show), count(len(list), "dump")))
	}
	text, err := keeper.read(ctx, name)
	if err != nil {
		return untold(err)
	}
	w := bufio.NewWriter(a.env.Stdout)
	for line := range bytes.Lines(text) {
		_, _ = w.WriteString(clean(string(bytes.TrimRight(line, "\r\n")))) // Flush tells
		_ = w.WriteByte('\n')
	}
	return a.say(w.Flush())
}

// localDumps reads the data directory.
type localDumps struct{ localChildren }

func (d localDumps) list(_ context.Context, id watchdog.ID) ([]process.DumpEntry, error) {
	headers, err := d.dumps.List(id)
	list := make([]process.DumpEntry, len(headers))
	for i := range headers {
		list[i] = headers[i].Entry()
	}
	return list, err
}

func (d localDumps) read(ctx context.Context, name string) ([]byte, error) { return d.Dump(ctx, name) }

// remoteDumps asks a serve.
type remoteDumps struct{ *serveview.Client }

func (d remoteDumps) list(ctx context.Context, id watchdog.ID) ([]process.DumpEntry, error) {
	dumps, err := d.Dumps(ctx, id)
	list := make([]process.DumpEntry, len(dumps))
	for i, e := range dumps {
		list[i] = process.DumpEntry{ID: e.ID, At: process.WireTime{Time: e.At}, Reason: e.Reason, Method: e.Method, Bytes: e.Bytes,
			Truncated: e.Truncated, Format: e.Format, Verdict: e.Verdict, Culprit: e.Culprit}
	}
	return list, err
}

func (d remoteDumps) read(ctx context.Context, name string) ([]byte, error) {
	return d.Dump(ctx, name)
}
