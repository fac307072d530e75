package optimistic_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
	"github.com/coordgo/coord/driver/optimistic"
)

// server is a store that can read a value with its revision, and write one if the revision is still the same.
type server struct {
	mu       sync.Mutex
	revision map[string]int64
	values   map[string][]byte
}

// adapter is the limits of a backend over it.
type adapter struct {
	optimistic.Limiter
	table  *optimistic.Table[int64] // an int64 is the revision
	server *server
}

func newAdapter(s *server) *adapter {
	a := &adapter{table: optimistic.NewTable[int64](1000), server: s}
	a.Limiter = optimistic.NewLimiter(a.update)
	return a
}

func (a *adapter) update(ctx context.Context, key string, c optimistic.Change) error {
	return a.table.Do(ctx, a, key+" "+limits.Name(c.Limit), c)
}

// TakeAll would need a transaction at the server if there were several keys.
func (a *adapter) TakeAll(ctx context.Context, demands []driver.Demand) ([]driver.Taken, error) {
	return a.takeAll(ctx, a, demands)
}

func (a *adapter) takeAll(ctx context.Context, s optimistic.Store[int64], demands []driver.Demand) ([]driver.Taken, error) {
	names := make([]string, len(demands))
	for i, d := range demands {
		if err := limits.Check(d.Limit, driver.Ask{Min: d.N, N: d.N}); err != nil {
			return nil, err
		}
		names[i] = d.Key + " " + limits.Name(d.Limit)
	}
	return a.table.TakeAll(ctx, s, names, demands)
}

func (a *adapter) Now() int64 { return time.Now().UnixMicro() }

func (a *adapter) Look(*optimistic.Cell[int64], driver.Limit, int64) {}

// Trust says that what this client has seen is worth a try, and that what it has not is likely to be new.
func (a *adapter) Trust(*optimistic.Cell[int64]) bool { return true }

func (a *adapter) Load(_ context.Context, cells []*optimistic.Cell[int64], _ bool) error {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	return a.read(cells)
}

func (a *adapter) read(cells []*optimistic.Cell[int64]) error {
	for _, c := range cells {
		var s limits.State
		if value, ok := a.server.values[c.Name]; ok {
			if err := s.UnmarshalBinary(value); err != nil {
				return err
			}
		}
		c.Saw(a.server.revision[c.Name], s)
	}
	return nil
}

func (a *adapter) Swap(_ context.Context, cells []*optimistic.Cell[int64], _ int64) (bool, error) {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	for _, c := range cells {
		if !c.Known {
			c.Version = 0 // as of what is not there
		}
		if a.server.revision[c.Name] != c.Version {
			return false, a.read(cells)
		}
	}
	for _, c := range cells {
		if !c.Changed {
			continue
		}
		value, err := c.State.MarshalBinary()
		if err != nil {
			return false, err
		}
		c.Version++
		a.server.revision[c.Name], a.server.values[c.Name] = c.Version, value // a real one would expire after c.Keep
	}
	return true, nil
}

// Five methods of a store make its limits. Two clients use it.
func ExampleTable() {
	limit, err := driver.Limit{Rate: 3, Per: time.Minute}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &server{revision: make(map[string]int64), values: make(map[string][]byte)}
	one, two := newAdapter(s), newAdapter(s)
	ctx := context.Background()
	for i, a := range []*adapter{one, one, two, two} {
		taken, err := a.TakeOne(ctx, "k", limit, driver.Ask{Min: 1, N: 1})
		fmt.Println(i, taken.N, err)
	}
	all, err := one.TakeAll(ctx, []driver.Demand{{Key: "k", Limit: limit, N: 1}, {Key: "other", Limit: limit, N: 1}})
	fmt.Println(all[0].Asks[0].N, all[1].Asks[0].N, all[1].Remaining, err)
	// Output:
	// 0 1 <nil>
	// 1 1 <nil>
	// 2 1 <nil>
	// 3 0 <nil>
	// 0 0 3 <nil>
}

// A store that can change a state in one step needs only an Update.
func ExampleUpdate() {
	states, now := make(map[string]*limits.State), time.Now().UnixMicro()
	var update optimistic.Update = func(_ context.Context, key string, c optimistic.Change) error {
		name := key + " " + limits.Name(c.Limit)
		if states[name] == nil {
			states[name] = new(limits.State)
		}
		c.Apply(states[name], now)
		return nil
	}
	m := optimistic.NewLimiter(update)
	limit, err := driver.Limit{Rate: 3, Per: time.Minute}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	taken, err := m.Take(context.Background(), "k", limit, []driver.Ask{{Min: 1, N: 2}, {Min: 2, N: 2}})
	fmt.Println(taken.Asks[0].N, taken.Asks[1].N, taken.Remaining, err)
	// Output: 2 0 1 <nil>
}

// A Limiter has the methods that the core calls.
func ExampleLimiter() {
	a := newAdapter(&server{revision: make(map[string]int64), values: make(map[string][]byte)})
	var limiter driver.Limiter = a
	limit, err := driver.Limit{Rate: 3, Per: time.Minute}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	one, err := limiter.TakeOne(context.Background(), "k", limit, driver.Ask{Min: 1, N: 1})
	fmt.Println(one.N, one.Remaining, err)
	// Output: 1 2 <nil>
}

// A Change that is no request for permits: it looks at how long a state is to be kept.
func ExampleChange() {
	a := newAdapter(&server{revision: make(map[string]int64), values: make(map[string][]byte)})
	limit, err := driver.Limit{Rate: 3, Per: time.Minute, Algorithm: driver.FixedWindow}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	var keep time.Duration
	err = a.update(context.Background(), "k", optimistic.Change{Limit: limit, Peek: true, Apply: func(s *limits.State, now int64) bool {
		keep = s.Expiry(limit, now)
		return false
	}})
	fmt.Println(keep, err)
	// Output: 0s <nil>
}

// A Store tells a cell what it has read.
func ExampleCell() {
	c := optimistic.Cell[int64]{Name: "k"}
	c.Saw(7, limits.State{})
	fmt.Println(c.Known, c.Fresh, c.Version)
	// Output: true true 7
}

// The adapter of these examples is a Store.
func ExampleStore() {
	var s optimistic.Store[int64] = newAdapter(&server{revision: make(map[string]int64)})
	fmt.Println(s.Trust(&optimistic.Cell[int64]{Name: "k"}))
	// Output: true
}

// A caller whose write was refused tries again after a random pause.
func ExampleBackoff() {
	var b optimistic.Backoff
	b.Observe(time.Millisecond) // a round trip
	for defeats := range 3 {
		if err := b.Pause(context.Background(), defeats); err != nil {
			fmt.Println(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(b.Pause(ctx, 0))
	// Output: not applied by the store: context canceled
}
