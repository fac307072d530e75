package hold

import (
	"testing"
	"testing/synctest"

	"github.com/coordgo/coord/driver"
)

// A hold that was unlocked is not asked to shrink: that would be a renewal.
func TestShrinkAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		tenure := lock(t, newManager(t, f), 0, nil)
		release(t, tenure)
		f.hung = make(chan struct{}) // for good: a call would not return
		if err := tenure.Shrink(t.Context(), driver.Share{Mode: driver.Read}); err != nil {
			t.Errorf("Shrink: %v", err)
		}
	})
}
