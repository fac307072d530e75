package cas_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// kv is a store that can read a value with its revision, and write one if the
// revision is still the same.
type kv struct {
	mu       sync.Mutex
	values   map[cas.Name][]byte
	revision map[cas.Name]int64
}

func (s *kv) Load(_ context.Context, n cas.Name) (cas.Loaded[int64], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cas.Loaded[int64]{Value: s.values[n], Version: s.revision[n], Now: time.Now()}, nil
}

func (s *kv) CompareAndSwap(_ context.Context, n cas.Name, loaded int64, c cas.Change) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revision[n] != loaded {
		return false, nil
	}
	s.revision[n]++
	s.values[n] = c.Value // a real store would expire it after c.Keep
	return true, nil
}

func (s *kv) Close() error { return nil }

// Two methods of a store are enough for locks and limits.
func Example() {
	store := &kv{values: make(map[cas.Name][]byte), revision: make(map[cas.Name]int64)}
	b := cas.New(driver.Info{Name: "kv", TTLStep: time.Millisecond}, cas.Optimistic(store))
	defer b.Close()
	ctx := context.Background()

	_, err := b.TryLock(ctx, "orders/42", driver.Request{ID: "a", TTL: time.Minute})
	fmt.Println("a:", err)
	_, err = b.TryLock(ctx, "orders/42", driver.Request{ID: "b", TTL: time.Minute})
	fmt.Println("b is locked out:", errors.Is(err, driver.ErrLocked))

	limit, err := driver.Limit{Rate: 2, Per: time.Minute}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		one, err := b.TakeOne(ctx, "supplier", limit, driver.Ask{Min: 1, N: 1})
		fmt.Println("granted:", one.N, err)
	}
	// Output:
	// a: <nil>
	// b is locked out: true
	// granted: 1 <nil>
	// granted: 1 <nil>
	// granted: 0 <nil>
}
