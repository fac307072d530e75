package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

func limitOf(key string, l driver.Limit) limitName {
	return limitName{name: nameOf(key), kind: limits.Name(l), limit: l}
}

// Take implements driver.Limiter.
func (b *backend) Take(ctx context.Context, key string, l driver.Limit, asks []driver.Ask) (driver.Taken, error) {
	peek := true
	for _, a := range asks {
		if err := limits.Check(l, a); err != nil {
			return driver.Taken{}, err
		}
		peek = peek && a.N == 0
	}
	taken := new(driver.Taken)
	err := b.ask(ctx, limitOf(key, l), &ask{peek: peek, apply: func(s *limits.State, now int64) (dirty bool) {
		*taken, dirty = s.TakeEach(l, now, asks)
		return dirty
	}})
	if err != nil {
		return driver.Taken{}, err
	}
	return *taken, nil
}

// TakeOne implements driver.OneTaker.
func (b *backend) TakeOne(ctx context.Context, key string, l driver.Limit, a driver.Ask) (driver.TakenOne, error) {
	if err := limits.Check(l, a); err != nil {
		return driver.TakenOne{}, err
	}
	one := new(driver.TakenOne)
	err := b.ask(ctx, limitOf(key, l), &ask{peek: a.N == 0, apply: func(s *limits.State, now int64) bool {
		return s.TakeInto(one, &l, now, &a)
	}})
	if err != nil {
		return driver.TakenOne{}, err
	}
	return *one, nil
}

// Refund implements driver.Refunder.
func (b *backend) Refund(ctx context.Context, key string, l driver.Limit, id string, n int) error {
	if id == "" || n <= 0 {
		return nil
	}
	return b.ask(ctx, limitOf(key, l), &ask{apply: func(s *limits.State, now int64) bool {
		return s.Refund(l, now, id, n)
	}})
}

// Reset implements driver.Limiter.
func (b *backend) Reset(ctx context.Context, key string, l driver.Limit) error {
	return b.ask(ctx, limitOf(key, l), &ask{apply: func(s *limits.State, now int64) bool {
		*s = limits.State{}
		return true
	}})
}

const (
	minPause = 50 * time.Microsecond
	maxPause = 20 * time.Millisecond
)

// carry reads the state, evaluates the asks in order, and swaps the state if it has changed: two
// commands, or one. When another client was faster it begins again, after a random pause, for as
// long as somebody waits for it: each caller's ctx is its budget of time. After a swap that may
// have been made it does not.
func (c *call) carry(n limitName, batch []*ask) {
	batch = boarding(batch)
	if err := c.admit(); err != nil {
		answerAll(batch, err)
		return
	}
	pause := minPause
	for {
		if batch = present(batch); len(batch) == 0 {
			return
		}
		if c.gone() || c.b.closed() {
			answerAll(batch, notSent(errGone))
			return
		}
		sent := time.Now()
		swapped, err := c.evaluate(n, batch)
		if swapped || err != nil {
			answerAll(batch, err)
			return
		}
		// Full jitter over a range that begins at the round trip and doubles with each defeat:
		// as many rounds as contenders are spread out fast.
		pause = min(max(2*pause, time.Since(sent)), maxPause)
		time.Sleep(rand.N(pause))
	}
}

// evaluate makes one attempt. done is false, without an error, if another client was faster.
func (c *call) evaluate(n limitName, batch []*ask) (done bool, err error) {
	item, s, err := c.load(n)
	if err != nil {
		return false, err
	}
	now := c.b.clock()
	if item != nil {
		if d, warn := c.b.ahead.Look(&s, item.Key, item.CasID, n.limit, now.UnixMicro()); warn {
			c.b.log.Warn("memcached: another client's clock is ahead of this one's: its limits deny, or grant too much, until the clocks agree", "ahead", d)
		}
	}
	dirty := false
	if item == nil && c.b.onMissing == Empty {
		// What was lost may have been spent just now.
		s.Take(n.limit, now.UnixMicro(), driver.Ask{Min: n.limit.Max(), N: n.limit.Max()})
		for _, a := range batch {
			dirty = dirty || !a.peek
		}
	}
	for _, a := range batch {
		changed := a.apply(&s, now.UnixMicro())
		dirty = dirty || changed
	}
	if !dirty {
		return true, nil
	}
	return c.store(n, item, s, now)
}

// load reads the state; the item is nil if there is none.
func (c *call) load(n limitName) (*memcache.Item, limits.State, error) {
	item, err := c.read(n.storeKey())
	if err == memcache.ErrCacheMiss {
		return nil, limits.State{}, nil
	}
	if err != nil {
		return nil, limits.State{}, notSent(err) // nothing was changed
	}
	s, err := parseLimit(item.Value, n)
	return item, s, err
}

// store adds the state or swaps it.
func (c *call) store(n limitName, item *memcache.Item, s limits.State, now time.Time) (done bool, err error) {
	value, err := formatLimit(n, s)
	if err != nil {
		return false, err
	}
	keep := s.Expiry(n.limit, now.UnixMicro())
	if c.b.onMissing == Empty {
		keep = max(keep, maxRelative*time.Second)
	}
	add := item == nil
	if add {
		item = &memcache.Item{Key: n.storeKey()}
	}
	item.Value, item.Expiration = value, lasting(ceilSeconds(keep), now)
	switch {
	case keep == 0 && add:
		return true, nil // it says no more than its absence
	case keep == 0:
		item.Expiration = atOnce
	}
	switch {
	case add:
		err = c.client.Add(item)
	case c.stale():
		return false, nil
	default:
		err = c.client.CompareAndSwap(item)
	}
	c.noteBroken(err)
	switch {
	case err == nil:
		return true, nil
	case answer(err):
		return false, nil
	case refused(err):
		return false, notSent(err)
	}
	return false, err
}

const limitHeader = "coord-limit 1"

// formatLimit writes a header that an operator can read, the name if the store key is a hash, and
// the state as package limits packs it.
func formatLimit(n limitName, s limits.State) ([]byte, error) {
	b := append(make([]byte, 0, 512), limitHeader...)
	if n.full != "" {
		b = append(append(b, " key="...), n.full...)
	}
	return s.AppendBinary(append(b, '\n'))
}

var errLimitValue = errors.New("not the state of a limit of this key")

func parseLimit(value []byte, n limitName) (limits.State, error) {
	var s limits.State
	head, packed, ok := bytes.Cut(value, []byte("\n"))
	want := limitHeader
	if n.full != "" {
		want += " key=" + n.full
	}
	if !ok || string(head) != want {
		return s, fmt.Errorf("%w: %s holds %.80q: %w", driver.ErrCorrupt, n.storeKey(), value, errLimitValue)
	}
	if err := s.UnmarshalBinary(packed); err != nil {
		return s, fmt.Errorf("%s: %w", n.storeKey(), err)
	}
	return s, nil
}
