package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// mortal makes connections until it dies, which cuts all of them.
type mortal struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (m *mortal) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errors.New("dead")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		m.conns = append(m.conns, conn)
	}
	return conn, err
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, c := range m.conns {
		c.Close()
	}
}

// TestDeadWaitersCostNothing: a holder and sixty who wait die together. Who waits behind them has the key when the lease
// ends, and it is not offered to each of them before.
func TestDeadWaitersCostNothing(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	var m mortal
	o := clientOptions(srv.Addr)
	o.Dialer = m.dial
	dying := connectWith(t, o)
	const dead = 60
	first := must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("h", 10*time.Minute)))
	for i := range dead {
		waitFor(t, dying, "k", request(fmt.Sprint("dead", i), time.Minute), i+1)
	}
	eventually(t, "that they listen", dying.waiters.isUp)
	w := waitFor(t, connect(t, srv.Addr), "k", request("alive", time.Minute), dead+1)
	settleCommands(t, srv)
	m.die()
	eventually(t, "that the server knows it", func() bool { return listeners(t, srv) == 1 })
	before := srv.Commands()["set"] // each offer is one
	b.client.PExpire(t.Context(), lockKey("k"), time.Millisecond)
	if g := grantOf(t, w); g.Token <= first.Token {
		t.Errorf("token %d after %d", g.Token, first.Token)
	}
	if n := srv.Commands()["set"] - before; n > dead/2 {
		t.Errorf("%d locks and offers, though %d of those who waited are dead", n, dead)
	}
}

// TestFrozenWaiterIsPassedOver: one that is told that it is offered the lock, and does not answer, is passed
// over from then on, and keeps its place: when it shows life again, nobody who came later is before it.
func TestFrozenWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	var d dropper
	o := clientOptions(srv.Addr)
	o.Dialer = d.dial
	frozen := connectWith(t, o)
	frozen.waiters.every, frozen.waiters.least = time.Hour, 2*time.Second
	held, silent := request("h", time.Minute), request("silent", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	thawed := waitFor(t, frozen, "k", silent, 1)
	eventually(t, "that it listens", frozen.waiters.isUp)
	settleCommands(t, srv)
	d.dropping.Store(true)
	clients, requests, waits := []*backend{}, []driver.Request{}, []<-chan answer{}
	for i := range 3 {
		clients, requests = append(clients, pushed(t, b)), append(requests, request(fmt.Sprint("w", i), time.Minute))
		waits = append(waits, waitFor(t, clients[i], "k", requests[i], i+2))
		eventually(t, "that it listens", clients[i].waiters.isUp)
	}
	settleCommands(t, srv)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	grantOf(t, waits[0])
	if err := clients[0].Unlock(ctx, "k", requests[0].ID); err != nil {
		t.Fatal(err)
	}
	holderIs(t, b, "k", requests[1].ID) // no second offer
	grantOf(t, waits[1])
	d.dropping.Store(false)
	signal(frozen.waiters.refreshNow)
	eventually(t, "that it is the first in the queue", func() bool {
		queue := b.client.ZRange(ctx, "coord:{k}:queue", 0, 0).Val()
		return len(queue) == 1 && queue[0] == silent.ID
	})
	if err := clients[1].Unlock(ctx, "k", requests[1].ID); err != nil {
		t.Fatal(err)
	}
	holderIs(t, b, "k", silent.ID)
	grantOf(t, thawed)
	if err := frozen.Unlock(ctx, "k", silent.ID); err != nil {
		t.Fatal(err)
	}
	grantOf(t, waits[2])
}

// TestTwoFrozenInARow: two who are frozen come first. The second is told that it comes next, and nobody else looks
// at the free key before it says that it is alive: who waits behind them has the key then, and nobody has it before.
func TestTwoFrozenInARow(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	held, alive := request("h", time.Minute), request("alive", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	var d dropper
	for i := range 2 {
		o := clientOptions(srv.Addr)
		o.Dialer = d.dial
		frozen := connectWith(t, o)
		frozen.waiters.every = time.Hour
		waitFor(t, frozen, "k", request(fmt.Sprint("frozen", i), time.Minute), i+1)
		eventually(t, "that it listens", frozen.waiters.isUp)
	}
	waiting := pushed(t, b)
	waiting.waiters.every = time.Hour
	w := waitFor(t, waiting, "k", alive, 3)
	eventually(t, "that it listens", waiting.waiters.isUp)
	settleCommands(t, srv)
	d.dropping.Store(true)
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that the first offer is over", func() bool { return b.client.Exists(ctx, lockKey("k")).Val() == 0 })
	if g, err := b.TryLock(ctx, "k", request("newcomer", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a newcomer: %+v, %v, want ErrLocked", g, err)
	}
	signal(waiting.waiters.refreshNow) // as after heartbeatEvery
	grantOf(t, w)
	if err := waiting.Unlock(ctx, "k", alive.ID); err != nil {
		t.Fatal(err)
	}
	newcomer := request("next", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", newcomer)) // all in the queue were passed over
	d.dropping.Store(false)
}

// TestWaiterThatDoesNotListenYet: one that did not hear that it comes next, because its subscription is under
// way, is not passed over for that: nobody takes the key before it.
func TestWaiterThatDoesNotListenYet(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	if err := b.client.Do(ctx, "ACL", "SETUSER", "default", "-subscribe").Err(); err != nil {
		t.Fatal(err)
	}
	waiting := pushed(t, b)
	held, r := request("h", time.Minute), request("w", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	l := &waiting.waiters
	listensNotYet(l)
	w := waitFor(t, waiting, "k", r, 1)
	if err := b.UnlockAfter(ctx, "k", held.ID, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that the delay is over", func() bool {
		return b.client.Exists(ctx, lockKey("k")).Val() == 0
	})
	if g, err := b.TryLock(ctx, "k", request("newcomer", time.Minute)); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a newcomer: %+v, %v, want ErrLocked", g, err)
	}
	holderIs(t, b, "k", r.ID)
	listens(t, l)
	grantOf(t, w)
}

// TestNightlyManyDeadWaiters: no script looks at more than some of them, and whoever lives behind has its turn.
func TestNightlyManyDeadWaiters(t *testing.T) {
	t.Parallel()
	srv, b := open(t)
	ctx := t.Context()
	const dead = 10_000
	held, alive := request("h", time.Minute), request("alive", time.Minute)
	must[driver.Grant](t)(b.TryLock(ctx, "k", held))
	for i := 0; i < dead; i += 1000 {
		var places []redis.Z
		var records []any
		for j := i; j < i+1000; j++ {
			id := fmt.Sprint("dead", j)
			places, records = append(places, redis.Z{Score: float64(j + 1), Member: id}), append(records, id, "1000 50 1 coord:wake:dead")
		}
		b.client.ZAdd(ctx, "coord:{k}:queue", places...)
		b.client.HSet(ctx, "coord:{k}:waiters", records...)
	}
	w := waitFor(t, connect(t, srv.Addr), "k", alive, dead+1)
	commands := func() (all, scripts int64) {
		for name, n := range srv.Commands() {
			all += n
			if name == "evalsha" || name == "eval" {
				scripts += n
			}
		}
		return all, scripts
	}
	_ = b.Unlock(ctx, "k", "nobody") // the server learns the script
	all, scripts := commands()
	if err := b.Unlock(ctx, "k", held.ID); err != nil {
		t.Fatal(err)
	}
	if now, _ := commands(); now-all > 1000 {
		t.Errorf("%d commands in the script of a release", now-all)
	}
	for start := time.Now(); len(w) == 0 && time.Since(start) < hung; time.Sleep(10 * time.Millisecond) {
		nowAll, now := commands()
		if a := nowAll - all; a > 1000*(now-scripts+1) {
			t.Fatalf("%d commands in %d scripts", a, now-scripts)
		}
		all, scripts = nowAll, now
	}
	grantOf(t, w)
}

// TestSilenceOfTheServer: after a time in which the server answered nobody, all places seem to be those
// of the dead. Whoever comes first then, the order of the queue is kept.
func TestSilenceOfTheServer(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(last *backend){
		"the holder comes first":            func(*backend) {},
		"the last in the queue comes first": func(last *backend) { last.waiters.refresh(last.calls.Life()) },
	} {
		t.Run(name, func(t *testing.T) {
			srv, b := open(t)
			ctx := t.Context()
			clients, requests, waits := []*backend{}, []driver.Request{}, []<-chan answer{}
			held := request("h", time.Minute)
			must[driver.Grant](t)(b.TryLock(ctx, "k", held))
			for i := range 3 {
				clients, requests = append(clients, pushed(t, b)), append(requests, request(fmt.Sprint("w", i), time.Minute))
				waits = append(waits, waitFor(t, clients[i], "k", requests[i], i+1))
				eventually(t, "that it listens", clients[i].waiters.isUp)
			}
			settleCommands(t, srv)
			for _, r := range requests {
				record := b.client.HGet(ctx, "coord:{k}:waiters", r.ID).Val()
				b.client.HSet(ctx, "coord:{k}:waiters", r.ID, "1000"+record[13:])
			}
			first(clients[2])
			settleCommands(t, srv)
			before, id := b, held.ID
			for i, w := range waits {
				if err := before.Unlock(ctx, "k", id); err != nil {
					t.Fatal(err)
				}
				holderIs(t, b, "k", requests[i].ID)
				grantOf(t, w)
				before, id = clients[i], requests[i].ID
			}
		})
	}
}
