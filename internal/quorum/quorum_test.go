package quorum_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.id, func(t *testing.T) {
			for i, wrong := range s.try(t) {
				if i < 10 {
					t.Errorf("%s: %s", s.name, wrong)
				}
			}
		})
	}
}

// named is a store that calls itself otherwise.
type named struct {
	driver.Backend
	info driver.Info
}

func (n named) Info() driver.Info { return n.info }

func TestMembers(t *testing.T) {
	one := memory.New()
	for name, tt := range map[string]struct {
		members []driver.Backend
		want    string
	}{
		"two":       {[]driver.Backend{memory.New(), memory.New()}, "want 3 or more"},
		"twice":     {[]driver.Backend{one, memory.New(), one}, "member 3 is there twice"},
		"etcd":      {[]driver.Backend{memory.New(), memory.New(), named{memory.New(), driver.Info{Name: "etcd"}}}, "a quorum by itself"},
		"memcached": {[]driver.Backend{memory.New(), named{memory.New(), driver.Info{Name: "memcached"}}, memory.New()}, "no clock"},
		"no vote":   {[]driver.Backend{memory.New(), named{memory.New(), driver.Info{Name: "redis"}}, memory.New()}, "does not claim vote"},
	} {
		_, err := quorum.New(quorum.MaxTTL, tt.members...)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ErrInvalid: %s", name, err, tt.want)
		}
	}
}
