// Package partition works on many keys of a store whose parts can fail alone, each part by itself.
package partition

import (
	"sync"

	"github.com/coordgo/coord/driver"
)

// width is how many calls are made on one part at a time, by one batch of renewals or
// by Close: a hundred holds then take seven round trips, and a server is not flooded.
const width = 16

// Parts tells the parts of a store apart, such as several servers. What a client does by
// itself for many keys, it does for each part apart: renewals, cleaning up, and giving back
// when it closes. So a part that hangs delays no other.
type Parts struct {
	store driver.Backend // nil: all keys are of one part
}

// New is for a store.
func New(store driver.Backend) Parts { return Parts{store} }

// Of names the part that key lives on.
func (p *Parts) Of(key string) string {
	if p.store == nil {
		return ""
	}
	return p.store.Partition(key)
}

// ByPart runs fn on what is on each part, on all parts at a time, and waits.
func ByPart[T any](p *Parts, list []T, key func(T) string, fn func([]T)) {
	if p.store == nil {
		fn(list)
		return
	}
	groups := make(map[string][]T)
	for _, v := range list {
		part := p.Of(key(v))
		groups[part] = append(groups[part], v)
	}
	var wg sync.WaitGroup
	for _, group := range groups {
		wg.Go(func() { fn(group) })
	}
	wg.Wait()
}

// ForEach runs fn on each of list, at most width of each part at a time, and waits.
func ForEach[T any](p *Parts, list []T, key func(T) string, fn func(T)) {
	ByPart(p, list, key, func(group []T) {
		var wg sync.WaitGroup
		free := make(chan struct{}, width)
		for _, v := range group {
			free <- struct{}{}
			wg.Go(func() {
				defer func() { <-free }() // also if an observer ends the goroutine
				fn(v)
			})
		}
		wg.Wait()
	})
}
