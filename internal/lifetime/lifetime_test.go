package lifetime

import (
	"errors"
	"testing"
	"testing/synctest"
)

// start runs until its context ends, and tells when it has returned.
func start(t *testing.T, r *Run) <-chan struct{} {
	t.Helper()
	ctx, finish, err := r.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	returned := make(chan struct{})
	go func() {
		<-ctx.Done()
		close(returned)
		finish()
	}()
	return returned
}

func TestEndEndsTheRunAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Run
		returned := start(t, &r)
		r.End()
		select {
		case <-returned:
		default:
			t.Error("End came back before the run had ended")
		}
		r.End()
	})
}

func TestARunThatBeginsAfterItsEndIsOver(t *testing.T) {
	var r Run
	r.End()
	ctx, finish, err := r.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Error("the context of a run that was ended before goes on")
	}
	finish()
	r.End()
}

func TestItBeginsOnce(t *testing.T) {
	var r Run
	_, finish, err := r.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	finish()
	if _, _, err := r.Begin(t.Context()); !errors.Is(err, ErrTwice) {
		t.Errorf("a second run begins: %v", err)
	}
}
