package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionwatch/sessionwatch/internal/stackdump"
	"github.com/sessionwatch/sessionwatch/sources/process"
	"github.com/sessionwatch/sessionwatch/ui"
)

// standardInput is the name of the file that stands for standard input.
const standardInput = "-"

// dumpViewing is what the flags of dump-view say.
type dumpViewing struct {
	json, raw bool
	loop      string
}

func (a *app) dumpViewCommand() *cobra.Command {
	var f flags
	var v dumpViewing
	c := &cobra.Command{
		Use:   "dump-view FILE [FILE2]",
		Short: "Read a stack dump: verdict, loop thread and culprit first",
		Long: `Read the stack dump in FILE, of Python, Go, Java, Node.js, Ruby, gdb, eu-stack,
py-spy or /proc, and show the verdict, the thread of the event loop, then all
other stacks, the most suspect first. Program output around and inside the dump
does no harm. With FILE2, a later dump of the same process, show what moved.

In a terminal it is the viewer of the screen, with the keys of help (?); two files
are compared. Without one, with --raw and with --json it is text.

FILE may be - for standard input, and compressed with gzip.`,
		Example: `  sessionwatch dump-view agent-stderr.log
  sessionwatch dump-view --json first.txt | jq .culprit
  jstack 4711 | sessionwatch dump-view --loop-thread event-loop -`,
		Args:    cobra.RangeArgs(1, 2),
		GroupID: groupAsk,
		RunE: func(c *cobra.Command, args []string) error {
			return a.dumpView(c, &f, v, args)
		},
	}
	a.addConfig(c, &f)
	a.addGuard(c)
	f.addTheme(c)
	c.Flags().BoolVar(&v.json, "json", false, "print one JSON object for scripts")
	c.Flags().BoolVar(&v.raw, "raw", false, "print the text itself, cleaned of control characters")
	c.Flags().StringVar(&v.loop, "loop-thread", "", "the event loop runs in the thread with this `NAME`, id, label or function")
	c.MarkFlagsMutuallyExclusive("json", "raw")
	return c
}

func (a *app) dumpView(c *cobra.Command, f *flags, v dumpViewing, args []string) error {
	if len(args) == 2 && (v.json || v.raw) {
		return &usageError{errors.New("--json and --raw take one file; leave the second one out")}
	}
	if len(args) == 2 && args[0] == standardInput && args[1] == standardInput {
		return &usageError{errors.New("standard input can be read once; name a file for one of the two")}
	}
	var dumps []dumpFile
	for _, name := range args {
		d, err := a.readDump(name)
		if err != nil {
			return err
		}
		if v.loop != "" {
			d.entry.LoopThread = v.loop
		}
		dumps = append(dumps, d)
	}
	if !v.raw && !a.plain(v.json) {
		return a.showDumps(c, f, dumps)
	}
	var files []*stackdump.File
	for _, d := range dumps {
		files = append(files, stackdump.Parse(d.text))
	}
	options := stackdump.Options{LoopThread: dumps[len(dumps)-1].entry.LoopThread}
	var verdict stackdump.Verdict
	var err error
	switch {
	case v.raw:
		verdict, err = stackdump.NewSummary(files[0], options).Verdict, a.printRawDump(files[0])
	case v.json:
		summary := stackdump.NewSummary(files[0], options)
		encoder := json.NewEncoder(a.env.Stdout)
		encoder.SetEscapeHTML(false)
		verdict, err = summary.Verdict, encoder.Encode(summary)
	default:
		view := stackdump.NewView(files[0], options)
		if len(files) == 2 {
			view = stackdump.NewDiff(files[0], files[1], options)
		}
		verdict, err = view.Verdict, printDumpView(a.env.Stdout, view)
	}
	if err != nil {
		return a.say(err)
	}
	if verdict == stackdump.NotADump {
		return exitWith(exitUntold)
	}
	return nil
}

// dumpFile is a dump out of a file. Of one that a supervisor kept, the record in
// front of its text is in the entry.
type dumpFile struct {
	entry ui.DumpEntry // Name is that of the file
	text  string
}

// showDumps opens the viewer on a dump, or on two that are compared. Standard input
// may be one of them: keys come from the terminal.
func (a *app) showDumps(c *cobra.Command, f *flags, dumps []dumpFile) error {
	return a.show(c, f, nil, func(*host) {}, func(o *ui.Options) {
		o.Host = nil
		for _, d := range slices.Backward(dumps) { // the later one was named last
			o.Dumps = append(o.Dumps, d.entry)
		}
		o.ReadDump = func(_ context.Context, name string) ([]byte, error) {
			at := slices.IndexFunc(dumps, func(d dumpFile) bool { return d.entry.Name == name })
			return []byte(dumps[at].text), nil
		}
	})
}

// readDump reads a whole dump. What is longer than a dump can be is left out;
// reading one byte more lets the parser say so.
func (a *app) readDump(name string) (dumpFile, error) {
	var in io.Reader = a.env.Stdin
	if name != standardInput {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return dumpFile{}, &usageError{fmt.Errorf("there is no file %q; name a file that holds a dump, or - for standard input", name)}
		}
		if err != nil {
			return dumpFile{}, &usageError{fmt.Errorf("cannot open %q: %w; name a file that can be read, or - for standard input", name, reason(err))}
		}
		defer file.Close()
		in = file
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return dumpFile{}, &usageError{fmt.Errorf("%q is a directory; name a file in it that holds a dump", name)}
		}
	}
	var text strings.Builder
	if _, err := io.Copy(&text, io.LimitReader(in, stackdump.MaxBytes+1)); err != nil {
		return dumpFile{}, untold(fmt.Errorf("cannot read %q: %w; try again, or copy it to a file that can be read", name, reason(err)))
	}
	d := dumpFile{text: text.String()}
	if h, body, ok := process.CutHeader(d.text); ok {
		d.entry, d.text = dumpEntry(&h), body
	}
	d.entry.Name, d.entry.Bytes = name, int64(len(d.text))
	if name == standardInput {
		d.entry.Name = "standard input"
	}
	return d, nil
}

// printRawDump prints the text with its lines, and nothing that a terminal obeys.
func (a *app) printRawDump(f *stackdump.File) error {
	if f.Raw == "" && len(f.Dumps) > 0 {
		_, err := fmt.Fprintln(a.env.Stdout, "(a profile in binary form: it has no text)")
		return err
	}
	p := &printer{w: a.env.Stdout}
	for line := range strings.Lines(f.Raw) {
		p.printf("%s\n", cleanLine(strings.TrimRight(line, "\r\n")))
	}
	return p.err
}

// cleanLine cleans a line but keeps the tabs that indent it.
func cleanLine(line string) string {
	body := strings.TrimLeft(line, "\t")
	return line[:len(line)-len(body)] + clean(body)
}

// printDumpView prints a view as plain text, what is folded on one line.
func printDumpView(to io.Writer, v *stackdump.View) error {
	p := &printer{w: to}
	p.printf("DUMP  %s\n%s\n", clean(v.Title), clean(v.Headline))
	for _, note := range v.Notes {
		p.printf("      %s\n", clean(note))
	}
	for i := range v.Sections {
		printDumpSection(p, &v.Sections[i])
	}
	if v.More > 0 {
		p.printf("\nand %d more stacks: --raw shows them\n", v.More)
	}
	printDumpLines(p, "lines that belong to no dump", v.Stray, v.StrayMore)
	printDumpLines(p, "capture", v.Log, 0)
	return p.err
}

func printDumpSection(p *printer, s *stackdump.Section) {
	fold := " "
	if !s.Open {
		fold = "+"
	}
	p.printf("\n%s %s", fold, clean(s.Title))
	if s.Status != "" {
		p.printf("   %s", s.Status)
	}
	if !s.Open {
		p.printf("   %s\n", clean(s.Summary))
		return
	}
	p.printf("\n")
	for _, row := range s.Rows {
		text := clean(strings.TrimSpace(row.Where + "  " + row.Name))
		mark := "  "
		if row.Mark != "" {
			mark, text = "> ", text+"   "+row.Mark
		}
		p.printf("    %s%s\n", mark, text)
	}
}

// printDumpLines prints lines below a title, the first few of them.
func printDumpLines(p *printer, title string, lines []string, more int) {
	const most = 20
	if len(lines) == 0 {
		return
	}
	p.printf("\n%s:\n", title)
	for _, line := range lines[:min(len(lines), most)] {
		p.printf("    %s\n", clean(line))
	}
	if more += len(lines) - min(len(lines), most); more > 0 {
		p.printf("    and %d more\n", more)
	}
}
