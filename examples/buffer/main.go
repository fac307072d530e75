// Command buffer passes items from one process to another, through a buffer that has room for three:
//
//	go run ./buffer
//	go run ./buffer --url redis://localhost:6379
//	go run ./buffer --without-wait
//
// The buffer is a file that a lock guards. A process that finds it full, or empty, waits on the condition of the lock:
// Cond.Wait gives the lock up until the other process has changed the buffer, and returns with it.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

var (
	items       = flag.Int("items", 40, "how many items pass through the buffer")
	room        = flag.Int("room", 3, "how many items have room in the buffer")
	withoutWait = flag.Bool("without-wait", false, "put and take without waiting, to see what the condition is for")
)

func main() { program.Main(watch, work) }

// step is what a process tells of one item.
type step struct {
	Item   string // that was taken; "" when one was put, or when there was none
	Inside int    // how many are in the buffer after it
}

// work puts the items, or takes them.
func work(ctx context.Context, p *program.Program) error {
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.Ready(ctx); err != nil {
		return err
	}
	b := buffer{client, filepath.Join(p.Dir, "buffer")}
	for i := range *items {
		var s step
		if p.Name == "producer" {
			s, err = b.put(ctx, string(rune('A'+i%26)))
		} else {
			s, err = b.take(ctx)
			time.Sleep(5 * time.Millisecond) // what it does with an item takes longer than to make one
		}
		if err == nil {
			err = p.Tell(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// buffer is a file with one item a line.
type buffer struct {
	client *coord.Client
	path   string
}

func (b buffer) put(ctx context.Context, item string) (s step, err error) {
	isRoom := func(all []string) bool { return len(all) < *room }
	err = b.change(ctx, isRoom, func(all []string) []string {
		s = step{Inside: len(all) + 1}
		return append(all, item)
	})
	return s, err
}

func (b buffer) take(ctx context.Context) (s step, err error) {
	isThere := func(all []string) bool { return len(all) > 0 }
	err = b.change(ctx, isThere, func(all []string) []string {
		if len(all) == 0 {
			return nil
		}
		s = step{all[0], len(all) - 1}
		return all[1:]
	})
	return s, err
}

// change waits until the buffer is ready, changes it, and wakes all that wait for a change.
func (b buffer) change(ctx context.Context, ready func([]string) bool, act func([]string) []string) error {
	changed := b.client.Cond("buffer")
	return coord.Do(ctx, b.client, "buffer", func(ctx context.Context) error {
		all, err := b.read()
		for err == nil && !ready(all) && !*withoutWait {
			if err = changed.Wait(ctx); err == nil {
				all, err = b.read() // the other process had the lock meanwhile
			}
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.path, []byte(strings.Join(act(all), "\n")), 0o600); err != nil {
			return err
		}
		return changed.Broadcast(ctx)
	})
}

func (b buffer) read() ([]string, error) {
	text, err := os.ReadFile(b.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

// watch starts both processes, and looks at what has passed.
func watch(ctx context.Context, p *program.Program) (err error) {
	crew, err := program.Start[step](ctx, p, "producer", "consumer")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	if err := crew.Go(); err != nil {
		return err
	}
	p.Say("a producer and a consumer, %d items, room for %d", *items, *room)
	var put, took string
	most := 0
	for e, err := range crew.Events(2 * *items) {
		if err != nil {
			return err
		}
		if e.By.Name == "producer" {
			put += string(rune('A' + len(put)%26))
		}
		took += e.What.Item
		most = max(most, e.What.Inside)
	}
	p.Check(most <= *room, "at most %d items were in the buffer", most)
	p.Check(took == put, "taken, in this order: %s", took)
	return nil
}
