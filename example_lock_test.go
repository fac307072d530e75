package coord_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
)

// One process at a time, over all that use the same store.
func ExampleDo() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "invoices")
		fmt.Println("holding", lock.Key(), "with a token:", lock.Token() > 0)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// holding invoices with a token: true
	// error: <nil>
}

// A transfer needs both accounts, and another one in the opposite direction does not deadlock with it.
func ExampleDoAll() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.DoAll(ctx, client, []string{"account/7", "account/3"}, func(ctx context.Context) error {
		from, _ := coord.Held(ctx, "account/7")
		to, _ := coord.Held(ctx, "account/3")
		fmt.Println(from.Key(), from.Err(), to.Key(), to.Err())
		return nil
	}, coord.WaitAtMost(5*time.Second))
	fmt.Println(err)
	// Output:
	// account/7 <nil> account/3 <nil>
	// <nil>
}

// Of all processes that call this, one runs the function, until it returns, or ctx ends. If it is lost, another goes on.
func ExampleLead() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.Lead(ctx, client, "scheduler", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "scheduler")
		fmt.Println("leading", lock.Key(), "with a term:", lock.Token() > 0)
		stop() // as at the end of the process
		<-ctx.Done()
		return ctx.Err()
	}, coord.TTL(10*time.Second))
	fmt.Println(err)
	// Output:
	// leading scheduler with a term: true
	// context canceled
}

// Others find the holder by the name that it gives: its address, say.
func ExampleHolderName() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = coord.Do(ctx, client, "scheduler", func(ctx context.Context) error {
		holder, err := client.Inspect(ctx, "scheduler")
		fmt.Println(holder.Name)
		return err
	}, coord.HolderName("10.0.0.7:8080"))
	fmt.Println(err)
	// Output:
	// 10.0.0.7:8080
	// <nil>
}

// A job that many machines have in their schedule runs once for each tick: the tick is in the key, and MinHold keeps it
// taken for machines whose clocks are late.
func ExampleTryDo_oncePerTick() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for _, machine := range []string{"a", "b"} {
		for _, tick := range []string{"12:00", "13:00"} {
			ran, err := coord.TryDo(ctx, client, coord.Key("report", tick), func(context.Context) error { return nil }, coord.MinHold(time.Hour))
			fmt.Println(machine, tick, ran, err)
		}
	}
	// Output:
	// a 12:00 true <nil>
	// a 13:00 true <nil>
	// b 12:00 false <nil>
	// b 13:00 false <nil>
}

// Who holds the locks of the jobs?
func ExampleClient_List() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock, err := client.Lock(ctx, "jobs/nightly", coord.HolderName("web-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)
	for key, err := range client.List(ctx, "jobs/") {
		if err != nil {
			fmt.Println(err)
			return
		}
		holder, err := client.Inspect(ctx, key)
		fmt.Println(key, holder.Name, err)
	}
	// Output: jobs/nightly web-1 <nil>
}

// The present holder, and then each change; here until the first vacancy.
func ExampleClient_Watch() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "scheduler", coord.HolderName("10.0.0.7:8080"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for holder, err := range client.Watch(ctx, "scheduler") {
		if errors.Is(err, coord.ErrNotHeld) {
			fmt.Println("nobody")
			break
		}
		fmt.Println(holder.Name, err)
		if err := lock.Unlock(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 10.0.0.7:8080 <nil>
	// nobody
}

// One of the keys is taken: none is held.
func ExampleTryDoAll() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "account/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	ran, err := coord.TryDoAll(ctx, client, []string{"account/3", "account/7"}, func(context.Context) error { return nil })
	fmt.Println(ran, err)
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// false <nil>
	// <nil>
}

// Someone else is at it: skip this run.
func ExampleTryDo() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	ran, err := coord.TryDo(ctx, client, "nightly", func(context.Context) error { return nil })
	fmt.Println(ran, err)

	fmt.Println(lock.Unlock(ctx))
	ran, err = coord.TryDo(ctx, client, "nightly", func(context.Context) error { return nil })
	fmt.Println(ran, err)
	// Output:
	// false <nil>
	// <nil>
	// true <nil>
}

// A lock by hand: work under its context, and take the loss seriously.
func ExampleClient_Lock() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "report", coord.TTL(10*time.Second), coord.WaitAtMost(time.Minute))
	if errors.Is(err, coord.ErrLocked) {
		fmt.Println("still busy after a minute")
		return
	} else if err != nil {
		fmt.Println(err)
		return
	}
	work, cancel := lock.Context(ctx) // ends when the lock is lost
	defer cancel()
	fmt.Println("working, cancelled:", work.Err() != nil)
	if err := lock.Unlock(ctx); errors.Is(err, coord.ErrLost) {
		fmt.Println("someone else may have worked meanwhile: roll back")
	}
	// Output: working, cancelled: false
}

// The resource remembers the greatest token it has seen, and refuses an older
// one: a holder that was frozen cannot write over its successor.
func ExampleGuard() {
	var guard coord.Guard
	fmt.Println(guard.Check("balance", 2048)) // the successor's token
	err := guard.Check("balance", 1024)       // the frozen holder wakes up
	fmt.Println(errors.Is(err, coord.ErrLost))
	// Output:
	// <nil>
	// true
}

// Re-entry: a function that locks may call another that takes the same lock.
func ExampleWithOwner() {
	client, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx := coord.WithOwner(context.Background())
	outer, _ := client.Lock(ctx, "account/7")
	inner, _ := client.Lock(ctx, "account/7") // no round trip
	fmt.Println("one hold:", outer.Token() == inner.Token())

	_, err = client.TryLock(context.Background(), "account/7") // nobody's context
	fmt.Println("others are excluded:", errors.Is(err, coord.ErrLocked))

	fmt.Println(inner.Unlock(ctx), outer.Unlock(ctx))
	// Output:
	// one hold: true
	// others are excluded: true
	// <nil> <nil>
}
