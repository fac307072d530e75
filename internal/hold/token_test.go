package hold

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestTokenLayout(t *testing.T) {
	for _, tc := range []struct {
		store, floor int64
		seq          int
		want         driver.Token
		ok           bool
	}{
		{1, 0, 0, 1024, true},
		{1, 0, 1023, 2047, true},
		{driver.MaxToken, 0, 0, driver.MaxToken << 10, true},
		{1, 5, 0, 6 << 10, true},
		{0, 0, 0, 0, false},
		{-1, 0, 0, 0, false},
		{driver.MaxToken + 1, 0, 0, 0, false},
		{driver.MaxToken, 1, 0, 0, false},
		{1, 0, 1024, 0, false},
	} {
		got, err := MakeToken(tc.store, tc.floor, tc.seq)
		if got != tc.want || (err == nil) != tc.ok || err != nil && !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("Token(%d, %d, %d) = %d, %v", tc.store, tc.floor, tc.seq, got, err)
		}
	}
}
