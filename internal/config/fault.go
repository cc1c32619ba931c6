package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with the configuration.
type Fault struct {
	Place string // "/etc/x.yaml:12", "NATS_URL", "--nats"
	Line  int    // in the file; 0 not from it
	Key   string // "redis.poll_interval"; empty if no key is to blame
	Text  string // what is wrong and what to do
}

// String is the line that people read: place, key, sentence.
func (f Fault) String() string {
	if f.Key == "" {
		return f.Place + ": " + f.Text
	}
	return f.Place + ": " + f.Key + ": " + f.Text
}

// Faults is the error of a configuration that is refused: every fault found,
// those of the file first, by line. A command exits with code 78 on it.
type Faults struct {
	List []Fault
}

// Error gives one line for each fault.
func (f *Faults) Error() string {
	lines := make([]string, len(f.List))
	for i, one := range f.List {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// sortFaults puts those of the file first, by line; the others keep their order.
func sortFaults(list []Fault) {
	slices.SortStableFunc(list, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Compare(a.Line, b.Line)
	})
}

// maxFaults bounds the list, so that a file that is no configuration at all
// does not flood the terminal.
const maxFaults = 100

func faultsError(list []Fault) error {
	if len(list) == 0 {
		return nil
	}
	sortFaults(list)
	if n := len(list) - maxFaults; n > 0 {
		list = append(list[:maxFaults:maxFaults], Fault{
			Place: list[maxFaults].Place,
			Text:  fmt.Sprintf("and %d more; mend these first", n),
		})
	}
	return &Faults{List: list}
}
