package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/members"
	"github.com/coordgo/coord/internal/quorum"
	"github.com/coordgo/coord/internal/testserver"
)

// grown is a member whose server has run for an hour, as far as it says, at a client whose clock is ahead.
type grown struct {
	*backend
	ahead time.Duration
}

func (g grown) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	r.Floor += g.ahead.Microseconds()
	grant, err := g.backend.TryLock(ctx, key, r)
	if grant.Run != "" {
		grant.Age += time.Hour
	}
	return grant, err
}

// workerQuorum is the scheme by which a worker of the suite opens a quorum of the servers that are its hosts.
const workerQuorum = "quorum-of-redis"

func init() {
	driver.Register(workerQuorum, func(ctx context.Context, u *url.URL) (driver.Backend, error) {
		var all []driver.Backend
		for _, host := range strings.Split(u.Host, ",") {
			b, _, err := driver.Open(ctx, "redis://"+host)
			if err != nil {
				return nil, err // and the process ends
			}
			all = append(all, grown{backend: b.(*backend)})
		}
		b, err := quorum.New(quorum.MaxTTL, all...)
		return b, err
	})
}

func addrsOf(servers []*testserver.Server) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// quorumOf opens a client of a quorum of servers.
func quorumOf(tb conformance.TB, addrs []string, w *wire, ahead time.Duration) driver.Backend {
	var all []driver.Backend
	for _, addr := range addrs {
		o := clientOptions(addr)
		o.DialTimeout = 2 * time.Second // a member that is away is no reason not to open
		if w != nil {
			o.Dialer = w.dial
		}
		client := redis.NewClient(o)
		tb.Cleanup(func() {
			if err := client.Close(); err != nil {
				tb.Errorf("close the application's client: %v", err)
			}
		})
		open := func(context.Context) (driver.Backend, error) {
			b, err := patientNew(client)
			if err != nil {
				return nil, err
			}
			return grown{b.(*backend), ahead}, nil
		}
		b, err := open(tb.Context())
		if err != nil {
			b = quorum.Absent(driver.Info{Name: "redis", Claims: Claims}, err, open)
		}
		all = append(all, b)
	}
	b, err := quorum.New(quorum.MaxTTL, all...)
	if err != nil {
		tb.Fatalf("Quorum: %v", err)
	}
	return b
}

// proxiesOf makes a way to each server that can be cut off, for all clients.
func proxiesOf(t *testing.T, servers []*testserver.Server) (all []*conformance.Proxy) {
	for _, s := range servers {
		all = append(all, proxyTo(t, s))
	}
	return all
}

// TestConformanceQuorum: three servers, which fail one by one, or are cut off from one client together. Unproven is only
// what wipes or restarts all of them at once, because their votes come back after a minute, which no case waits for.
func TestConformanceQuorum(t *testing.T) {
	t.Parallel() // it mostly waits
	three := func() []*testserver.Server {
		return []*testserver.Server{testserver.Redis(t), testserver.Redis(t), testserver.Redis(t)}
	}
	servers, failing := three(), sync.OnceValue(three)
	addrs := addrsOf(servers)
	links := sync.OnceValue(func() []*conformance.Proxy { return proxiesOf(t, failing()) })
	h := conformance.Harness{
		Open:   func(tb conformance.TB) driver.Backend { return quorumOf(tb, addrs, nil, 0) },
		Claims: quorumClaims,
		Faults: &conformance.Faults{
			Link: func(tb conformance.TB) (driver.Backend, conformance.Link) {
				w := newWire(tb)
				return quorumOf(tb, addrs, w, 0), w.proxy
			},
			Skew: func(tb conformance.TB, ahead time.Duration) driver.Backend {
				return quorumOf(tb, addrs, nil, ahead)
			},
			Pause: func(conformance.TB) {
				for _, s := range servers {
					s.Pause()
				}
			},
			Resume: func(conformance.TB) {
				for _, s := range servers {
					s.Resume()
				}
			},
			Refuse: func(tb conformance.TB) { setMaxMemory(tb, "1", servers...) },
			Accept: func(tb conformance.TB) { setMaxMemory(tb, "0", servers...) },
			Failover: func(tb conformance.TB) {
				servers[0].Kill()
				tb.Cleanup(servers[0].Restart)
			},
		},
		Members: members.Of(failing, func() {}, conformance.Members{
			Open: func(tb conformance.TB) driver.Backend {
				var all []string
				for _, l := range links() {
					all = append(all, l.Addr())
				}
				return quorumOf(tb, all, nil, 0)
			},
			Count: 3, Bound: time.Second,
			CutOff: func(_ conformance.TB, i int) func() {
				links()[i].StallRequests()
				return links()[i].Heal
			},
			Empty: func(tb conformance.TB, i int) func() {
				failing()[i].Kill()
				failing()[i].Restart()
				return nil
			},
		}),
		WorkerURL: workerQuorum + "://" + strings.Join(addrs, ","),
	}
	conformance.Run(t, h)
}

var quorumClaims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.List, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenClockSeeded, driver.DurableFailover, driver.TokenFailover, driver.ScopeHosts,
}

// TestNightlyQuorumRestarts kills and restarts servers that keep nothing, one after the other, under clients that hold one key in
// turn. COORD_QUORUM_KILLS says how often.
func TestNightlyQuorumRestarts(t *testing.T) {
	t.Parallel() // it mostly waits
	kills := 12
	if text := os.Getenv("COORD_QUORUM_KILLS"); text != "" {
		kills = must[int](t)(strconv.Atoi(text))
	}
	const longest = time.Second // instead of a minute, after which a member has its vote again
	servers := []*testserver.Server{testserver.Redis(t), testserver.Redis(t), testserver.Redis(t)}
	w := turns{t: t}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		var all []driver.Backend
		for _, s := range servers {
			all = append(all, connect(t, s.Addr))
		}
		b := must[driver.Backend](t)(quorum.New(longest, all...))
		client := must[*coord.Client](t)(coord.New(b))
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		wg.Go(func() { w.work(ctx, client) })
	}
	for range kills {
		s := servers[rand.IntN(len(servers))]
		time.Sleep(longest + rand.N(time.Second)) // until the next failure; not always until its vote is back
		s.Kill()
		time.Sleep(rand.N(200 * time.Millisecond)) // how long it is away
		s.Restart()
	}
	stop()
	wg.Wait()
	t.Logf("%d holds, %d of them lost, over %d restarts", w.holds, w.lost, kills)
	if w.holds < kills {
		t.Errorf("%d holds over %d restarts: want more", w.holds, kills)
	}
}

// turns sees that one holds at a time, and that tokens rise.
type turns struct {
	t           *testing.T
	mu          sync.Mutex
	holder      *coord.Lock // nil: it was given back
	token       driver.Token
	holds, lost int
}

func (w *turns) work(ctx context.Context, c *coord.Client) {
	for ctx.Err() == nil {
		ttl := 100*time.Millisecond + rand.N(800*time.Millisecond)
		l, err := c.Lock(ctx, "k", coord.TTL(ttl))
		if err != nil {
			if errors.Is(err, coord.ErrUnavailable) {
				time.Sleep(rand.N(50 * time.Millisecond)) // backoff in an outage
			}
			continue
		}
		w.begin(l)
		select {
		case <-time.After(rand.N(2 * ttl)): // the work
		case <-l.Done():
		}
		w.end(l)
		_ = l.Unlock(context.WithoutCancel(ctx)) // if it fails, the lease ends
	}
}

func (w *turns) begin(l *coord.Lock) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder != nil && now.Before(w.holder.Deadline()) && w.holder.Err() == nil {
		w.t.Errorf("token %d is granted while %d holds until in %v", l.Token(), w.holder.Token(), w.holder.Deadline().Sub(now))
	}
	if l.Token() <= w.token {
		w.t.Errorf("token %d after %d", l.Token(), w.token)
	}
	w.holds++
	w.holder, w.token = l, max(w.token, l.Token())
}

func (w *turns) end(l *coord.Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.Err() != nil {
		w.lost++
	}
	if w.holder == l {
		w.holder = nil
	}
}

// TestQuorumRefuses: what cannot be a member says why.
func TestQuorumRefuses(t *testing.T) {
	t.Parallel()
	one := connect(t, testserver.Redis(t).Addr)
	c := testserver.RedisCluster(t, 0, silently)
	b := backendOver(t, clusterClient(c, nil))
	_, err := quorum.New(quorum.MaxTTL, one, b, connect(t, testserver.Redis(t).Addr))
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "does not claim vote") {
		t.Errorf("a cluster as a member: %v", err)
	}
	if !slices.Contains(one.Info().Claims, driver.Vote) {
		t.Errorf("one server: claims %v, want vote", one.Info().Claims)
	}
}
