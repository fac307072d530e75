package file

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// A key whose file cannot have its whole name is listed as any other, also when a cleaner has removed the guards.
func TestListOfLongKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	b := newBackend(t, dir)
	var want []string
	for _, key := range []string{"k", "K\n", strings.Repeat("long/", 200), strings.Repeat("long/", 200) + "#", strings.Repeat("ä", 40) + "\x00"} {
		wantErr(t, "TryLock", second(b.TryLock(t.Context(), key, request("a", 40*24*time.Hour))), nil)
		wantErr(t, "TryLock", second(b.TryLock(t.Context(), "free "+key, request("a", 40*24*time.Hour))), nil)
		wantErr(t, "Unlock", b.Unlock(t.Context(), "free "+key, "a"), nil)
		want = append(want, key)
	}
	slices.Sort(want)
	lists := func(b driver.Backend) {
		t.Helper()
		var got []string
		for key, err := range b.List(t.Context(), "") {
			wantErr(t, "List", err, nil)
			got = append(got, key)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("List: %q, want %q", got, want)
		}
	}
	lists(b)
	wantErr(t, "Close", b.Close(), nil)
	pass(t, dir, 11*24*time.Hour)
	lists(newBackend(t, dir))
}
