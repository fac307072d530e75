package quorum_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/backends/quorum"
)

// Three independent stores are one for locks. In a program they are servers of Redis:
//
//	locks, prefix, err := quorum.Open(ctx, "redis://a", "redis://b", "redis://c")
//	client, err := coord.New(locks, coord.WithPrefix(prefix))
func ExampleNew() {
	locks, err := quorum.New(memory.New(), memory.New(), memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := coord.New(locks)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	err = coord.Do(context.Background(), client, "invoices", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "invoices")
		fmt.Println("held by a majority, with a token:", lock.Token() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// held by a majority, with a token: true
	// <nil>
}
