package chaos

import (
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/testserver"
)

// singleBreaks gives the address of a relay to a server that is alone, and what may happen to the two.
func singleBreaks(t *testing.T, s *testserver.Server) (addr string, breaks []Break) {
	t.Helper()
	link, err := conformance.NewProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link.Addr(), []Break{
		{Name: "server killed", Break: s.Kill, Heal: s.Restart, Lasts: time.Second},
		{Name: "server paused", Break: s.Pause, Heal: s.Resume, Lasts: 2 * time.Second},
		{Name: "clients cut off", Break: link.Cut, Heal: link.Heal, Lasts: 2 * time.Second},
	}
}

// Redis writes down what it does before it answers, so that a restart loses nothing.
func TestChaosRedis(t *testing.T) {
	runScenario(t, Scenario{Name: "redis"}, func() (string, []Break) {
		addr, breaks := singleBreaks(t, testserver.Redis(t, testserver.Durable()))
		return "redis://" + addr, breaks
	})
}

// PostgreSQL writes down what it does before it answers.
func TestChaosPostgres(t *testing.T) {
	runScenario(t, Scenario{Name: "postgres"}, func() (string, []Break) {
		addr, breaks := singleBreaks(t, testserver.Postgres(t))
		return testserver.PostgresURL(testserver.PostgresUser, addr), breaks
	})
}

// Memcached forgets all at a restart.
func TestChaosMemcached(t *testing.T) {
	runScenario(t, Scenario{Name: "memcached", Lossy: true}, func() (string, []Break) {
		addr, breaks := singleBreaks(t, testserver.Memcached(t, testserver.WithFlags("-M")))
		return "memcached://" + addr, breaks
	})
}

// Files have no server that could break. Those who hold one are killed.
func TestChaosFile(t *testing.T) {
	runScenario(t, Scenario{Name: "file"}, func() (string, []Break) {
		return "file://" + t.TempDir(), []Break{{Name: "nothing but the death of holders", Lasts: 2 * time.Second}}
	})
}
