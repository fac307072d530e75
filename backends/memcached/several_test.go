package memcached

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// keyOn gives a key that b places on the server at addr.
func keyOn(b *backend, addr string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); b.Partition(key) == addr {
			return key
		}
	}
}

// A store opens while one of its servers is down, and while one is silent. Keys of that server are
// unavailable until it is back, and are served then.
func TestOpenWithOneServerAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]struct{ leave, back func(*testserver.Server) }{
		"down":   {(*testserver.Server).Kill, (*testserver.Server).Restart},
		"silent": {(*testserver.Server).Pause, (*testserver.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			up, gone, list := twoServers(t)
			away.leave(gone)
			b := must[*backend](t)(openURL(t, "memcached://"+list))
			onUp, onGone, r := keyOn(b, up.Addr), keyOn(b, gone.Addr), request("a", time.Minute)
			must[driver.Grant](t)(b.TryLock(t.Context(), onUp, r))
			if _, err := b.TryLock(t.Context(), onGone, r); !errors.Is(err, driver.ErrNotSent) {
				t.Errorf("on the server that is away: %v, want ErrNotSent", err)
			}
			away.back(gone)
			if _, err := eventually(func() (driver.Grant, error) { return b.TryLock(t.Context(), onGone, r) }); err != nil {
				t.Errorf("on the server that is back: %v", err)
			}
		})
	}
}

// A server that was away when the store was opened is probed before its first use.
func TestLateServerIsProbed(t *testing.T) {
	t.Parallel()
	up, late := testserver.Memcached(t, testserver.WithFlags("-M")), testserver.Memcached(t, testserver.WithFlags("-C"))
	late.Kill()
	b := must[*backend](t)(openURL(t, "memcached://"+up.Addr+","+late.Addr))
	late.Restart()
	key := keyOn(b, late.Addr)
	_, err := eventually(func() (driver.Grant, error) { return b.TryLock(t.Context(), key, request("a", time.Minute)) })
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "-C") {
		t.Errorf("a server without compare-and-swap: %v", err)
	}
	_, err = b.TakeOne(t.Context(), key, limitFrom(t, "5/1m"), driver.Ask{Min: 1, N: 1})
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a limit there: %v", err)
	}
}

// Clients with different lists of servers would place one key on different servers. The later one is
// refused by any server of both lists, in whatever order it lists them.
func TestOtherListIsRefused(t *testing.T) {
	t.Parallel()
	s1, s2, both := twoServers(t)
	first := must[*backend](t)(openURL(t, "memcached://"+both))
	must[*backend](t)(openURL(t, "memcached://"+s2.Addr+","+s1.Addr))
	third := testserver.Memcached(t, testserver.WithFlags("-M"))
	_, port, _ := strings.Cut(s2.Addr, ":")
	for _, other := range []string{
		s1.Addr, s2.Addr, s1.Addr + "," + third.Addr, third.Addr + "," + s2.Addr, both + "," + third.Addr,
		s1.Addr + ",localhost:" + port, // another spelling places keys otherwise
	} {
		_, err := openURL(t, "memcached://"+other+"?timeout=5s")
		var e *ServersError
		if !errors.As(err, &e) || !errors.Is(err, driver.ErrInvalid) || !e.Temporary() {
			t.Errorf("%s beside %s: %v, want a ServersError", other, both, err)
			continue
		}
		for _, addr := range strings.Split(other, ",") {
			if !strings.Contains(err.Error(), addr) && strings.Contains(other, ",") {
				t.Errorf("%q does not name %s", err, addr)
			}
		}
		if !strings.Contains(err.Error(), s1.Addr) || !strings.Contains(err.Error(), s2.Addr) {
			t.Errorf("%q does not name the list in use", err)
		}
	}
	for i := range 20 { // and the first one is not troubled by it
		must[driver.Grant](t)(first.TryLock(t.Context(), fmt.Sprint("key", i), request("a", time.Minute)))
	}
}

// The one server of a list has all keys, whatever it is called.
func TestOneServerByTwoNames(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	_, port, _ := strings.Cut(srv.Addr, ":")
	must[*backend](t)(openURL(t, "memcached://"+srv.Addr))
	must[*backend](t)(openURL(t, "memcached://localhost:"+port))
}

// Of clients with different lists that open at once, only those of one list get in.
func TestOtherListAtOnce(t *testing.T) {
	t.Parallel()
	for range 10 {
		s1, s2, both := twoServers(t)
		lists := []string{both, s1.Addr, both, s2.Addr + "," + s1.Addr}
		opened := make([]*backend, len(lists))
		var wg sync.WaitGroup
		for i, list := range lists {
			wg.Go(func() {
				b, err := openURL(t, "memcached://"+list+"?timeout=5s")
				var e *ServersError
				if err != nil && !errors.As(err, &e) {
					t.Errorf("%s: %v", list, err)
				}
				opened[i] = b
			})
		}
		wg.Wait()
		two := opened[0] != nil || opened[2] != nil || opened[3] != nil
		if one := opened[1] != nil; one == two {
			t.Errorf("opened with one server: %v, with two: %v", one, two)
		}
	}
}

// openFor opens a store whose lists of servers are remembered for life.
func openFor(t *testing.T, list string, life time.Duration) *backend {
	t.Helper()
	return openWith(t, list, life, func(*settings) {})
}

// patient opens a list of servers with a pool of that size. Its calls on a server that is silent do not end by
// themselves: what ends them is the subject.
func patient(t *testing.T, list string, life time.Duration, pool int) *backend {
	t.Helper()
	return openWith(t, list, life, func(s *settings) { s.timeout, s.pool = 4*hung, pool })
}

func openWith(t *testing.T, list string, life time.Duration, change func(*settings)) *backend {
	t.Helper()
	s, err := parseURL(&url.URL{Scheme: "memcached", Host: list})
	if err != nil {
		t.Fatal(err)
	}
	change(&s)
	b := must[*backend](t)(openSettings(t.Context(), s, life))
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// While a machine sleeps its monotonic clock stops, and the list at a server runs out.
func TestListSeenLapsesWhileTheMachineSleeps(t *testing.T) {
	for _, other := range []*ServersError{nil, {}} {
		var s seen
		s.set(other, time.Now().Add(time.Hour))
		if ours, got := s.get(); ours != (other == nil) || got != other {
			t.Errorf("seen before: ours %v, another %v, want %v", ours, got, other)
		}
		s.wall = s.wall.Add(-time.Hour)
		if ours, got := s.get(); ours || got != nil {
			t.Errorf("seen before the machine slept: ours %v, another %v, want nothing", ours, got)
		}
	}
}

// A list is remembered for as long as a client has it, though it makes no call, and not for long
// after the last one has gone.
func TestListLapsesWithItsLastClient(t *testing.T) {
	t.Parallel()
	s1, s2, both := twoServers(t)
	b := openFor(t, both, 3*time.Second)
	for _, srv := range []*testserver.Server{s1, s2} {
		key := strings.ReplaceAll(listKey, "/", "%2F") // as the server shows it
		first := metadump(t, srv)[key]
		for start := time.Now(); metadump(t, srv)[key] <= first; time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > hung {
				t.Fatalf("the list expires at %s, and is not refreshed", first)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		other, err := openURL(t, "memcached://"+s1.Addr)
		if err == nil {
			use(t, other)
			return
		}
		if time.Since(start) > hung {
			t.Fatalf("the list is still remembered: %v", err)
		}
	}
}

// A server that has lost its list, as by flush_all or a restart, gets it again from a client that
// lives. If a client with another list was faster, those that had the server before grant nothing
// more until that one has gone; what they hold they can renew and give back.
func TestListIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testserver.Server){
		"flush": func(s *testserver.Server) { s.Text("flush_all") }, "restart": (*testserver.Server).Restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s1, s2, both := twoServers(t)
			b := openWith(t, both, 5*time.Second, func(s *settings) { s.timeout = maxTimeout })
			lose(s1)
			for start := time.Now(); !strings.HasPrefix(s1.Text("get " + listKey)[0], "VALUE "); time.Sleep(10 * time.Millisecond) {
				if time.Since(start) > hung {
					t.Fatal("the list is not written again")
				}
			}
			if _, err := openURL(t, "memcached://"+s1.Addr); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("another list after that: %v", err)
			}
			onTwo, r := keyOn(b, s2.Addr), request("a", time.Minute)
			must[driver.Grant](t)(b.TryLock(t.Context(), onTwo, r))

			stranger := formatList([]string{"other:1", "other:2"})
			s1.Text(fmt.Sprintf("set %s 0 0 %d\r\n%s", listKey, len(stranger), stranger))
			for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				probe := request("b", time.Minute)
				_, err := b.TryLock(t.Context(), "free", probe)
				var e *ServersError
				if errors.As(err, &e) && e.Server == s1.Addr && len(e.Theirs) == 2 {
					break
				}
				if err == nil {
					err = b.Unlock(t.Context(), "free", probe.ID)
				}
				if err != nil || time.Since(start) > hung {
					t.Fatalf("beside another list: %v", err)
				}
			}
			one, err := b.TakeOne(t.Context(), onTwo, limitFrom(t, "5/1m"), driver.Ask{Min: 1, N: 1})
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("a limit beside another list: %+v, %v", one, err)
			}
			must[driver.Grant](t)(b.Renew(t.Context(), onTwo, r))
			if err := b.Unlock(t.Context(), onTwo, r.ID); err != nil {
				t.Error(err)
			}
			s1.Text("delete " + listKey)
			for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				_, err := b.TryLock(t.Context(), onTwo, r)
				if err == nil {
					break
				}
				if !errors.Is(err, driver.ErrInvalid) || time.Since(start) > hung {
					t.Fatalf("after the other list has gone: %v", err)
				}
			}
		})
	}
}

// What is under the list's key and is not coord's is reported, and left as it is.
func TestForeignList(t *testing.T) {
	t.Parallel()
	srv := testserver.Memcached(t, testserver.WithFlags("-M"))
	srv.Text("set " + listKey + " 0 0 4\r\nmine")
	if _, err := openURL(t, "memcached://"+srv.Addr); !errors.Is(err, driver.ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if got := srv.Lines("get " + listKey); len(got) != 2 || got[1] != "mine" {
		t.Errorf("the item is now %q", got)
	}
}

// The check of the list costs no call a request: while it is known to be there, a lock takes its four.
func TestListCostsNoRequests(t *testing.T) {
	t.Parallel()
	s1, s2, both := twoServers(t)
	b := must[*backend](t)(openURL(t, "memcached://"+both))
	count := func() (n int64) {
		for _, srv := range []*testserver.Server{s1, s2} {
			s := srv.Stats()
			n += s["cmd_get"] + s["cmd_set"] + s["cmd_touch"]
		}
		return n
	}
	const locks = 20
	for i := range locks { // the counter of each is made
		r := request("a", time.Minute)
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", i), r))
		if err := b.Unlock(t.Context(), fmt.Sprint("k", i), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	before := count()
	for i := range locks {
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", i), request("a", time.Minute)))
	}
	if n := count() - before; n > 3*locks+8 { // one refresh may fall into it
		t.Errorf("%d locks took %d gets and sets, want 3 each", locks, n)
	}
}
