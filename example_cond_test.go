package coord_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// A buffer with room for two, between a producer and a consumer that each have a client, as in two processes. What the
// lock guards is in memory here; processes have it in a database.
func ExampleCond() {
	store, room := memory.NewStore(), 2
	var buffer []int

	// change waits until ready is true, changes the buffer by act, and tells all that wait, for either may be waited for.
	change := func(client *coord.Client, ready func() bool, act func()) error {
		changed := client.Cond("buffer")
		return coord.Do(context.Background(), client, "buffer", func(ctx context.Context) error {
			for !ready() {
				if err := changed.Wait(ctx); err != nil {
					return err
				}
			}
			act()
			return changed.Broadcast(ctx)
		})
	}

	var both sync.WaitGroup
	each := func(act func(client *coord.Client, i int) error) {
		both.Go(func() {
			client, err := coord.New(store.Open())
			for i := 1; i <= 5 && err == nil; i++ {
				err = act(client, i)
			}
			if err != nil {
				fmt.Println(err)
				return
			}
			client.Close()
		})
	}
	each(func(producer *coord.Client, i int) error {
		isRoom := func() bool { return len(buffer) < room }
		return change(producer, isRoom, func() { buffer = append(buffer, i) })
	})
	each(func(consumer *coord.Client, _ int) error {
		isThere := func() bool { return len(buffer) > 0 }
		return change(consumer, isThere, func() {
			fmt.Println("took", buffer[0])
			buffer = buffer[1:]
		})
	})
	both.Wait()
	// Output:
	// took 1
	// took 2
	// took 3
	// took 4
	// took 5
}
