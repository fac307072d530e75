package coord_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/wrap"
)

func TestCallers(t *testing.T) {
	c := openTest(t, memory.New(), coord.WithCallers(), coord.WithHolderName(strings.Repeat("h", 60)))
	named := func(key string) {
		t.Helper()
		h := got[coord.Holder](t)(c.Inspect(t.Context(), key))
		if !regexp.MustCompile(`^h+/callers_test\.go:\d+$`).MatchString(h.Name) || len(h.Name) != 64 {
			t.Errorf("the holder of %s is %q", key, h.Name)
		}
	}
	defer got[*coord.Lock](t)(c.Lock(t.Context(), "lock")).Unlock(t.Context())
	named("lock")
	do := func(ctx context.Context, key string) (struct{}, error) { named(key); return struct{}{}, nil }
	ok(t, coord.Do(t.Context(), c, "do", func(ctx context.Context) error { named("do"); return nil }))
	_, err := wrap.Locked(c, func(key string) string { return key }, do)(t.Context(), "locked")
	ok(t, err)
}
