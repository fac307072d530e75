package cas_test

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// The backend is a whole store: its claims are for the author to make, and for the conformance suite to prove.
func ExampleBackend() {
	store := &kv{values: make(map[cas.Name][]byte), revision: make(map[cas.Name]int64)}
	b := cas.New(driver.Info{Name: "kv", Claims: driver.Claims{driver.ScopeProcess}}, cas.Optimistic(store))
	defer b.Close()
	ctx := context.Background()

	_, err := b.TryLock(ctx, "orders/42", driver.Request{ID: "a", TTL: time.Minute})
	fmt.Println(err)
	holder, err := b.Inspect(ctx, "orders/42")
	fmt.Println(holder.ID, err)
	// Output:
	// <nil>
	// a <nil>
}

// A value is read, decided on and swapped, again and again until nobody was in between.
func ExampleCells() {
	store := &kv{values: make(map[cas.Name][]byte), revision: make(map[cas.Name]int64)}
	var cells cas.Cells = cas.Optimistic(store)
	counter := cas.Name{Kind: cas.Limit, Key: "visits", State: "count"}
	for range 3 {
		err := cells.Update(context.Background(), counter, func(old []byte, _ time.Time) (cas.Change, error) {
			return cas.Change{Write: true, Value: append(old[:len(old):len(old)], '|'), Keep: time.Hour}, nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(string(store.values[counter]), cells.Close())
	// Output: ||| <nil>
}

// A Func decides from the old value alone: it may be asked again.
func ExampleFunc() {
	var free cas.Func = func(old []byte, _ time.Time) (cas.Change, error) {
		if old != nil {
			return cas.Change{}, driver.ErrLocked // the cell stays as it is
		}
		return cas.Change{Write: true, Value: []byte("taken"), Keep: time.Minute}, nil
	}
	change, err := free(nil, time.Now())
	fmt.Println(string(change.Value), err)
	_, err = free(change.Value, time.Now())
	fmt.Println(err)
	// Output:
	// taken <nil>
	// locked by another holder
}

// What is written, what is removed, and what stays.
func ExampleChange() {
	for _, c := range []cas.Change{{Write: true, Value: []byte("new"), Keep: time.Minute}, {Write: true}, {}} {
		switch {
		case !c.Write:
			fmt.Println("stays")
		case c.Value == nil:
			fmt.Println("is removed")
		default:
			fmt.Println("becomes", string(c.Value), "for", c.Keep)
		}
	}
	// Output:
	// becomes new for 1m0s
	// is removed
	// stays
}

// A lock and a limit of one key are two cells.
func ExampleKind() {
	fmt.Println(cas.Name{Kind: cas.Lock, Key: "a"} == cas.Name{Kind: cas.Limit, Key: "a"}, cas.Lock, cas.Limit)
	// Output: false lock limit
}

// A store writes the name of a cell so that different names never look alike.
func ExampleName() {
	n := cas.Name{Kind: cas.Limit, Key: "user/ann", State: "sw:60000000"}
	fmt.Printf("%s/%s/%x\n", n.Kind, n.State, n.Key)
	// Output: limit/sw:60000000/757365722f616e6e
}

// A read, and a swap that works only if nobody was in between.
func ExampleVersions() {
	store := &kv{values: make(map[cas.Name][]byte), revision: make(map[cas.Name]int64)}
	var versions cas.Versions[int64] = store
	ctx, name := context.Background(), cas.Name{Kind: cas.Lock, Key: "a"}
	loaded, err := versions.Load(ctx, name)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		fmt.Println(versions.CompareAndSwap(ctx, name, loaded.Version, cas.Change{Write: true, Value: []byte("x")}))
	}
	// Output:
	// true <nil>
	// false <nil>
}

// What is not there has a version too.
func ExampleLoaded() {
	store := &kv{values: make(map[cas.Name][]byte), revision: make(map[cas.Name]int64)}
	var versions cas.Versions[int64] = store
	ctx, name := context.Background(), cas.Name{Kind: cas.Lock, Key: "a"}
	loaded, err := versions.Load(ctx, name)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(loaded.Value == nil, loaded.Version, loaded.Now.IsZero())
	// Output: true 0 false
}

// Clients whose clocks lie up to 100 ms apart keep each lease by as much longer.
func ExampleOption() {
	store := &kv{values: make(map[cas.Name][]byte), revision: make(map[cas.Name]int64)}
	b := cas.New(driver.Info{Name: "kv"}, cas.Optimistic(store), cas.WithSkew(100*time.Millisecond))
	fmt.Println(b.Info().Name, b.Close())
	// Output: kv <nil>
}

// A store that stamps what it writes shows its clock by that.
func ExampleClock() {
	var clock cas.Clock
	_, known := clock.Now()
	fmt.Println(known)
	sent := time.Now()
	stamp := sent.Add(time.Hour) // what the store wrote: it is an hour ahead
	clock.Learn(sent, time.Now(), stamp, time.Millisecond)
	now, known := clock.Now()
	fmt.Println(known, time.Until(now).Round(time.Minute))
	// Output:
	// false
	// true 1h0m0s
}
