package postgres

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/crowd"
	"github.com/coordgo/coord/internal/testserver"
)

func crowdAt(t *testing.T, url string) crowd.Open {
	return func() driver.Backend { return open(t, url) }
}

func crowded(t *testing.T, _ time.Duration) crowd.Open {
	return crowdAt(t, patientURL(t, server(t).Addr))
}

func TestCrowd(t *testing.T) {
	t.Parallel() // it mostly waits
	crowd.Small.Run(t, crowded)
}

// Many waiters are those on a slow disk and those behind a pooler.
func TestNightlyCrowd(t *testing.T) {
	size := crowd.Large
	size.Waiters = 0
	size.Run(t, crowded)
}

func TestNightlyManyPermits(t *testing.T) { crowd.Permits(t, crowded(t, 0), 1024, crowd.Lasting) }

// slowDisk starts a server whose commits take at least 5 ms.
func slowDisk(t *testing.T) *testserver.Server {
	t.Helper()
	srv := testserver.Postgres(t, testserver.WithFlags("-c", "commit_delay=5000", "-c", "commit_siblings=0", "-c", "max_connections=1000"))
	admin(t, testserver.PostgresURL(testserver.PostgresUser, srv.Addr), schema(t))
	return srv
}

// waiterURL is that of a waiter with one connection.
func waiterURL(addr string) string {
	return testserver.PostgresURL(testserver.PostgresUser, addr) + "&timeout=5s&pool_size=1"
}

// Each waiter has a process of the server.
func TestNightlyCrowdOnASlowDisk(t *testing.T) {
	crowd.Waiters(t, crowdAt(t, waiterURL(slowDisk(t).Addr)), 250)
}

func TestNightlyCrowdBehindPgBouncer(t *testing.T) {
	crowd.Waiters(t, crowdAt(t, waiterURL(testserver.PgBouncer(t, slowDisk(t)).Addr)), 500)
}
