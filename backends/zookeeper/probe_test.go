package zookeeper

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestServerVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"": "", "3.5.0": "ZooKeeper 3.5.0", "3.10.1": "ZooKeeper 3.10.1", "4.0.0": "ZooKeeper 4.0.0", "unknown": "ZooKeeper unknown"} {
		if got, err := serverVersion(version); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", version, got, err, want)
		}
	}
	for _, version := range []string{"3.4.14", "2.9.9"} {
		if _, err := serverVersion(version); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", version, err)
		}
	}
}
