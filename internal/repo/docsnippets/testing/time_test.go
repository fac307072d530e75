package service

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
)

// TestLeaseEndsInAnOutage sees a lock that cannot be renewed.
func TestLeaseEndsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		lock, err := client.Lock(t.Context(), "tickets", coord.TTL(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		client.Cut()
		<-lock.Done() // 30 seconds later, in no time
		if err := lock.Err(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
	})
}
