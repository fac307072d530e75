package driver_test

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

func ExampleAlgorithm() {
	a, err := driver.ParseAlgorithm("token-bucket")
	fmt.Println(a, a == driver.TokenBucket, err)
	// Output: token-bucket true <nil>
}

// Normal fills in what zero values mean; adapters are only given normal limits.
func ExampleLimit() {
	l, err := driver.Limit{Rate: 2000, Per: time.Minute, Burst: 200}.Normal()
	fmt.Println(l, l.Algorithm, l.Max(), err)
	rate, unit := l.Refill()
	fmt.Printf("%d credits a microsecond, %d a permit\n", rate, unit)
	// Output:
	// 2000/1m burst=200 token-bucket 200 <nil>
	// 1 credits a microsecond, 30000 a permit
}

// Asks are evaluated in order, in one step.
func ExampleLimiter() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	taken, err := store.Take(ctx, "mails", limit, []driver.Ask{{Min: 8, N: 8}, {Min: 8, N: 8}, {Min: 1, N: 8}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range taken.Asks {
		fmt.Println(g.N)
	}
	fmt.Println("left", taken.Remaining, store.Reset(ctx, "mails", limit))
	// Output:
	// 8
	// 0
	// 2
	// left 0 <nil>
}

// All or none, at most, and a look.
func ExampleAsk() {
	for _, a := range []driver.Ask{{Min: 5, N: 5}, {Min: 1, N: 5}, {}} {
		switch {
		case a.N == 0:
			fmt.Println("peek")
		case a.Min == a.N:
			fmt.Println("all", a.N, "or none")
		default:
			fmt.Println("from", a.Min, "to", a.N)
		}
	}
	// Output:
	// all 5 or none
	// from 1 to 5
	// peek
}

func ExampleGranted() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	taken, err := store.Take(ctx, "mails", limit, []driver.Ask{{Min: 10, N: 10}, {Min: 1, N: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range taken.Asks {
		fmt.Println(g.N, g.RetryAfter > time.Hour-time.Minute, g.ValidFor > 0)
	}
	// Output:
	// 10 false true
	// 0 true false
}

func ExampleTaken() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	taken, err := store.Take(ctx, "mails", limit, []driver.Ask{{Min: 3, N: 3}})
	fmt.Println(len(taken.Asks), taken.Remaining, taken.ResetAfter > 59*time.Minute, err)
	// Output: 1 7 true <nil>
}

func ExampleLimiter_TakeOne() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	one, err := store.TakeOne(ctx, "mails", limit, driver.Ask{Min: 3, N: 3})
	fmt.Println(one.N, one.Remaining, err)
	// Output: 3 7 <nil>
}

func ExampleTakenOne() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	one, err := store.TakeOne(ctx, "mails", limit, driver.Ask{Min: 3, N: 3})
	fmt.Println(one.Granted.N == 3, one.ResetAfter > 0, err)
	// Output: true true <nil>
}

// All or none, in one step.
func ExampleLimiter_TakeAll() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	demands := []driver.Demand{{Key: "user/ann", Limit: limit, N: 8}, {Key: "tenant/acme", Limit: limit, N: 8}}
	for range 2 {
		taken, err := store.TakeAll(ctx, demands)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(taken[0].Asks[0].N, taken[1].Asks[0].N)
	}
	// Output:
	// 8 8
	// 0 0
}

func ExampleDemand() {
	limit, err := driver.ParseLimit("10/1h")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	d := driver.Demand{Key: "user/ann", Limit: limit, N: 8}
	fmt.Println(d.N, "of", d.Limit, "under", d.Key)
	// Output: 8 of 10/1h under user/ann
}

// What is not due yet is given back once, by the id of its ask.
func ExampleLimiter_Refund() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("60/1h burst=1")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	asks := []driver.Ask{{Min: 1, N: 1}, {ID: "later", Min: 1, N: 1, MaxDelay: time.Hour}}
	taken, err := store.Take(ctx, "renders", limit, asks)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(taken.Asks[1].N, taken.Asks[1].Delay > 0)
	for range 2 { // the second time does nothing
		fmt.Println(store.Refund(ctx, "renders", limit, "later", 1))
	}
	// Output:
	// 1 true
	// <nil>
	// <nil>
}

// A charge is debited whatever is left, and what was not used is given back.
func ExampleLimiter_Charge() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.ParseLimit("10/1h burst=10")
	if err == nil {
		limit, err = limit.Normal()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range []int{25, -20} {
		c, err := store.Charge(ctx, "tenant", limit, n)
		fmt.Println(c.Remaining, c.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// 0 1h36m0s <nil>
	// 5 0s <nil>
}

// A Charged is what a peek right after the charge would see.
func ExampleCharged() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	limit, err := driver.Limit{Rate: 100, Per: time.Hour, Algorithm: driver.FixedWindow}.Normal()
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := store.Charge(ctx, "rows", limit, 60)
	fmt.Println(c.Remaining, c.RetryAfter, c.ResetAfter <= time.Hour, err)
	// Output: 40 0s true <nil>
}
