package server

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// oddStore checks slowly, fails for one key, and lists its keys in an order of its own.
type oddStore struct {
	driver.Backend
	checks time.Duration // what Check takes
	late   time.Duration // what Inspect and List take
	fails  string        // the key whose holder and limit cannot be read
	last   string        // the key that is listed last
}

func init() {
	driver.Register("odd", func(_ context.Context, u *url.URL) (driver.Backend, error) {
		s := &oddStore{Backend: memory.NewStore().Open(), fails: u.Query().Get("fails"), last: u.Query().Get("last")}
		s.checks, _ = time.ParseDuration(u.Query().Get("checks"))
		s.late, _ = time.ParseDuration(u.Query().Get("late"))
		return s, nil
	})
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *oddStore) Check(ctx context.Context) ([]driver.Finding, error) {
	if err := pause(ctx, s.checks); err != nil {
		return nil, err
	}
	return []driver.Finding{{Level: driver.LevelOK, Name: "disk", Text: "enough"}}, nil
}

func (s *oddStore) Inspect(ctx context.Context, key string) (driver.Holder, error) {
	if err := pause(ctx, s.late); err != nil {
		return driver.Holder{}, err
	}
	if err := s.down(key); err != nil {
		return driver.Holder{}, err
	}
	return s.Backend.Inspect(ctx, key)
}

// down is the error of the key that fails.
func (s *oddStore) down(key string) error {
	if key != s.fails {
		return nil
	}
	return fmt.Errorf("%w: the node of %s is down", driver.ErrUnavailable, key)
}

func (s *oddStore) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	if err := s.down(key); err != nil {
		return driver.Taken{}, err
	}
	return s.Backend.Take(ctx, key, l, asks)
}

func (s *oddStore) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if err := s.down(key); err != nil {
		return driver.TakenOne{}, err
	}
	return s.Backend.TakeOne(ctx, key, l, a)
}

func (s *oddStore) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := pause(ctx, s.late); err != nil {
			yield("", err)
			return
		}
		last := false
		for key, err := range s.Backend.List(ctx, prefix) {
			if key == s.last && err == nil {
				last = true
				continue
			}
			if !yield(key, err) {
				return
			}
		}
		if last {
			yield(s.last, nil)
		}
	}
}

func (k *kit) hold(key string, opts ...coord.LockOption) {
	k.t.Helper()
	if _, err := k.client.TryLock(k.t.Context(), key, append(opts, coord.NoRenew(), coord.TTL(time.Hour))...); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) crowd(n int) {
	for i := range n {
		k.hold(fmt.Sprintf("job/%04d", i))
	}
}
