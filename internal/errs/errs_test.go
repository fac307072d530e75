package errs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/coordgo/coord/driver"
)

// A text says nothing twice, and why a store did not apply a call in place of that it did not.
func TestChain(t *testing.T) {
	refused := fmt.Errorf("%w: wrong password", driver.ErrNotSent)
	late := fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	for want, err := range map[string]error{
		"store unavailable: wrong password":                               Chain(driver.ErrUnavailable, refused),
		"store unavailable: not applied by the store":                     Chain(driver.ErrUnavailable, driver.ErrNotSent),
		"store unavailable: no answer in time: context deadline exceeded": Chain(driver.ErrUnavailable, context.DeadlineExceeded, late),
		"outcome unknown: x":                                              Chain(ErrUnknownOutcome, errors.New("x"), errors.New("x")),
	} {
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Chain(driver.ErrUnavailable, refused); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v does not match its parts", err)
	}
}

func TestChainSaysNothingTwice(t *testing.T) {
	away := errors.New("away")
	err := Chain(away, errors.New("late: the budget"), errors.New("away: no answer"))
	if got := err.Error(); got != "late: the budget: away: no answer" || !errors.Is(err, away) {
		t.Errorf("%q", got)
	}
}
