package wire

import (
	"errors"
	"fmt"

	"github.com/sessionwatch/sessionwatch/internal/termtext"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

type head struct {
	ID         watchdog.ID  `json:"session_id"`
	Generation uint32       `json:"generation"`
	Ended      bool         `json:"ended"`
	Executions []execution  `json:"executions"`
	Cadence    span         `json:"heartbeat_interval_secs"`
	Sources    []string     `json:"sources"`
	Overruled  []overruling `json:"overruled,omitempty"`
}

type overruling struct {
	Generation watchdog.Generation `json:"generation"`
	Writer     text                `json:"writer"`
	Nonce      text                `json:"nonce"`
	Reason     text                `json:"reason"`
	At         instant             `json:"at"`
}

type execution struct {
	Generation watchdog.Generation `json:"generation"`
	BootID     text                `json:"boot_id"`
	Start      instant             `json:"started_at"`
	Supervised bool                `json:"supervised"`
}

// EncodeHead writes a head. Start times are cut to milliseconds. An error says
// what no head may lack.
func EncodeHead(h watchdog.Head) ([]byte, error) {
	if !ValidID(h.ID) || h.Generation == 0 {
		return nil, fmt.Errorf("the head of %q cannot be written: it needs a session id and a generation, which is %d", termtext.Clean(string(h.ID)), h.Generation)
	}
	out := head{
		ID: h.ID, Generation: uint32(h.Generation), Ended: h.Ended,
		Executions: []execution{}, Cadence: span(h.Cadence), Sources: []string{},
	}
	for _, x := range h.Executions {
		if x.BootID != "" && !plainName(x.BootID) {
			return nil, fmt.Errorf("the head of %s cannot be written: the boot id %q holds what is not seen, or is too long", h.ID, termtext.Clean(x.BootID))
		}
		out.Executions = append(out.Executions, execution{x.Generation, text(x.BootID), instant(x.Start), x.Supervised})
	}
	for _, o := range h.Overruled {
		if !plainName(o.Nonce) {
			return nil, fmt.Errorf("the head of %s cannot be written: what overrules generation %d has the nonce %q", h.ID, o.Generation, termtext.Clean(o.Nonce))
		}
		out.Overruled = append(out.Overruled, overruling{o.Generation, text(termtext.Clean(o.Writer)), text(o.Nonce), text(termtext.Clean(o.Reason)), instant(o.At)})
	}
	for _, s := range h.Sources.Sources() {
		out.Sources = append(out.Sources, s.String())
	}
	return marshal(out)
}

// DecodeHead reads the head that stands at the place of id. An error says what
// is wrong with it.
func DecodeHead(id watchdog.ID, src []byte) (watchdog.Head, error) {
	h, err := readHead(src)
	switch {
	case err != nil:
	case h.ID != id:
		err = fmt.Errorf("it speaks of %q", h.ID)
	case h.Generation == 0:
		err = errors.New("it has no generation")
	case len(h.Overruled) > watchdog.MaxExecutions:
		err = fmt.Errorf("it has %d overrulings, and %d at most may stand there", len(h.Overruled), watchdog.MaxExecutions)
	case len(h.Executions) > watchdog.MaxExecutions:
		err = fmt.Errorf("it has %d executions, and %d at most may stand there", len(h.Executions), watchdog.MaxExecutions)
	}
	if err != nil {
		return watchdog.Head{}, fmt.Errorf("the head of %s cannot be read: %w; remove it, and it is found anew from the terminal records", id, err)
	}
	return h, nil
}

func readHead(src []byte) (h watchdog.Head, err error) {
	err = readDocument(src, fields{
		"session_id":              sessionID(&h.ID),
		"generation":              generation(&h.Generation),
		"ended":                   flag(&h.Ended),
		"heartbeat_interval_secs": duration(&h.Cadence),
		"executions": list(func(v value) error {
			x, err := readExecution(v)
			h.Executions = append(h.Executions, x)
			return err
		}),
		"overruled": list(func(v value) error {
			o, err := readOverruling(v)
			h.Overruled = append(h.Overruled, o)
			return err
		}),
		"sources": list(func(v value) error {
			for _, s := range watchdog.AllSources() {
				if v.kind == kindText && v.text == s.String() {
					h.Sources |= s.Set()
				}
			}
			return nil // one of a newer version is nothing to us
		}),
	})
	return h, err
}

func readOverruling(v value) (o watchdog.Overruling, err error) {
	if v.kind != kindOther {
		return o, errors.New("is no object")
	}
	err = readMembers(v.raw, fields{
		"generation": generation(&o.Generation),
		"writer":     cleaned(&o.Writer),
		"nonce":      exactly(&o.Nonce),
		"reason":     cleaned(&o.Reason),
		"at":         momentCut(&o.At),
	})
	if err == nil && o.Generation == 0 {
		err = errors.New("has no generation")
	}
	return o, err
}

func readExecution(v value) (x watchdog.Execution, err error) {
	if v.kind != kindOther {
		return x, errors.New("is no object")
	}
	err = readMembers(v.raw, fields{
		"generation": generation(&x.Generation),
		"boot_id":    exactly(&x.BootID),
		"started_at": momentCut(&x.Start),
		"supervised": flag(&x.Supervised),
	})
	if err == nil && x.Generation == 0 {
		err = errors.New("has no generation")
	}
	return x, err
}
