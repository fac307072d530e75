package file

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestDescribe(t *testing.T) {
	b, err := open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Describe(t.Context())
	if err != nil || got["topology"] != "one directory" {
		t.Errorf("described as %v, %v, want one directory", got, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Describe(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
