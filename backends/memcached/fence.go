package memcached

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
)

// fenceLife is how long a counter lives. It is not refreshed: a counter begins with the clock, and
// counts more slowly than that (a lock is not taken a million times a second), so the next one
// begins above it, as long as clocks agree to within its life.
const fenceLife = time.Hour

// count gives the next fencing token of the lock. Tokens that are never stored leave gaps.
func (a *acquisition) count() (int64, error) {
	key := a.name.key(fenceKind)
	for range maxRounds {
		if a.gone() {
			return 0, errGone
		}
		n, err := a.client.Increment(key, 1)
		switch {
		case err == nil:
			return tokenOf(n, key)
		case err != memcache.ErrCacheMiss:
			return 0, countError(err, key)
		}
		now := a.b.clock()
		seed := max(now.UnixMicro(), 1)
		err = a.client.Add(&memcache.Item{
			Key: key, Value: strconv.AppendInt(nil, seed, 10), Expiration: lasting(ceilSeconds(fenceLife), now),
		})
		switch {
		case err == nil:
			return tokenOf(uint64(seed), key)
		case err != memcache.ErrNotStored: // another client was faster
			return 0, countError(err, key)
		}
	}
	return 0, errRounds
}

// lastToken is the last token that was counted, or 1 if that is forgotten.
func (c *call) lastToken(n name) (int64, error) {
	key := n.key(fenceKind)
	item, err := c.get(key)
	if err == memcache.ErrCacheMiss {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	last, err := strconv.ParseUint(string(item.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s holds %.40q: want a number", driver.ErrCorrupt, key, item.Value)
	}
	return tokenOf(last, key)
}

func tokenOf(n uint64, key string) (int64, error) {
	if n == 0 || n > driver.MaxToken {
		return 0, fmt.Errorf("%w: %s holds %d: want a fencing token from 1 to %d", driver.ErrCorrupt, key, n, int64(driver.MaxToken))
	}
	return int64(n), nil
}

// countError: a counter that is not a number is not ours. What else failed has left the lock
// without a token, and its item there.
func countError(err error, key string) error {
	if strings.Contains(err.Error(), "non-numeric value") {
		return fmt.Errorf("%w: %s is no number: %w", driver.ErrCorrupt, key, err)
	}
	if refused(err) {
		return notSent(err) // uncounted takes the item back
	}
	return err
}
