package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// server is a member that fails as it is told.
type server struct {
	mu       sync.Mutex
	store    *memory.Store
	run      int
	since    time.Time
	down     bool
	hung     bool
	waiting  []func() // requests that reached it while it hung, in order
	delay    atomic.Int64
	ahead    atomic.Int64 // its clock, in microseconds
	deafened atomic.Int64 // so many replies are lost
}

func newServer() *server { return &server{store: memory.NewStore(), since: time.Now().Add(-time.Hour)} }

// restart makes it forget everything.
func (s *server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.since, s.waiting = memory.NewStore(), time.Now(), nil
	s.run++
}

func (s *server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *server) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = true
}

// queued is how many requests have reached it while it hung.
func (s *server) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// resume lets it do what has reached it.
func (s *server) resume() {
	s.mu.Lock()
	all := s.waiting
	s.hung, s.waiting = false, nil
	s.mu.Unlock()
	for _, do := range all {
		do()
	}
}

var errRefused = fmt.Errorf("%w: connection refused", driver.ErrNotSent)

// link is the way of one client to a server. It is a member.
type link struct {
	driver.Unimplemented

	s     *server
	cut   atomic.Bool
	gone  atomic.Bool
	extra atomic.Int64 // by how much it is longer than the server's delay
}

// reply is what one call brings.
type reply struct {
	value any
	err   error
}

// call runs do on the server, as the link and the server are.
func (l *link) call(ctx context.Context, do func(b members) (any, error)) (any, error) {
	if l.gone.Load() {
		return nil, driver.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, ctx.Err())
	}
	if l.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if d := time.Duration(l.s.delay.Load() + l.extra.Load()); d > 0 && !quorum.Sleep(ctx, d) {
		return nil, ctx.Err()
	}
	done := make(chan reply, 1)
	l.s.take(func(store *memory.Store) {
		b := store.Open()
		value, err := do(b)
		done <- reply{value, errors.Join(err, b.Close())}
	}, func() { done <- reply{nil, errRefused} })
	select {
	case r := <-done:
		if l.s.deafened.Add(-1) >= 0 {
			return nil, errors.New("connection reset")
		}
		return r.value, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take runs do on the store, at once or when the server no longer hangs, or refuse.
func (s *server) take(do func(*memory.Store), refuse func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	store := s.store
	switch {
	case s.down:
		refuse()
	case s.hung:
		s.waiting = append(s.waiting, func() { do(store) })
	default:
		do(store)
	}
}

type members = driver.Backend

func (l *link) Info() driver.Info {
	b := memory.New()
	info := b.Info()
	_ = b.Close() // of memory: always nil
	return info
}

func (l *link) Close() error { l.gone.Store(true); return nil }

func (l *link) grant(ctx context.Context, r driver.Request, do func(b members, r driver.Request) (driver.Grant, error)) (driver.Grant, error) {
	v, err := l.call(ctx, func(b members) (any, error) { return do(b, r) })
	if err != nil {
		return driver.Grant{}, err
	}
	g := v.(driver.Grant)
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if r.Floor != 0 {
		g.Run, g.Age = fmt.Sprintf("run %d of %p", l.s.run, l.s), time.Since(l.s.since)
	}
	return g, nil
}

func (l *link) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return l.grant(ctx, r, func(b members, r driver.Request) (driver.Grant, error) {
		before, free := b.Inspect(ctx, key)
		g, err := b.TryLock(context.WithoutCancel(ctx), key, r)
		ahead := l.s.ahead.Load()
		if err != nil || ahead == 0 || free == nil && before.ID == r.ID {
			return g, err
		}
		raised := r
		raised.Floor = r.NewToken(g.Token-1, time.Now().UnixMicro()+ahead) // as its own clock has it
		return b.Renew(context.WithoutCancel(ctx), key, raised)
	})
}

func (l *link) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return l.grant(ctx, r, func(b members, r driver.Request) (driver.Grant, error) {
		return b.Renew(context.WithoutCancel(ctx), key, r)
	})
}

// RenewAll renews in one request.
func (l *link) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	out := make([]driver.Renewal, len(holds))
	v, err := l.call(ctx, func(b members) (any, error) {
		all := make([]driver.Renewal, len(holds))
		for i, h := range holds {
			all[i].Grant, all[i].Err = b.Renew(context.WithoutCancel(ctx), h.Key, h.Request)
		}
		return all, nil
	})
	if err == nil {
		return v.([]driver.Renewal)
	}
	for i := range out {
		out[i].Err = err
	}
	return out
}

func (l *link) change(ctx context.Context, do func(context.Context, members) error) error {
	_, err := l.call(ctx, func(b members) (any, error) { return nil, do(context.WithoutCancel(ctx), b) })
	return err
}

func (l *link) Unlock(ctx context.Context, key, id string) error {
	return l.change(ctx, func(ctx context.Context, b members) error { return b.Unlock(ctx, key, id) })
}

func (l *link) UnlockAfter(ctx context.Context, key, id string, d time.Duration) error {
	return l.change(ctx, func(ctx context.Context, b members) error { return b.UnlockAfter(ctx, key, id, d) })
}

func (l *link) Break(ctx context.Context, key, id string) error {
	return l.change(ctx, func(ctx context.Context, b members) error { return b.Break(ctx, key, id) })
}

func (l *link) BreakNow(ctx context.Context, key, id string) error {
	return l.change(ctx, func(ctx context.Context, b members) error { return b.BreakNow(ctx, key, id) })
}

func (l *link) Ping(ctx context.Context) error {
	return l.change(ctx, func(ctx context.Context, b members) error { return b.Ping(ctx) })
}

func (l *link) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	v, err := l.call(ctx, func(b members) (any, error) { return b.Inspect(context.WithoutCancel(ctx), key) })
	if err != nil {
		return driver.Holder{}, err
	}
	return v.(driver.Holder), nil
}

func (l *link) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		v, err := l.call(ctx, func(b members) (any, error) {
			var keys []string
			for key, err := range b.List(ctx, prefix) {
				if err != nil {
					return nil, err
				}
				keys = append(keys, key)
			}
			return keys, nil
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, key := range v.([]string) {
			if !yield(key, nil) {
				return
			}
		}
	}
}
