package driver_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

// Two readers share a key, and a writer is refused.
func ExampleSharedLocker() {
	ctx, store := context.Background(), memory.NewStore().Open()
	defer store.Close()
	shared := store.Shared()
	read := driver.Share{Mode: driver.Read}
	for _, id := range []string{"a", "b"} {
		g, err := shared.TryLock(ctx, "index", driver.Request{ID: id, TTL: time.Minute, Share: read})
		fmt.Println(id, "has slot", g.Slot, err)
	}
	_, err := shared.TryLock(ctx, "index", driver.Request{ID: "c", TTL: time.Minute, Share: driver.Share{Mode: driver.Write}})
	fmt.Println(errors.Is(err, driver.ErrLocked))
	holders, err := shared.Holders(ctx, "index")
	fmt.Println(len(holders), err)
	// Output:
	// a has slot 0 <nil>
	// b has slot 1 <nil>
	// true
	// 2 <nil>
}

// A store that shares keys says so by a claim, and gives the part that does.
func ExampleBackend_Shared() {
	store := memory.NewStore().Open()
	defer store.Close()
	holders, err := store.Shared().Holders(context.Background(), "index")
	fmt.Println(store.Info().Claims.Has(driver.Shared), len(holders), err)
	// Output: true 0 <nil>
}

// A share that no store is asked for is refused, and a hold can only shrink.
func ExampleShare() {
	three := driver.Share{Mode: driver.Permits, Weight: 3, Of: 5}
	fmt.Println(three.Check(), errors.Is(driver.Share{Mode: driver.Permits, Weight: 6, Of: 5}.Check(), driver.ErrInvalid))
	fmt.Println(three.Shrunk(driver.Share{Mode: driver.Permits, Weight: 1, Of: 5}).Weight)
	fmt.Println(driver.Share{Mode: driver.Write}.Shrunk(driver.Share{Mode: driver.Read}).Mode)
	// Output:
	// <nil> true
	// 1
	// read
}

func ExampleMode() {
	fmt.Println(driver.Exclusive, driver.Read, driver.Write, driver.Permits)
	// Output: exclusive read write permits
}

// The head of a queue is told when a hold has ended.
func ExampleSharedLocker_NotifyChanges() {
	ctx, cancel := context.WithCancel(context.Background())
	store := memory.NewStore().Open()
	defer store.Close()
	shared := store.Shared()
	if _, err := shared.TryLock(ctx, "index", driver.Request{ID: "a", TTL: time.Minute, Share: driver.Share{Mode: driver.Write}}); err != nil {
		fmt.Println(err)
	}
	changes, ended := make(chan struct{}, 8), make(chan error)
	go func() {
		ended <- shared.NotifyChanges(ctx, "index", func() { changes <- struct{}{} })
	}()
	<-changes // it listens
	fmt.Println(shared.Unlock(ctx, "index", "a"))
	<-changes
	cancel()
	fmt.Println("changed,", errors.Is(<-ended, context.Canceled))
	// Output:
	// <nil>
	// changed, true
}
