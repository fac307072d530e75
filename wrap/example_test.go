package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/wrap"
)

func ExampleLocked() {
	client, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ship := wrap.Locked(client,
		func(order int) string { return coord.Key("order", fmt.Sprint(order)) },
		func(ctx context.Context, order int) (string, error) {
			return fmt.Sprintf("order %d shipped once", order), nil
		})
	fmt.Println(ship(context.Background(), 42))
	// Output: order 42 shipped once <nil>
}

// A method without a result, for which another call of the same order is not waited for.
func ExampleTryLocked() {
	client, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	byOrder := func(order int) string { return coord.Key("order", fmt.Sprint(order)) }
	var cancel func(context.Context, int) (struct{}, error)
	cancel = wrap.TryLocked(client, byOrder, wrap.NoResult(func(ctx context.Context, order int) error {
		_, err := cancel(context.Background(), order) // somebody else's call: not under this ctx
		fmt.Println("at the same time:", errors.Is(err, coord.ErrLocked))
		return nil
	}))
	_, err = cancel(context.Background(), 42)
	fmt.Println(err)
	// Output:
	// at the same time: true
	// <nil>
}

func ExampleLimited() {
	client, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	call := wrap.Limited(client, func(user string) string { return coord.Key("user", user) }, coord.PerHour(1),
		func(ctx context.Context, user string) (string, error) { return "hello " + user, nil })
	fmt.Println(call(context.Background(), "ann"))
	_, err = call(context.Background(), "ann")
	fmt.Println(errors.Is(err, coord.ErrLimited))
	// Output:
	// hello ann <nil>
	// true
}

// Wrappers nest: the lock of the user first, then a permit, for which it waits.
func ExampleLimitedWait() {
	client, err := coord.Open(context.Background(), "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	byUser := func(user string) string { return coord.Key("user", user) }
	mail := func(ctx context.Context, user string) (string, error) {
		lock, _ := coord.Held(ctx, byUser(user))
		return fmt.Sprintf("mail to %s, under a lock: %v", user, lock.Err() == nil), nil
	}
	send := wrap.Locked(client, byUser,
		wrap.LimitedWait(client, func(string) string { return "mail" }, coord.PerHour(1), time.Minute, mail),
		coord.TTL(10*time.Second), coord.MaxHold(2*time.Minute))
	fmt.Println(send(context.Background(), "ann"))
	_, err = send(context.Background(), "bob") // not within a minute: it does not wait at all
	fmt.Println(errors.Is(err, coord.ErrLimited))
	// Output:
	// mail to ann, under a lock: true <nil>
	// true
}
