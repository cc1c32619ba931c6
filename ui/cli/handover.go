package cli

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/sources/filestore"
	"github.com/sessionwatch/sessionwatch/ui"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// Bounds of what a hand-over reads.
const (
	handoverMoments = 50_000
	handoverAudit   = 32 << 20
	// handoverBefore is how much more of the history is read: what began before may
	// have ended in the time that is asked for.
	handoverBefore = time.Hour
)

// shift makes hand-overs: from windows, and from what is kept.
type shift struct {
	look    func(context.Context, watchdog.Ask) (watchdog.Window, error)
	audit   string             // path of the audit file; empty: none
	history *filestore.History // nil: none is kept
}

// Handover sums up so long until now. What cannot be read is told in it.
func (s shift) Handover(ctx context.Context, since time.Duration) (watchdog.Handover, error) {
	w, err := s.look(ctx, watchdog.HandoverAsk())
	if err != nil {
		return watchdog.Handover{}, err
	}
	in := watchdog.HandoverInput{Since: time.Unix(0, w.Now.Wall).Add(-since), Window: w}
	if s.history != nil {
		if err := s.past(ctx, &in); err != nil {
			in.Doubts = append(in.Doubts, "the history cannot be read: "+err.Error())
		}
	}
	if s.audit != "" {
		var actions auditActions
		cut, err := filestore.ReadAudit(s.audit, handoverAudit, actions.line)
		switch {
		case err != nil:
			in.Doubts = append(in.Doubts, "actions of other processes are not known: "+err.Error())
		case cut && (len(actions.list) == 0 || actions.list[0].At.After(in.Since)):
			in.Doubts = append(in.Doubts, "the audit file is long: older actions stand in it alone")
		}
		in.Actions = actions.all()
	}
	return watchdog.NewHandover(in), nil
}

// past reads the history.
func (s shift) past(ctx context.Context, in *watchdog.HandoverInput) error {
	moments, err := s.history.Fleet(ctx, in.Since.Add(-handoverBefore), handoverMoments)
	if err != nil {
		return err
	}
	if in.PastFrom, err = s.history.Oldest(ctx); err != nil {
		return err
	}
	if n := len(moments); n == handoverMoments {
		in.PastFrom = moments[n-1].At
	}
	in.Past = make([]watchdog.Transition, len(moments))
	for i := range moments {
		in.Past[i] = transitionOf(&moments[i])
	}
	return nil
}

// transitionOf is the event that a moment was made of.
func transitionOf(m *filestore.Moment) watchdog.Transition {
	t := watchdog.Transition{ID: m.ID, Generation: m.Generation, Kind: m.Kind, Text: m.Text, At: watchdog.Instant{Wall: m.At.UnixNano()}}
	if m.Kind == "verdict" {
		t.Kind, t.New = "", m.From == ""
		t.From, _ = watchdog.VerdictOf(m.From)
		t.To, _ = watchdog.VerdictOf(m.To) // of a newer version: none
	}
	return t
}

// auditActions puts the lines of an audit file together, by action.
type auditActions struct {
	list  []*watchdog.HandoverAction
	byID  map[string]*watchdog.HandoverAction
	asked map[string]*watchdog.HandoverAction // without an id yet, by what is wanted
}

func (a *auditActions) line(line []byte) {
	var e struct {
		actionEntry
		Sessions, Held int // of a release
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	at := time.UnixMilli(int64(e.Timestamp * 1000)).UTC()
	one := &watchdog.HandoverAction{Command: e.Command, At: at, By: e.IssuedBy, Op: e.Op, ID: watchdog.ID(e.SessionID),
		Generation: watchdog.Generation(max(e.Generation, 0)), Reason: e.Reason}
	wish := strings.Join([]string{e.Op, e.SessionID, e.IssuedBy}, "\x00")
	switch e.Event {
	case "action.asked":
		a.list = append(a.list, one)
		if a.asked == nil {
			a.asked, a.byID = map[string]*watchdog.HandoverAction{}, map[string]*watchdog.HandoverAction{}
		}
		a.asked[wish] = one
	case "action.fate":
		a.fate(one, &e.actionEntry, wish)
	case "brake.release", "brake.released", "brake.release_refused":
		one.By, one.Op, one.Fate, one.Final = e.By, "release", e.Fate, true
		if e.Event == "brake.released" {
			one.Fate = watchdog.FateEffective.String()
		} else if one.Fate == "" {
			one.Fate = watchdog.FateRefused.String()
		}
		a.list = append(a.list, one)
	}
}

// fate takes in a word on an action. The first one names it.
func (a *auditActions) fate(one *watchdog.HandoverAction, e *actionEntry, wish string) {
	if a.byID == nil {
		a.asked, a.byID = map[string]*watchdog.HandoverAction{}, map[string]*watchdog.HandoverAction{}
	}
	known := a.byID[e.Command]
	if known == nil {
		if known = a.asked[wish]; known == nil {
			known = one
			a.list = append(a.list, one)
		}
		delete(a.asked, wish)
		known.Command = e.Command
		a.byID[e.Command] = known
	}
	if known.Final {
		return
	}
	known.Fate, known.Detail, known.Secs = e.Fate, e.Detail, one.At.Sub(known.At).Seconds()
	known.Generation = max(known.Generation, one.Generation)
	f, err := watchdog.ParseFate(e.Fate)
	known.Final = err == nil && f.Final()
}

func (a *auditActions) all() []watchdog.HandoverAction {
	out := make([]watchdog.HandoverAction, len(a.list))
	for i, one := range a.list {
		out[i] = *one
	}
	return out
}

// auditIn is the path of the audit file in a data directory; empty: there is none.
func auditIn(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "audit.jsonl")
}

func encodeHandover(to io.Writer, h *watchdog.Handover) error {
	out := json.NewEncoder(to)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(h)
}

// exportHandover writes a hand-over as JSON or as text.
func exportHandover(to io.Writer, e *ui.Export) error {
	if strings.HasSuffix(e.Path, ".json") {
		return encodeHandover(to, e.Handover)
	}
	_, err := io.WriteString(to, strings.Join(e.Text, "\n")+"\n")
	return err
}

// exportAlerts writes the queue of alerts as JSON, the first one first.
func exportAlerts(to io.Writer, list []watchdog.Alert) error {
	type alert struct {
		Key        watchdog.AlertKey    `json:"key"`
		Cause      string               `json:"cause"`
		ID         *watchdog.ID         `json:"session_id"`
		Generation *watchdog.Generation `json:"generation"`
		Sessions   int                  `json:"sessions"`
		Members    []watchdog.ID        `json:"members,omitempty"`
		Since      string               `json:"since"`
		Standing   string               `json:"standing"`
		Author     string               `json:"author,omitempty"`
		Note       string               `json:"note,omitempty"`
		Until      string               `json:"until,omitempty"`
		Text       string               `json:"text"`
	}
	out := make([]alert, len(list))
	for i := range list {
		a := &list[i]
		one := alert{Key: a.Key, Cause: a.Cause.String(), Sessions: a.N, Members: a.Members, Since: stamp(watchdog.Instant{Wall: a.Began}),
			Standing: a.Standing.String(), Text: a.Text}
		if a.ID != "" {
			one.ID = &a.ID
		}
		if a.Generation != 0 {
			one.Generation = &a.Generation
		}
		if n := a.Note; n != nil {
			if one.Author, one.Note = n.Author, n.Text; !n.Until.IsZero() {
				one.Until = stamp(watchdog.Instant{Wall: n.Until.UnixNano()})
			}
		}
		out[i] = one
	}
	doc := json.NewEncoder(to)
	doc.SetIndent("", "  ")
	doc.SetEscapeHTML(false)
	return doc.Encode(out)
}
