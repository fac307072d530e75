package driver

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestNotSent(t *testing.T) {
	why := errors.New("EOF")
	if err := NotSent(why); !errors.Is(err, ErrNotSent) || !errors.Is(err, why) || err.Error() != "not applied by the store: EOF" {
		t.Errorf("NotSent(EOF) is %v", err)
	}
	for _, err := range []error{nil, ErrClosed, NotSent(why), NotSent(context.Canceled)} {
		if got := NotSent(err); got != err {
			t.Errorf("NotSent(%v) is %v", err, got)
		}
	}
}

// What ended a context is not what became of a call.
func TestEndedContextIsNotDefinite(t *testing.T) {
	lost := fmt.Errorf("%w: %w", context.Canceled, ErrNotHeld)
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, lost, errors.New("EOF")} {
		if Definite(err) {
			t.Errorf("%v is definite", err)
		}
		if !Definite(NotSent(err)) {
			t.Errorf("NotSent(%v) is not definite", err)
		}
	}
	if !Definite(ErrNotHeld) || !Definite(&LockedError{}) {
		t.Error("an answer of the store is not definite")
	}
}
