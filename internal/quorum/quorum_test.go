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
			for i, wrong := range s.try(t, quorum.Bugs{}) {
				if i < 10 {
					t.Errorf("%s: %s", s.name, wrong)
				}
			}
		})
	}
}

// TestMutants shows that each defect is found.
func TestMutants(t *testing.T) {
	for name, tt := range map[string]struct {
		bugs   quorum.Bugs
		killer string
	}{
		"half of the members":      {quorum.Bugs{Half: true}, "QUORUM-09"},
		"longest lease":            {quorum.Bugs{LongestLease: true}, "QUORUM-10"},
		"lease from the answer":    {quorum.Bugs{LeaseFromEnd: true}, "QUORUM-10"},
		"token not written back":   {quorum.Bugs{NoWriteBack: true}, "QUORUM-04"},
		"vote of a newborn":        {quorum.Bugs{Newborn: true}, "QUORUM-03"},
		"errors that vote":         {quorum.Bugs{ErrorVotes: true}, "QUORUM-07"},
		"renewal by any":           {quorum.Bugs{RenewalByAny: true}, "QUORUM-09"},
		"waits for all":            {quorum.Bugs{WaitsForAll: true}, "QUORUM-01"},
		"no heal":                  {quorum.Bugs{NoHeal: true}, "QUORUM-02"},
		"nothing given back":       {quorum.Bugs{NoGiveBack: true}, "QUORUM-06"},
		"everyone asks everywhere": {quorum.Bugs{EveryoneAsks: true}, "QUORUM-06"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range scenarios {
				if s.id != tt.killer {
					continue
				}
				if wrong := s.try(t, tt.bugs); len(wrong) == 0 {
					t.Errorf("%s does not find it", s.id)
				} else {
					t.Logf("%d times, first: %s", len(wrong), wrong[0])
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
