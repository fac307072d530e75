package coordtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
)

// An application's own test: what does it do when its lock is lost?
func ExampleClient() {
	_ = func(t *testing.T) {
		client := coordtest.New(t)
		err := coord.Do(t.Context(), client, "invoices", func(ctx context.Context) error {
			client.Lose("invoices") // as if the store had dropped the hold
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, coord.ErrLost) {
			t.Errorf("%v: want ErrLost", err)
		}
	}
}
