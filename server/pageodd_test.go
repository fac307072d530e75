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
	fails  string        // the key whose holder cannot be read
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
	if key == s.fails {
		return driver.Holder{}, fmt.Errorf("%w: the node of this key is down", driver.ErrUnavailable)
	}
	return s.Backend.Inspect(ctx, key)
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
