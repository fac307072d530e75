package coord_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
)

func ExampleClient_Allow() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for range 3 {
		r, err := client.Allow(ctx, "supplier", coord.PerHour(2))
		fmt.Println(r.Allowed, r.Remaining, r.RetryAfter > 0, err)
	}
	// Output:
	// true 1 false <nil>
	// true 0 false <nil>
	// false 0 true <nil>
}

func ExampleClient_AllowAtMost() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	r, err := client.AllowAtMost(ctx, "mails", coord.PerHour(100), 150)
	fmt.Println("send", r.Granted, "of 150 now;", err)
	// Output: send 100 of 150 now; <nil>
}

// Wait returns at once when the permit cannot come in time.
func ExampleClient_Wait() {
	client, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(client.Wait(ctx, "supplier", coord.PerHour(1)))
	err = client.Wait(ctx, "supplier", coord.PerHour(1))
	fmt.Println(errors.Is(err, coord.ErrLimited), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// true true
}

func ExampleClient_Reserve() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	bucket := coord.Limit{Rate: 60, Per: time.Hour, Burst: 1} // one a minute
	first, err := client.Reserve(ctx, "jobs", bucket, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := client.Reserve(ctx, "jobs", bucket, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Delay(), second.Delay().Round(time.Minute))
	fmt.Println(second.Cancel(ctx))
	// Output:
	// 0s 1m0s
	// <nil>
}

func ExampleParseLimit() {
	for _, s := range []string{"2000/1m", "2000/1m burst=200", "10/s fixed-window", "ten a minute"} {
		l, err := coord.ParseLimit(s)
		if err != nil {
			fmt.Println("refused")
			continue
		}
		normal, _ := l.Normal()
		fmt.Println(l, "is a", normal.Algorithm)
	}
	// Output:
	// 2000/1m is a sliding-window
	// 2000/1m burst=200 is a token-bucket
	// 10/1s fixed-window is a fixed-window
	// refused
}
