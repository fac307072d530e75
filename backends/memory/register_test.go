package memory

import (
	"errors"
	"net/url"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestOpen(t *testing.T) {
	at := func(raw string) client {
		t.Helper()
		b, prefix, err := driver.Open(t.Context(), raw)
		if err != nil || prefix != "" {
			t.Fatalf("open %s: prefix %q, %v", raw, prefix, err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return client{t, b.(*backend)}
	}
	a, b := at("memory://"), at("memory://")
	one, two, other := at("memory://test-open"), at("memory://test-open/"), at("memory://test-open-2")
	for _, c := range []client{a, b, one, other} {
		c.mustTry("k", "a", sec)
	}
	wantErr(t, "the same name", second(two.try("k", "b", sec)), driver.ErrLocked)
	wantErr(t, "Close", one.Close(), nil)
	wantErr(t, "after a client closed", second(two.try("k", "b", sec)), driver.ErrLocked)
}

func TestOpenRefusals(t *testing.T) {
	for _, raw := range []string{
		"memory://?size=1", "memory://name/path", "memory:name", "memory://user@name", "memory://name:80", "memory://name#1",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := Open(t.Context(), u); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, %v, want ErrInvalid", raw, b, err)
		}
	}
}
