package cli

import (
	"errors"
	"fmt"
)

// The exit codes of every command. Supervisors and CI act on them, so a code
// never changes its meaning.
const (
	exitDone      = 0  // done, or healthy
	exitBadNews   = 1  // bad news, or the action failed
	exitUntold    = 2  // could not tell, or wrong usage
	exitFault     = 75 // an unrecovered fault of ours; restarting may help
	exitMisconfig = 78 // the configuration is wrong; restarting does not help
)

// exitError is an error that knows the exit code it stands for. An error
// without one comes from the command line parser: wrong usage, exitUntold.
type exitError struct {
	code int
	err  error // nil: everything was said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// badNews is for an action that failed or news that is bad.
func badNews(err error) error { return &exitError{exitBadNews, err} }

// untold is for a question that could not be answered.
func untold(err error) error { return &exitError{exitUntold, err} }

// fault is for a fault of our own.
func fault(err error) error { return &exitError{exitFault, err} }

// misconfigured is for flags, files and environment that cannot be right.
func misconfigured(err error) error { return &exitError{exitMisconfig, err} }

// exitWith ends a command that has said everything already.
func exitWith(code int) error {
	if code == exitDone {
		return nil
	}
	return &exitError{code, nil}
}

// codeOf gives the exit code of a command's error, and what is still to be said.
func codeOf(err error) (code int, say error) {
	if err == nil {
		return exitDone, nil
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code, e.err
	}
	return exitUntold, err
}
