package permit

import (
	"errors"
	"math"
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// A sum that an int cannot hold is above what the limit grants.
func TestSumOfDemandsIsNoNegativeNumber(t *testing.T) {
	one := *demand(t, "k", ten, math.MaxInt/4*3)
	if _, err := CheckAll([]driver.Demand{one, one}); !errors.Is(err, errs.ErrExceedsBurst) {
		t.Errorf("%v, want %v", err, errs.ErrExceedsBurst)
	}
}
