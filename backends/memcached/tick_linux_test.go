package memcached

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// sinceSecond is how much of a second of the system's monotonic clock has passed.
func sinceSecond(t *testing.T) time.Duration {
	t.Helper()
	const monotonic = 1
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return time.Duration(now.Nsec)
}

// TestNightlyTrap07TwoSecondsInOneTick: memcached takes the whole seconds of the monotonic clock about
// once a second, and a little later each time. When that moment wanders over the turn of a
// second, its clock goes on by two at once, and what was stored in the second before expires a
// second early. Servers that are started shortly before the turn do so soon; no lease on
// them may end early.
func TestNightlyTrap07TwoSecondsInOneTick(t *testing.T) {
	t.Parallel()
	const servers, lead, apart, watch = 4, 6 * time.Millisecond, 1500 * time.Microsecond, 4 * time.Second
	var jumps, judged atomic.Int64
	var wg sync.WaitGroup
	for i := range servers {
		spawn := time.Second - lead + time.Duration(i)*apart
		for sinceSecond(t) < spawn-time.Millisecond || sinceSecond(t) > spawn {
			time.Sleep(200 * time.Microsecond) // the phase is the subject
		}
		srv := testserver.Memcached(t, testserver.WithFlags("-M", "-v"))
		b := connect(t, srv.Addr)
		until := time.Now().Add(watch)
		wg.Go(func() { jumps.Add(countJumps(t, srv.Addr, until)) })
		for n := 0; n < int(watch/(40*time.Millisecond)); n++ {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * 40 * time.Millisecond) // spread over the ticks
				if outlived(t, b, fmt.Sprint("k", n)) {
					judged.Add(1)
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d leases judged on %d servers, whose clocks went on by two seconds at once %d times", judged.Load(), servers, jumps.Load())
	if judged.Load() == 0 {
		t.Error("no lease was judged")
	}
}

// outlived takes a lease of a second and looks whether it is there shortly before its end. It
// reports false if this machine was too slow to tell.
func outlived(t *testing.T, b *backend, key string) bool {
	g, err := b.TryLock(t.Context(), key, driver.Request{ID: newID("a"), TTL: time.Second})
	if err != nil {
		t.Error(err)
		return false
	}
	time.Sleep(time.Until(g.Since.Add(g.TTL - 20*time.Millisecond)))
	_, err = b.client.Get(nameOf(key).key(lockKind))
	age := time.Since(g.Since)
	if age >= g.TTL {
		return false
	}
	if err == memcache.ErrCacheMiss {
		t.Errorf("a lease of %v was over after %v", g.TTL, age)
	} else if err != nil {
		t.Error(err)
	}
	return true
}

// uptime is the clock of a server.
func uptime(t *testing.T, addr string) int64 {
	conn, err := new(dialer).dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for line, err := command(conn, r, "stats\r\n"); err == nil; line, err = r.ReadString('\n') {
		if digits, ok := strings.CutPrefix(strings.TrimSpace(line), "STAT uptime "); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				t.Error(err)
			}
			return n
		}
	}
	t.Error("stats without uptime")
	return 0
}

// countJumps watches the clock of a server, and counts how often it goes on by more than a
// second from one look to the next.
func countJumps(t *testing.T, addr string, until time.Time) (jumps int64) {
	last, at := uptime(t, addr), time.Now()
	for time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond) // a poll
		now := uptime(t, addr)
		if now-last > 1 && time.Since(at) < 500*time.Millisecond {
			jumps++
		}
		last, at = now, time.Now()
	}
	return jumps
}
