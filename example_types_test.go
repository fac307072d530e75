package coord_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// away is a store whose limits cannot be reached.
type away struct{ driver.Backend }

func (f away) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	return driver.One(f.Take(ctx, key, l, []driver.Ask{a}))
}

func (away) Take(context.Context, string, driver.Limit, []driver.Ask) (driver.Taken, error) {
	return driver.Taken{}, driver.ErrNotSent
}

func (away) Reset(context.Context, string, driver.Limit) error { return driver.ErrNotSent }

// The zero Algorithm is a sliding window, and a token bucket if there is a burst.
func ExampleAlgorithm() {
	for _, l := range []coord.Limit{
		{Rate: 2000, Per: time.Minute},
		{Rate: 2000, Per: time.Minute, Burst: 200},
		{Rate: 2000, Per: time.Minute, Algorithm: coord.FixedWindow},
	} {
		normal, err := l.Normal()
		fmt.Println(l, "counts by", normal.Algorithm, err)
	}
	// Output:
	// 2000/1m counts by sliding-window <nil>
	// 2000/1m burst=200 counts by token-bucket <nil>
	// 2000/1m fixed-window counts by fixed-window <nil>
}

// All of several limits, or nothing of any.
func ExampleDemand() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	demands := []coord.Demand{
		{Key: "user/ann", Limit: coord.PerHour(1), N: 1},
		{Key: "tenant/acme", Limit: coord.PerHour(100), N: 1},
	}
	for range 2 {
		results, err := client.AllowAll(ctx, demands...)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(results[0].Allowed, results[1].Allowed)
	}
	left, err := client.Peek(ctx, "tenant/acme", coord.PerHour(100))
	fmt.Println("the denial cost the tenant nothing:", left.Remaining, err)
	// Output:
	// true true
	// false false
	// the denial cost the tenant nothing: 99 <nil>
}

// Match errors with errors.Is; an *Error has the details.
func ExampleError() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	_, err = client.AllowN(ctx, "mails", coord.PerHour(100), 150)
	fmt.Println(errors.Is(err, coord.ErrExceedsBurst))
	var e *coord.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Backend, e.Key)
	}
	// Output:
	// true
	// allow memory mails
}

// What nobody can count is admitted, and says so.
func ExampleFailurePolicy() {
	ctx := context.Background()
	client, err := coord.New(away{memory.NewStore().Open()}, coord.WithFailurePolicy(coord.FailOpen))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	r, err := client.Allow(ctx, "search", coord.PerSecond(100))
	fmt.Println(r.Allowed, err, errors.Is(r.Degraded, coord.ErrUnavailable))
	// Output: true <nil> true
}

// Who holds it?
func ExampleHolder() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithHolderName("worker-1"))
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
	holder, err := client.Inspect(ctx, "invoices")
	fmt.Println(holder.Name, holder.PID == os.Getpid(), holder.Token == lock.Token(), err)
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// worker-1 true true <nil>
	// <nil>
}

// What needs locks alone takes a Locker: a test may give it another.
func ExampleLocker() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	bill := func(ctx context.Context, locks coord.Locker, customer string) error {
		return coord.Do(ctx, locks, coord.Key("bill", customer), func(context.Context) error {
			fmt.Println("one bill for", customer)
			return nil
		})
	}
	fmt.Println(bill(ctx, client, "acme"))
	// Output:
	// one bill for acme
	// <nil>
}

// What needs limits alone takes a Limiter.
func ExampleLimiter() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	greet := func(ctx context.Context, limits coord.Limiter, user string) string {
		if r, err := limits.Allow(ctx, coord.Key("greet", user), coord.PerHour(1)); err != nil || !r.Allowed {
			return "not again"
		}
		return "hello " + user
	}
	fmt.Println(greet(ctx, client, "ann"), greet(ctx, client, "ann"), greet(ctx, client, "bob"))
	// Output: hello ann not again hello bob
}

// A handle says whether the lock is held, until when that is certain, and in which order.
func ExampleLock() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices", coord.TTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Key(), lock.TTL(), lock.Token() > 0, time.Now().Before(lock.Deadline()), lock.Err())
	fmt.Println(lock.Unlock(ctx))
	fmt.Println(errors.Is(lock.Err(), coord.ErrNotHeld), errors.Is(lock.Unlock(ctx), coord.ErrNotHeld))
	// Output:
	// invoices 1m0s true true <nil>
	// <nil>
	// true true
}

// Someone who waits learns of a loss at once.
func ExampleLock_Done() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
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
	select {
	case <-time.After(time.Hour): // the work
	case <-lock.Done():
		fmt.Println("stop:", errors.Is(lock.Err(), coord.ErrLost))
	}
	fmt.Println(errors.Is(lock.Unlock(ctx), coord.ErrLost))
	// Output:
	// stop: true
	// true
}

// Options of a call win over the client's.
func ExampleLockOption() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://", coord.WithLockDefaults(coord.TTL(time.Minute), coord.MaxHold(time.Hour)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "invoices", coord.TTL(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.TTL(), lock.Unlock(ctx))
	// Output: 5s <nil>
}

// A tick of one second is not run twice by clocks that are two seconds apart.
func ExampleMinHold() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	tick := func() (bool, error) {
		return coord.TryDo(ctx, client, "cron", func(context.Context) error { return nil }, coord.MinHold(time.Minute))
	}
	fmt.Println(tick())
	fmt.Println(tick())
	// Output:
	// true <nil>
	// false <nil>
}

// A store that lacks what the application relies on is refused when it is opened.
func ExampleOption() {
	ctx := context.Background()
	_, err := coord.Open(ctx, "memory://", coord.WithRequired(driver.ScopeHosts))
	fmt.Println(errors.Is(err, coord.ErrUnsupported))
	// Output: true
}

// A place in the queue that is too far back is left to others.
func ExampleReservation() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	bucket := coord.Limit{Rate: 60, Per: time.Hour, Burst: 1} // one a minute
	for range 2 {
		r, err := client.Reserve(ctx, "renders", bucket, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		if r.Delay() > time.Second {
			fmt.Println("not for", r.Delay().Round(time.Minute), r.Cancel(ctx))
			return
		}
		fmt.Println("now,", r.N())
	}
	// Output:
	// now, 1
	// not for 1m0s <nil>
}

// A denial is a Result, and no error.
func ExampleResult() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for range 2 {
		r, err := client.AllowN(ctx, "mails", coord.PerHour(100), 60)
		fmt.Println(r.Allowed, r.Granted, r.Remaining, r.RetryAfter > 0, err)
	}
	// Output:
	// true 60 40 false <nil>
	// false 0 40 true <nil>
}

// Each later holder of a key has a greater token. In JSON it is a string.
func ExampleToken() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	var tokens []coord.Token
	for range 2 {
		err := coord.Do(ctx, client, "invoices", func(ctx context.Context) error {
			lock, _ := coord.Held(ctx, "invoices")
			tokens = append(tokens, lock.Token())
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	text, err := json.Marshal(coord.Token(1838336536036800512))
	fmt.Println(tokens[0] < tokens[1], string(text), err)
	// Output: true "1838336536036800512" <nil>
}

// A hot key is asked of the store once for many permits, which are then spent here: for 50 ms at most.
func ExamplePermitLease() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "coord")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	hot := coord.PerSecond(100_000)
	client, err := coord.Open(ctx, "file://"+dir, coord.WithPermitLease(coord.PermitLease{Max: 500, For: 50 * time.Millisecond}, hot))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	granted := 0
	for range 1000 {
		r, err := client.Allow(ctx, "search", hot)
		if err != nil {
			fmt.Println(err)
			return
		}
		granted += r.Granted
	}
	fmt.Println(granted)
	// Output: 1000
}
