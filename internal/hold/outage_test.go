package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// A wait that ends by a time-out tells what the store said before, and its outcome is that of the time-out.
func TestOutageTellsWhatCameFirst(t *testing.T) {
	start := clock.Instant{}
	late := start.Add(time.Minute)
	refusal := fmt.Errorf("%w: wrong password", driver.ErrNotSent)
	o := outage{since: start}
	for _, err := range []error{context.DeadlineExceeded, refusal, errors.New("the lease has expired")} {
		if o.lasts(err, time.Hour, late) {
			t.Error("an outage of a minute has lasted an hour")
		}
	}
	if !o.lasts(context.DeadlineExceeded, time.Minute, late) {
		t.Error("an outage of a minute has not lasted one")
	}
	err := o.tell(t.Context(), context.DeadlineExceeded)
	if !strings.Contains(err.Error(), "wrong password") || driver.Definite(err) {
		t.Errorf("%v, definite %v: want the refusal told, and an outcome that is unknown", err, driver.Definite(err))
	}
	if err := o.tell(t.Context(), refusal); strings.Count(err.Error(), "wrong password") != 1 {
		t.Errorf("%v: want it said once", err)
	}
}
