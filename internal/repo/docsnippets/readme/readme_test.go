package readme

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The snippets hold the lock with a token while they work, and take one permit.
func TestSnippets(t *testing.T) {
	client, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = lock(t.Context(), client, func(ctx context.Context, token coord.Token) error {
		if lock, ok := coord.Held(ctx, "invoices"); !ok || token == 0 || lock.Token() != token {
			t.Errorf("written with the token %d, and without the lock", token)
		}
		return limit(ctx, client, func(context.Context) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Peek(t.Context(), "supplier", coord.PerMinute(2000))
	if err != nil || r.Remaining != 1999 {
		t.Errorf("%+v, %v: want 1999 permits left", r, err)
	}
}
