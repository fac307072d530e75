package memcached

import (
	"net/url"
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	u, err := url.Parse("memcached://" + srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*backend)
	got, err := b.Describe(t.Context())
	if err != nil || got["topology"] != "1 server" || got["evictions"] != "off" || got["cas_enabled"] != "yes" || got["maxbytes"] == "" || len(got) != 4 {
		t.Errorf("described as %v, %v, want one server, -M, compare-and-swap and its memory", got, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Describe(t.Context()); err != driver.ErrClosed {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	if got, err := connect(t, srv.Addr).Describe(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("behind an application's client: %v, %v, want nothing", got, err)
	}
}
