package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
)

const (
	// everyPoll is which of the attempts that follow a refusal asks all members: one member that refuses by itself must
	// not keep a free key.
	everyPoll = 8
	// maxPolled is how many refused keys are remembered.
	maxPolled = 4096
	// oneFor is how long a call waits for the first member, where the others do not need it.
	oneFor = 20 * time.Millisecond
)

// polls counts the attempts on keys that were refused. They ask one member alone, so that those who wait do not split
// the votes of a key that becomes free.
type polls struct {
	mu      sync.Mutex
	refused map[string]int
}

// oneIsEnough reports whether this attempt on key asks one member first.
func (p *polls) oneIsEnough(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.refused[key]
	if n == 0 {
		return false
	}
	p.refused[key] = n + 1
	return n%everyPoll != 0
}

// note takes in how an attempt on key ended.
func (p *polls) note(key string, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !refused {
		delete(p.refused, key)
		return
	}
	if len(p.refused) >= maxPolled || p.refused == nil {
		p.refused = make(map[string]int)
	}
	if p.refused[key] == 0 {
		p.refused[key] = 1
	}
}

// askOne asks the first member that answers, and gives its refusal. If it has granted, or not answered, all are asked.
func (b *Backend) askOne(ctx context.Context, key string, r driver.Request) error {
	first := b.members[:1]
	for i, m := range b.members {
		if !m.late.Load() {
			first = b.members[i : i+1]
			break
		}
	}
	r.Floor = b.tokens.next()
	one := ask(ctx, b, first, holdKey{key, r.ID}, func(ctx context.Context, m *member) (driver.Grant, error) {
		return m.TryLock(ctx, key, r)
	})
	bound, cancel := context.WithTimeout(ctx, oneFor)
	defer cancel()
	if err := one.gather(bound, all); err != nil {
		first[0].late.Store(true)
		if ctx.Err() != nil {
			return err
		}
		return nil
	}
	if err := one.answers[0].err; errors.Is(err, driver.ErrLocked) {
		return err
	}
	return nil
}

// awaitFirst waits for the first member that answers, as a rule: what it says counts most for those who contend. One that
// does not answer in time is waited for once.
func awaitFirst[T any](ctx context.Context, r *round[T]) {
	for i, m := range r.members {
		if m.late.Load() {
			continue
		}
		bound, cancel := context.WithTimeout(ctx, oneFor)
		defer cancel()
		if err := r.gather(bound, func() bool { return r.answers[i] != nil }); err != nil {
			m.late.Store(true)
		}
		return
	}
}
