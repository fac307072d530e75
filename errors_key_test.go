package coord_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// An error names the key as the application gave it, without the prefix, and
// also when the key itself is the mistake.
func TestErrorNamesTheKeyAsGiven(t *testing.T) {
	client, err := coord.New(memory.New(), coord.WithPrefix("app:"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	long := strings.Repeat("k", coord.MaxKey+1)
	for _, tc := range []struct {
		name string
		ctx  context.Context
		key  string
	}{
		{"ended context", gone, "k"},
		{"long key", t.Context(), long},
	} {
		_, allowErr := client.Allow(tc.ctx, tc.key, coord.PerSecond(1))
		_, lockErr := client.Lock(tc.ctx, tc.key)
		for _, err := range []error{allowErr, lockErr, client.Wait(tc.ctx, tc.key, coord.PerSecond(1))} {
			var e *coord.Error
			if !errors.As(err, &e) || e.Key != tc.key {
				t.Errorf("%s: %v: want the key as given", tc.name, err)
			}
		}
	}
}
