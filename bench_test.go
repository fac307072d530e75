package coord

import (
	"context"
	"testing"

	"github.com/coordgo/coord/driver"
)

// nullStore grants everything and costs nothing: what is left is the core's own cost.
type nullStore struct {
	driver.Unimplemented
	token int64
}

func (*nullStore) Info() driver.Info { return driver.Info{Name: "null"} }
func (*nullStore) Close() error      { return nil }

func (s *nullStore) TryLock(_ context.Context, _ string, r driver.Request) (driver.Grant, error) {
	s.token++
	return driver.Grant{Token: s.token, TTL: r.TTL}, nil
}

func (s *nullStore) Renew(_ context.Context, _ string, r driver.Request) (driver.Grant, error) {
	return driver.Grant{Token: s.token, TTL: r.TTL}, nil
}
func (*nullStore) Unlock(context.Context, string, string) error { return nil }

func lockUnlock(tb testing.TB, c *Client, ctx context.Context) {
	l, err := c.Lock(ctx, "k")
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.Unlock(ctx); err != nil {
		tb.Fatal(err)
	}
}

// What the core adds to the two calls of an uncontended lock.
func BenchmarkLockUnlock(b *testing.B) {
	c := newTestClient(b, &nullStore{})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(b, c, ctx)
	}
}

// coreAllocations bounds what an uncontended Lock and Unlock allocate in the
// core: 5, and one more under the race detector.
const coreAllocations = 6

func TestCoreAllocations(t *testing.T) {
	c := newTestClient(t, &nullStore{})
	ctx := context.Background()
	if got := testing.AllocsPerRun(1000, func() { lockUnlock(t, c, ctx) }); got > coreAllocations {
		t.Errorf("%v allocations: want at most %d", got, coreAllocations)
	}
}
