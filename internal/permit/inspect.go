package permit

import (
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/clock"
)

// Stats is how much a pool remembers.
type Stats struct {
	Denied     int // keys of which a denial is remembered
	Queues     int // limits on which a call is under way
	Prefetched int // limits of which permits are, or were of late, taken in advance
	Rules      int // limits that a rule of the policy names
}

// Stats counts what the pool remembers. It takes time in proportion to that.
func (p *Pool) Stats() (s Stats) {
	p.denied.byKey.Range(func(any, any) bool { s.Denied++; return true })
	p.calls.mu.Lock()
	s.Queues = len(p.calls.queues)
	p.calls.mu.Unlock()
	p.advance.mu.Lock()
	s.Prefetched = len(p.advance.by)
	p.advance.mu.Unlock()
	if policy := p.advance.policy.Load(); policy != nil {
		s.Rules = len(policy.of)
	}
	return s
}

// RuleOf is how permits of limit, in normal form, are taken in advance; the zero Rule: not at all.
func (p *Pool) RuleOf(limit driver.Limit) Rule {
	policy := p.advance.policy.Load()
	if policy == nil {
		return Rule{}
	}
	return policy.rule(&limit)
}

// Block shows permits that one call has taken in advance.
type Block struct {
	a *advance
	b *block
}

// Current is the block that is being spent of a limit, in normal form; zero if there is none.
func (p *Pool) Current(key string, limit driver.Limit) Block {
	a := &p.advance
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.by[limitKey{key, limit}]; f != nil && len(f.blocks) > 0 {
		return Block{a, f.blocks[0]}
	}
	return Block{}
}

// Size is how many permits the block had at first.
func (b Block) Size() int { return b.b.n }

// Left is how many permits are left of it.
func (b Block) Left() int {
	b.a.mu.Lock()
	defer b.a.mu.Unlock()
	return b.b.left
}

// Ends is when it ends.
func (b Block) Ends() clock.Instant { return b.b.ends }

// Life is how long it lasts from when it was received.
func (b Block) Life() time.Duration { return b.b.ends.Mono - b.b.told }
