package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/observe"
)

// An observer is told what the client does, as far as it asks to be.
func ExampleObserver() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Acquired: func(_ context.Context, e observe.Acquired) { fmt.Println("acquired", e.Key) },
		Released: func(_ context.Context, e observe.Released) { fmt.Println("released", e.Key) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// acquired invoices
	// released invoices
	// <nil>
}

// What every event about a lock has.
func ExampleLock() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Acquired: func(_ context.Context, e observe.Acquired) {
			about := e.Lock
			fmt.Println(about.Backend, about.Key, about.ID != "", about.Token > 0)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// memory invoices true true
	// <nil>
}

func ExampleAcquired() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Acquired: func(_ context.Context, e observe.Acquired) { fmt.Printf("%s, for %v\n", e.Way, e.TTL) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// free, for 30s
	// <nil>
}

func ExampleReleased() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Released: func(_ context.Context, e observe.Released) { fmt.Println("confirmed:", e.Err == nil) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// confirmed: true
	// <nil>
}

// How often locks were had at once, and how often not.
func ExampleWay() {
	ways := make(map[observe.Way]int)
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Acquired: func(_ context.Context, e observe.Acquired) { ways[e.Way]++ },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for range 3 {
		if err := coord.Do(ctx, client, "invoices", func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(ways)
	// Output: map[free:3]
}

// A wait for a lock that this client has itself.
func ExampleWaitBegan() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		WaitBegan: func(_ context.Context, e observe.WaitBegan) {
			fmt.Printf("in the queue for %s, which we hold: %v\n", e.Key, e.HeldBy != "")
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Lock(ctx, "invoices", coord.WaitAtMost(100*time.Millisecond))
	fmt.Println(errors.Is(err, coord.ErrLocked), lock.Unlock(ctx))
	// Output:
	// in the queue for invoices, which we hold: true
	// true <nil>
}

func ExampleWaitEnded() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		WaitEnded: func(_ context.Context, e observe.WaitEnded) { fmt.Printf("the wait for %s: %s\n", e.Key, e.Outcome) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Lock(ctx, "invoices", coord.WaitAtMost(100*time.Millisecond))
	fmt.Println(errors.Is(err, coord.ErrLocked), lock.Unlock(ctx))
	// Output:
	// the wait for invoices: timed_out
	// true <nil>
}

func ExampleRefused() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Refused: func(_ context.Context, e observe.Refused) { fmt.Printf("%s: %s\n", e.Key, e.Outcome) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.TryLock(ctx, "invoices")
	fmt.Println(errors.Is(err, coord.ErrLocked), lock.Unlock(ctx))
	// Output:
	// invoices: refused
	// true <nil>
}

// How calls ended, as labels of a metric.
func ExampleOutcome() {
	outcomes := make(map[observe.Outcome]int)
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		CallEnded: func(_ context.Context, e observe.CallEnded) { outcomes[e.Outcome]++ },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if _, err := client.TryLock(ctx, "invoices"); !errors.Is(err, coord.ErrLocked) {
			fmt.Println(err)
		}
	}
	fmt.Println(lock.Unlock(ctx), outcomes)
	// Output: <nil> map[ok:1 refused:2]
}

func ExampleReentered() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Reentered: func(_ context.Context, e observe.Reentered) { fmt.Println(e.Depth, "handles on", e.Key) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		return coord.Do(ctx, client, "invoices", func(context.Context) error { return nil })
	})
	fmt.Println(err)
	// Output:
	// 2 handles on invoices
	// <nil>
}

// A lease is renewed every third of it.
func ExampleRenewed() {
	renewed := make(chan observe.Renewed, 1)
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Renewed: func(_ context.Context, e observe.Renewed) {
			select {
			case renewed <- e:
			default: // it is told of one
			}
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices", coord.TTL(3*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	e := <-renewed
	fmt.Println(e.Key, "is ours for another", e.TTL)
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// invoices is ours for another 3s
	// <nil>
}

// A renewal that fails is tried again for as long as the lease lasts.
func ExampleRenewFailed() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		RenewFailed: func(ctx context.Context, e observe.RenewFailed) {
			slog.WarnContext(ctx, "the store does not renew a lock", "key", e.Key, "lost in", e.Left, "error", e.Err)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	// Work as ever.
}

func ExampleLost() {
	lost := make(chan observe.Lost, 1)
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Lost: func(_ context.Context, e observe.Lost) { lost <- e },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices", coord.TTL(time.Second), coord.NoRenew())
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Done()
	e := <-lost
	fmt.Println(e.Key, e.Reason, errors.Is(e.Err, coord.ErrLost))
	fmt.Println(errors.Is(lock.Unlock(ctx), coord.ErrLost))
	// Output:
	// invoices expired true
	// true
}

// Work that took longer than it may is another matter than a store that was away.
func ExampleLoss() {
	reasons := make(chan observe.Loss, 1)
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Lost: func(_ context.Context, e observe.Lost) { reasons <- e.Reason },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices", coord.MaxHold(20*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Done()
	switch reason := <-reasons; reason {
	case observe.LossMaxHold:
		fmt.Println("too long:", reason)
	case observe.LossExpired, observe.LossRevoked, observe.LossClosed:
		fmt.Println(reason)
	}
	fmt.Println(errors.Is(lock.Unlock(ctx), coord.ErrMaxHold))
	// Output:
	// too long: max_hold
	// true
}

// A value in the context of a call is seen by all that the call does.
func ExampleCall() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		CallBegan: func(ctx context.Context, c observe.Call) context.Context {
			fmt.Println(c.Op, c.Key)
			return ctx // or a span's
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	fmt.Println(coord.Do(ctx, client, "invoices", func(context.Context) error { return nil }))
	// Output:
	// do invoices
	// lock invoices
	// <nil>
}

func ExampleCallEnded() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		CallEnded: func(_ context.Context, e observe.CallEnded) {
			fmt.Printf("%s for %d of %v: %s\n", e.Op, e.N, e.Limit, e.Outcome)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	fmt.Println(client.Wait(ctx, "supplier", coord.PerHour(2)))
	// Output:
	// wait for 1 of 2/1h: ok
	// <nil>
}

func ExampleDecision() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		Denied: func(_ context.Context, e observe.Decision) {
			fmt.Printf("%s: %d of %d granted, again in an hour: %v\n", e.Key, e.Granted, e.Asked, e.RetryAfter > 59*time.Minute)
		},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for range 2 {
		if _, err := client.Allow(ctx, "supplier", coord.PerHour(1)); err != nil {
			fmt.Println(err)
		}
	}
	// Output: supplier: 0 of 1 granted, again in an hour: true
}

// What the store was asked.
func ExampleStoreCall() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithObserver(observe.Observer{
		StoreCalled: func(_ context.Context, e observe.StoreCall) { fmt.Println(e.Op, "failed:", e.Failed()) },
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// trylock failed: false
	// unlock failed: false
	// <nil>
}

// How much was taken in advance for nothing? Then For may be shorter.
func ExampleLeaseEnded() {
	var spent, wasted atomic.Int64
	observer := observe.Observer{LeaseEnded: func(_ context.Context, e observe.LeaseEnded) {
		spent.Add(int64(e.Spent))
		wasted.Add(int64(e.Wasted))
	}}
	client, err := coord.Open(context.Background(), "memory://", coord.WithObserver(observer), coord.WithPermitLease(coord.PermitLease{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	fmt.Println(spent.Load(), wasted.Load())
	// Output: 0 0
}
