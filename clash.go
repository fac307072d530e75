package coord

import (
	"hash/maphash"
	"sync"
)

// clashes notices limits that share one count although they differ: windows of one length under one key, of different
// rates; buckets that differ in their burst alone. A limit that was changed is none: the one of before has to come back.
type clashes struct {
	mu   sync.Mutex
	told bool
	// seen has the two last limits of a count, where another count has not taken its place.
	seen [64]struct {
		count       uint64 // its hash
		now, before int    // rate of a window, burst of a bucket
	}
}

var clashSeed = maphash.MakeSeed()

// note is told of a limit, in normal form, that was asked of the store. It gives the limit of before, if both are in use. It waits for nobody.
func (c *clashes) note(key string, limit Limit) (other Limit, clash bool) {
	if !c.mu.TryLock() {
		return other, false
	}
	defer c.mu.Unlock()
	if c.told {
		return other, false
	}
	value, count := limit.Rate, maphash.String(clashSeed, key)
	if limit.Algorithm == TokenBucket {
		value, count = limit.Burst, count+uint64(limit.Rate)
	}
	count ^= (uint64(limit.Per) + uint64(limit.Algorithm)) * 0x9e3779b97f4a7c15
	e := &c.seen[count%uint64(len(c.seen))]
	switch {
	case e.count != count:
		e.count, e.now, e.before = count, value, value
	case e.now != value && e.before != value, e.now != value && e.before == e.now:
		e.before, e.now = e.now, value
	case e.now != value:
		c.told = true
		other = limit
		if limit.Algorithm == TokenBucket {
			other.Burst = e.now
		} else {
			other.Rate = e.now
		}
		return other, true
	}
	return other, false
}

// noteLimit warns, once, that one key has two limits.
func (c *Client) noteLimit(key string, limit Limit) {
	limit, err := limit.Normal()
	if err != nil || c.permits.Local() { // a store in this process is as quick as this
		return
	}
	if other, clash := c.clashes.note(key, limit); clash {
		c.log.Warn("coord: one key is asked for under two limits, which spend the same permits: give each a key of its own; more of them are not logged",
			"key", key, "limit", limit.String(), "other", other.String())
	}
}
