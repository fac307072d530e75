package etcd

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	b := connect(t, shared(t).Addr)
	got, err := b.Describe(t.Context())
	if err != nil || got["topology"] != "1 member" || got["shortest lease"] == "" {
		t.Errorf("described as %v, %v, want one member and the shortest lease", got, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Describe(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
