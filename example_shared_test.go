package coord_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
)

// At most three at once, over all processes that use the same store. The slot is a number below three that nobody else has.
func ExampleShared() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	licences := client.Semaphore(3)
	err = coord.Do(ctx, licences, "renderer", func(ctx context.Context) error {
		lock, _ := licences.Held(ctx, "renderer")
		holders, err := licences.Holders(ctx, "renderer")
		fmt.Println("licence", lock.Slot(), "holders", len(holders))
		return err
	})
	fmt.Println(err)
	// Output:
	// licence 0 holders 1
	// <nil>
}

// Many read, or one writes. What was written can be read at once, and no other writer gets in between.
func ExampleReadWrite() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	index := client.ReadWrite()
	ctx = coord.WithOwner(ctx)
	writer, err := index.Write().Lock(ctx, "index")
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, err := index.Read().Lock(ctx, "index") // of the same owner: it enters again
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written:", writer.Unlock(ctx)) // now it only reads
	_, err = index.Read().TryLock(context.Background(), "index")
	fmt.Println("another reader:", err)
	fmt.Println("read:", reader.Unlock(ctx))
	// Output:
	// written: <nil>
	// another reader: <nil>
	// read: <nil>
}
