package coord

import (
	"sync"

	"github.com/coordgo/coord/driver"
)

// A store can have parts that fail alone, such as several servers. What a client does by
// itself for many keys, it does for each part apart: renewals, cleaning up, and giving back
// when it closes. So a part that hangs delays no other.

// partWidth is how many calls are made on one part at a time, by one batch of renewals or
// by Close: a hundred holds then take seven round trips, and a server is not flooded.
const partWidth = 16

// parts tells the parts of a store apart.
type parts struct {
	c     *Client
	names driver.Partitioner // nil: all keys are of one part
}

// of names the part that key lives on.
func (p *parts) of(key string) (part string) {
	if p.names == nil {
		return ""
	}
	var err error
	defer p.c.survive("the part of a key was looked up", &err)
	return p.names.Partition(key)
}

// byPart runs fn on what is on each part, on all parts at a time, and waits.
func byPart[T any](p *parts, list []T, key func(T) string, fn func([]T)) {
	if p.names == nil {
		fn(list)
		return
	}
	groups := make(map[string][]T)
	for _, v := range list {
		part := p.of(key(v))
		groups[part] = append(groups[part], v)
	}
	var wg sync.WaitGroup
	for _, group := range groups {
		wg.Go(func() { fn(group) })
	}
	wg.Wait()
}

// forEach runs fn on each of list, at most partWidth of each part at a time, and waits.
func forEach[T any](p *parts, list []T, key func(T) string, fn func(T)) {
	byPart(p, list, key, func(group []T) {
		var wg sync.WaitGroup
		work := make(chan T)
		for range min(partWidth, len(group)) {
			wg.Go(func() {
				for v := range work {
					fn(v)
				}
			})
		}
		for _, v := range group {
			work <- v
		}
		close(work)
		wg.Wait()
	})
}
