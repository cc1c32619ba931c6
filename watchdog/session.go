package watchdog

// ID names a session: one long-running agent run. It is hostile text that has
// passed the rules of the wire format; it never contains control characters.
type ID string

// Generation numbers the executions inside a session: 1, 2, 3 ... A restart
// makes a new one. (ID, Generation) is the unit that ends exactly once.
// Zero means that no number is known yet; people see it as "#?".
type Generation uint32

// Source is a place where evidence comes from. There is at most one of each in
// a view, so that a set of them fits in a byte.
type Source uint8

// The sources, in the order in which they are shown (N R H L).
const (
	SourceNATS Source = iota
	SourceRedis
	SourceHTTP
	SourceLocal
	sourceCount
)

var sourceNames = [sourceCount]string{"nats", "redis", "http", "local"}

// String is the name used on the command line and in JSON.
func (s Source) String() string {
	if s < sourceCount {
		return sourceNames[s]
	}
	return "none"
}

var sourceTitles = [sourceCount]string{"NATS", "Redis", "HTTP", "local"}

// Title is how people write the name of a source.
func (s Source) Title() string {
	if s < sourceCount {
		return sourceTitles[s]
	}
	return s.String()
}

// Set is the set that holds this source alone.
func (s Source) Set() SourceSet { return 1 << s }

// AllSources lists the sources in display order.
func AllSources() []Source {
	return []Source{SourceNATS, SourceRedis, SourceHTTP, SourceLocal}
}

// SourceSet is a set of sources.
type SourceSet uint8

// Has reports whether s is in the set.
func (set SourceSet) Has(s Source) bool { return set&s.Set() != 0 }

// Sources lists the members in display order.
func (set SourceSet) Sources() []Source {
	var out []Source
	for _, s := range AllSources() {
		if set.Has(s) {
			out = append(out, s)
		}
	}
	return out
}

// State is what the publisher says of itself.
type State uint8

// The states that the wire format gives a meaning to. Any other text is
// StateOther: kept, shown, and judged as StateRunning would be.
const (
	StateRunning State = iota
	StateStalled
	StateCompleted
	StateError
	StateOther
)

var stateNames = [...]string{"running", "stalled", "completed", "error"}

// StateOf reads a published state.
func StateOf(text []byte) State {
	switch string(text) {
	case "running":
		return StateRunning
	case "stalled":
		return StateStalled
	case "completed":
		return StateCompleted
	case "error":
		return StateError
	}
	return StateOther
}

// String is the published word; StateOther has none of its own.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "other"
}

// Wait is what a publisher declares to be waiting for.
type Wait uint8

// The declared waits of the wire format.
const (
	WaitNone Wait = iota
	WaitHuman
	WaitTool
	WaitRateLimit
	WaitOther
)

var waitNames = [...]string{"", "human", "tool", "rate_limit", "other"}

// WaitOf reads a published waiting_for; ok is false for a word that the wire
// format does not know.
func WaitOf(text []byte) (w Wait, ok bool) {
	for i, name := range waitNames {
		if i > 0 && string(text) == name {
			return Wait(i), true
		}
	}
	return WaitNone, false
}

// String is the word on the wire, empty for WaitNone.
func (w Wait) String() string {
	if int(w) < len(waitNames) {
		return waitNames[w]
	}
	return ""
}
