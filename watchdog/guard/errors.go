package guard

import "errors"

// The causes for which a session cancels the context of its work; see
// context.Cause.
var (
	// ErrBudget: the budget is spent.
	ErrBudget = errors.New("the budget of the session is spent; raise it, or end the work here")
	// ErrStopped: an operator stopped the session. What the work waited for is
	// not to be used any more.
	ErrStopped = errors.New("the session was stopped by an operator; end the work here")
	// ErrGone: the registry says that this execution was reaped or expired, so
	// that somebody else may do its work already. A Publisher says so by an
	// error that wraps it.
	ErrGone = errors.New("the registry has given this execution up; end the work here, or register anew")
)

// ErrUnfinished is what a session ends with that is closed without Complete or
// Fail.
var ErrUnfinished = errors.New("the work ended without saying how; call Complete or Fail before Close")
