package conformance_test

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// Bugs of a driver of a store of several servers, one of which fails.
var memberMutants = []mutant{
	{
		name: "renewals in one batch", bug: "the renewals of all servers are one batch, which has answers when each server has answered (Redis Cluster)", sound: "members",
		new: membered(memberBug{batch: true}), killers: []string{"LOCK-251"},
	}, {
		name: "parts that are not named", bug: "there is no Partitioner, so that renewals wait in the queue behind those on the server that hangs (memcached)", sound: "members",
		new: membered(memberBug{nameless: true}), killers: []string{"LOCK-251"},
	}, {
		name: "one connection for all servers", bug: "a call waits until the one before has its answer, whichever server that is from", sound: "members",
		new: membered(memberBug{lane: true}), killers: []string{"LOCK-251", "LOCK-253", "LIMIT-251"},
	}, {
		name: "error of one server told of all", bug: "a server that cannot be reached makes the store unavailable, until it can", sound: "members",
		new: membered(memberBug{down: true}), killers: []string{"LOCK-252", "LIMIT-252"},
	}, {
		name: "empty server believed for all", bug: "a hold that a server does not know any more ends all holds of the client", sound: "members",
		new: membered(memberBug{amnesia: true}), killers: []string{"LOCK-254"},
	}, {
		name: "waiters that leave with one server", bug: "what waits at any server ends with an error when one of them cannot be reached", sound: "members",
		new: membered(memberBug{waits: true}), killers: []string{"LOCK-252"},
	},
}

type memberBug struct{ batch, nameless, lane, down, amnesia, waits bool }

const (
	memberCount = 2
	// memberBound is how long a call on a server that does not answer takes.
	memberBound = 300 * time.Millisecond
)

// member is one server.
type member struct {
	mu    sync.Mutex
	data  *memory.Store
	opens chan struct{} // closed when it answers again; nil: it answers
	gone  bool
	late  time.Duration
	cut   chan struct{} // closed when it is cut off
}

func (m *member) set(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

var errGone = errors.New("no route to host")

// reach is the way to the server and back.
func (m *member) reach(ctx context.Context) error {
	m.mu.Lock()
	opens, gone, late := m.opens, m.gone, m.late
	m.mu.Unlock()
	switch {
	case gone:
		return errors.Join(driver.ErrNotSent, errGone)
	case opens != nil:
		ctx, cancel := context.WithTimeout(ctx, memberBound)
		defer cancel()
		select {
		case <-opens:
		case <-ctx.Done():
			return errors.Join(driver.ErrNotSent, ctx.Err())
		}
	}
	time.Sleep(late)
	return nil
}

type memberStore [memberCount]*member

func (s memberStore) at(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32()>>8) % memberCount
}

// fault breaks a server by one change, and mends it by another.
func (s memberStore) fault(begin, end func(*member)) conformance.MemberFault {
	return func(_ conformance.TB, i int) func() {
		s[i].set(func() { begin(s[i]) })
		return func() { s[i].set(func() { end(s[i]) }) }
	}
}

func membered(bug memberBug) func() harness {
	return func() harness {
		var s memberStore
		for i := range s {
			s[i] = &member{data: memory.NewStore(), cut: make(chan struct{})}
		}
		claims := append(without(memory.Claims, driver.ScopeProcess, driver.ScopeHosts), driver.LossPush)
		open := func(conformance.TB) driver.Backend {
			b := &membersBackend{store: s[0].data.Open(), servers: s, bug: bug, lane: make(chan struct{}, 1), claims: claims}
			for i := range s {
				b.open[i] = map[*memory.Store]store{}
			}
			if bug.batch {
				return oneBatch{b}
			}
			return b
		}
		nothing := func(*member) {}
		return harness{
			Open: open, Claims: claims,
			Members: &conformance.Members{
				Open: open, Count: memberCount, Bound: memberBound, LockAt: s.at, LimitAt: s.at,
				Hang:   s.fault(func(m *member) { m.opens = make(chan struct{}) }, func(m *member) { close(m.opens); m.opens = nil }),
				CutOff: s.fault(func(m *member) { m.gone = true; close(m.cut) }, func(m *member) { m.gone, m.cut = false, make(chan struct{}) }),
				Slow:   s.fault(func(m *member) { m.late = memberBound / 2 }, func(m *member) { m.late = 0 }),
				Empty:  s.fault(func(m *member) { m.data = memory.NewStore() }, nothing),
			},
		}
	}
}

// membersBackend is a client of all servers.
type membersBackend struct {
	store
	servers memberStore
	bug     memberBug
	claims  driver.Claims
	lane    chan struct{}

	mu    sync.Mutex
	open  [memberCount]map[*memory.Store]store // of each server, and each of its lives
	holds map[string]string                    // key by id
	lost  notify
}

func (b *membersBackend) Info() driver.Info {
	info := b.store.Info()
	info.Claims = b.claims
	return info
}

func (b *membersBackend) Close() error {
	var errs []error
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, lives := range b.open {
		for _, s := range lives {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, b.store.Close())...)
}

func (b *membersBackend) Partition(key string) string {
	if b.bug.nameless || b.bug.batch {
		return ""
	}
	return string(rune('a' + b.servers.at(key)))
}

// server gives what serves key, once it can be reached.
func (b *membersBackend) server(ctx context.Context, key string) (store, error) {
	if b.bug.lane {
		select {
		case b.lane <- struct{}{}:
			defer func() { <-b.lane }()
		case <-ctx.Done():
			return nil, errors.Join(driver.ErrNotSent, ctx.Err())
		}
	}
	if b.bug.down {
		for _, m := range b.servers {
			m.mu.Lock()
			gone := m.gone
			m.mu.Unlock()
			if gone {
				return nil, errors.Join(driver.ErrNotSent, errGone)
			}
		}
	}
	i := b.servers.at(key)
	m := b.servers[i]
	if err := m.reach(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	data := m.data
	m.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[i][data] == nil {
		b.open[i][data] = data.Open()
	}
	return b.open[i][data], nil
}

func (b *membersBackend) TryLock(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	s, err := b.server(ctx, key)
	if err != nil {
		return g, err
	}
	g, err = s.TryLock(ctx, key, r)
	b.keep(key, r.ID, err)
	return g, err
}

func (b *membersBackend) keep(key, id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holds == nil {
		b.holds = make(map[string]string)
	}
	if err == nil {
		b.holds[id] = key
	}
}

func (b *membersBackend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (g driver.Grant, err error) {
	s, err := b.server(ctx, key)
	if err != nil {
		return g, err
	}
	if b.bug.waits {
		within, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		for _, m := range b.servers {
			m.mu.Lock()
			cut := m.cut
			m.mu.Unlock()
			go func() {
				select {
				case <-cut:
					cancel(errGone)
				case <-within.Done():
				}
			}()
		}
		ctx = within
	}
	g, err = s.Lock(ctx, key, r, waits)
	b.keep(key, r.ID, err)
	return g, err
}

func (b *membersBackend) Renew(ctx context.Context, key string, r driver.Request) (g driver.Grant, err error) {
	s, err := b.server(ctx, key)
	if err != nil {
		return g, err
	}
	g, err = s.Renew(ctx, key, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, driver.ErrNotHeld) && b.bug.amnesia && b.lost != nil {
		for id, key := range b.holds {
			b.lost(key, id, driver.ErrNotHeld)
		}
	}
	return g, err
}

// oneBatch renews on all servers by one call.
type oneBatch struct{ *membersBackend }

func (b oneBatch) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	var wg sync.WaitGroup
	for i, h := range holds {
		wg.Go(func() { out[i].Grant, out[i].Err = b.Renew(ctx, h.Key, h.Request) })
	}
	wg.Wait()
	for _, r := range out {
		if r.Err == nil || errors.Is(r.Err, driver.ErrNotHeld) {
			continue
		}
		for i := range out { // the batch has no answer
			out[i] = driver.Renewal{Err: r.Err}
		}
		break
	}
	return out
}

func (b *membersBackend) NotifyLost(fn func(key, id string, cause error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = fn
}

func (b *membersBackend) Unlock(ctx context.Context, key, id string) error {
	s, err := b.server(ctx, key)
	if err != nil {
		return err
	}
	return s.Unlock(ctx, key, id)
}

func (f *membersBackend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (b *membersBackend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (t driver.Taken, err error) {
	s, err := b.server(ctx, key)
	if err != nil {
		return t, err
	}
	return s.Take(ctx, key, l, asks)
}
