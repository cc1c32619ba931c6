package stackdump

import "cmp"

// Summary is what dump-view --json prints of a file. Unknown values are null.
type Summary struct {
	Format    Format       `json:"format"`
	Dumps     int          `json:"dumps"`
	Threads   int          `json:"threads"`   // of all dumps
	Groups    int          `json:"groups"`    // of the first one
	Culprit   []SummaryRow `json:"culprit"`   // never null
	Loop      *string      `json:"loop"`      // name of its thread, else its id
	Truncated *string      `json:"truncated"` // threads, frames or bytes
	Deadlocks int          `json:"deadlocks"` // cycles that are named or likely
	Stray     int          `json:"stray_lines"`
	Verdict   Verdict      `json:"verdict"`
}

// SummaryRow is a frame that is accused.
type SummaryRow struct {
	Function string  `json:"function"`
	File     *string `json:"file"` // its base name
	Line     *int    `json:"line"`
}

// NewSummary tells of a file in the shape of dump-view --json.
func NewSummary(f *File, o Options) Summary {
	s := Summary{Format: f.Format, Dumps: len(f.Dumps), Threads: f.Threads(), Stray: f.Stray, Verdict: NotADump, Culprit: []SummaryRow{}}
	s.Truncated = known(f.Cut.String())
	if len(f.Dumps) == 0 {
		return s
	}
	first := Analyze(&f.Dumps[0], o)
	s.Groups = len(first.Groups)
	a, _ := decisive(f, first, o)
	s.Verdict = a.Verdict
	for _, c := range a.Culprits {
		row := SummaryRow{Function: c.Name, File: known(c.File)}
		if c.Line > 0 {
			row.Line = &c.Line
		}
		s.Culprit = append(s.Culprit, row)
	}
	if a.Loop >= 0 {
		t := &a.Dump.Threads[a.Loop]
		s.Loop = known(cmp.Or(t.Name, t.ID))
		if s.Loop == nil && t.Role {
			s.Loop = known("event-loop")
		}
	}
	for _, c := range a.Cycles {
		if c.Certainty != Suspected {
			s.Deadlocks++
		}
	}
	return s
}

// decisive is the analysis that speaks for a file, and the number of its dump:
// of the first dump, or, if that one is unclear, of the first that is not.
func decisive(f *File, first *Analysis, o Options) (*Analysis, int) {
	const most = 16 // looked at
	if first.Verdict != Unclear {
		return first, 0
	}
	for i := 1; i < min(len(f.Dumps), most); i++ {
		if a := Analyze(&f.Dumps[i], o); a.Verdict != Unclear {
			return a, i
		}
	}
	return first, 0
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
