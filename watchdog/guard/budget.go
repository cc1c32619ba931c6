package guard

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// warnAt is the share of a budget at which its owner is warned.
const warnAt = 0.8

// Budget bounds what a session may spend, in credits. At 0.8 of it the owner is
// warned once, and the next beat says so; once all is spent, the context of the
// work is cancelled with ErrBudget and the session ends in error. It belongs to
// one session and is safe for concurrent use.
type Budget struct {
	max    float64
	onWarn func(spent, max float64)

	mu       sync.Mutex
	spent    float64
	rest     float64 // what spent lost to rounding
	warned   bool
	message  string
	attached bool
	changed  func(exhausted bool) // told without the lock; nil before the session starts
}

// NewBudget makes a budget of max credits. onWarn may be nil; it is called once,
// by the Spend that reaches 0.8 of max.
func NewBudget(max float64, onWarn func(spent, max float64)) (*Budget, error) {
	if !(max > 0) || math.IsInf(max, 1) {
		return nil, fmt.Errorf("guard: a budget of %v credits cannot be kept; give a number above 0, or no Budget", max)
	}
	return &Budget{max: max, onWarn: onWarn}, nil
}

// Spend takes n credits off the budget. Its error is ErrBudget once the budget
// is spent: the spending has been counted then, but there should be no more. An
// n that is negative, NaN or infinite is refused and changes nothing.
func (b *Budget) Spend(n float64) error {
	if !(n >= 0) || math.IsInf(n, 1) {
		return fmt.Errorf("guard: %v credits cannot be spent; give a finite number of 0 or more", n)
	}
	b.mu.Lock()
	before := b.total()
	b.add(n)
	spent := b.total()
	warn := !b.warned && spent >= warnAt*b.max
	if warn {
		b.warned = true
		b.message = fmt.Sprintf("%.3g of %.6g credits are spent", spent, b.max)
	}
	exhausted := spent >= b.max
	now := exhausted && before < b.max
	if now {
		b.message = fmt.Sprintf("budget exhausted: %.6g of %.6g credits are spent", spent, b.max)
	}
	changed := b.changed
	b.mu.Unlock()

	if changed != nil && (warn || now) {
		changed(exhausted)
	}
	if warn && b.onWarn != nil {
		b.onWarn(spent, b.max)
	}
	if exhausted {
		return ErrBudget
	}
	return nil
}

// Remaining is the balance; negative if the last spending went over the budget.
func (b *Budget) Remaining() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.max - b.total()
}

// add sums as Neumaier did, so that ten tenths are one.
func (b *Budget) add(n float64) {
	sum := b.spent + n
	if math.IsInf(sum, 1) {
		b.spent, b.rest = math.MaxFloat64, 0
		return
	}
	if b.spent >= n {
		b.rest += (b.spent - sum) + n
	} else {
		b.rest += (n - sum) + b.spent
	}
	b.spent = sum
}

func (b *Budget) total() float64 {
	return min(b.spent+b.rest, math.MaxFloat64)
}

// attach makes b the budget of one session.
func (b *Budget) attach(changed func(exhausted bool)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.attached {
		return errors.New("guard: the Budget belongs to another session already; make one for each")
	}
	b.attached, b.changed = true, changed
	return nil
}

// told gives the balance and what is to be said of it.
func (b *Budget) told() (remaining float64, message string, exhausted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	spent := b.total()
	return b.max - spent, b.message, spent >= b.max
}
