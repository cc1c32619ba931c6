package watchdog

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// creditsSoon is within what time credits must run out to be an alert, and
	// creditsFine from when on they no longer are one: burn rates waver.
	creditsSoon = 30 * time.Minute
	creditsFine = 45 * time.Minute
	// creditsCheck is how often one that stands is looked at without a change.
	creditsCheck = time.Minute
)

// budgetWords are in the message of a guard whose budget is spent, or nearly.
const budgetWords = "credits are spent"

// credits is how much an execution has left, and for how long.
type credits struct {
	left    float64
	out     time.Duration // until it is gone; -1 nobody knows
	warning string        // of its budget; "" none
}

// creditsOf is what is known of the credits of a record.
func (t *Tracker) creditsOf(r *record) (c credits, known bool) {
	c = credits{left: r.credits, out: -1}
	sd := t.store.sideOf(r)
	if sd != nil && strings.Contains(sd.message, budgetWords) {
		c.warning = sd.message
	}
	if math.IsNaN(r.credits) {
		return c, false
	}
	rate := float64(r.burn)
	switch {
	case r.credits <= 0:
		c.out = 0
	case rate > 0 && !stopped(rate, float64(r.spent), t.now.Mono-t.mono(r.creditAt), t.thresholdsOf(r, sd).Interval):
		if minutes := r.credits / rate; minutes < 365*24*60 {
			c.out = time.Duration(minutes * float64(time.Minute))
		}
	}
	return c, true
}

// watchCredits opens and closes the alert of credits that run out, where they
// changed just now.
func (t *Tracker) watchCredits(n uint32, r *record) {
	a := t.alerts.credits[n]
	sd := t.store.sideOf(r)
	if a == nil && !(r.credits <= 0 || r.credits <= float64(r.burn)*creditsSoon.Minutes() || sd != nil && sd.message != "") {
		return
	}
	c, known := t.creditsOf(r)
	soon := known && (c.warning != "" || c.out >= 0 && c.out <= creditsSoon)
	fine := !known || c.warning == "" && (c.out < 0 || c.out > creditsFine)
	gone := r.flags&flagEndedByBeat != 0 || r.verdict.Ended()
	switch {
	case a != nil && (gone || fine || a.generation != r.generation && a.generation != 0):
		t.closeAlert(a)
	case a != nil:
		a.generation = r.generation
		a.text = creditsText(a.id, &c)
		if e := creditsEvidence(&c); e > a.evidence {
			a.evidence = e
			t.stand(a, "nothing is left")
		}
	case soon && !gone:
		a = t.newAlert(CauseCredits, n, r, t.now.Mono)
		a.evidence, a.text = creditsEvidence(&c), creditsText(a.id, &c)
		t.alerts.credits[n] = a
		t.openAlert(a)
		t.recheck(a)
	}
}

// creditsEvidence grows when the last of them is gone.
func creditsEvidence(c *credits) uint64 {
	if c.left <= 0 {
		return 2
	}
	return 1
}

// checkCredits looks at an alert of credits without a beat that changed them: it
// leaves when they are no longer spent, or when the execution ended.
func (t *Tracker) checkCredits(a *alert) {
	a.checkAt = 0
	r := t.store.at(a.rec)
	if r.birth != a.birth {
		t.dropAlert(a)
		return
	}
	if t.watchCredits(a.rec, r); a.index >= 0 {
		t.recheck(a)
	}
}

func (t *Tracker) recheck(a *alert) {
	a.checkAt = t.now.Mono + creditsCheck
	t.at(a, a.checkAt)
}

// creditsText is "CREDITS x: 1.20 left, out in 12m."
func creditsText(id ID, c *credits) string {
	var b bytes.Buffer
	b.WriteString("CREDITS " + string(id) + ": " + formatCredits(c.left) + " left")
	switch {
	case c.left <= 0:
		b.WriteString(", out")
	case c.out >= 0:
		b.WriteString(", out in " + FormatAge(c.out))
	}
	if c.warning != "" {
		b.WriteString("; " + c.warning)
	}
	b.WriteString(".")
	return b.String()
}

// formatCredits is an amount as people see it: 8.43, 120, 12.4k.
func formatCredits(c float64) string {
	switch abs := math.Abs(c); {
	case math.IsNaN(c):
		return "-"
	case abs < 100:
		return strconv.FormatFloat(c, 'f', 2, 64)
	case abs < 10_000:
		return strconv.FormatFloat(c, 'f', 0, 64)
	case abs < 1e6:
		return strconv.FormatFloat(c/1e3, 'f', 1, 64) + "k"
	case abs < 1e9:
		return strconv.FormatFloat(c/1e6, 'f', 1, 64) + "M"
	}
	return strconv.FormatFloat(c, 'g', 2, 64)
}
