package coord

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// List gives the keys that begin with prefix and are held, by one or by several, or kept taken by MinHold or after Break:
// what an operator wants to see. [Client.Inspect] tells who holds one, and [Shared.Holders] who share it. The order is the
// store's. A key that is held from the beginning to the end comes, perhaps more than once; one that is taken or given back
// meanwhile may be missing.
//
// prefix comes after that of [WithPrefix], and the keys come without that. "" is for every key. More
// than MaxKey bytes, a NUL byte, or what is not UTF-8 is ErrInvalid. An error ends the
// sequence: it comes last, with no key. On a store that does not claim driver.List it is ErrUnsupported.
//
// List asks the store for a page of keys at a time, as the loop goes on. What it costs there grows with all the locks
// of the store; Redis looks at every key of its database, and ZooKeeper is asked once for each key. It is for people
// and their tools, not for a program's own decisions. It is safe for concurrent use.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := c.listable(prefix); err != nil {
			yield("", c.fail("list", prefix, err))
			return
		}
		all := c.prefix + prefix
		if !c.yieldKeys(ctx, prefix, c.store.backend.List(ctx, all), lockKey, yield) || c.shared == nil {
			return
		}
		c.yieldKeys(ctx, prefix, c.store.shared.List(ctx, all), sharedKey, yield)
	}
}

// yieldKeys yields the keys that the store has, without the client's prefix. goOn is false if the loop has ended.
func (c *Client) yieldKeys(ctx context.Context, prefix string, list iter.Seq2[string, error], keyOf func(string) (string, bool), yield func(string, error) bool) (goOn bool) {
	for stored, err := range list {
		if err != nil {
			yield("", c.fail("list", prefix, errs.OfStore(ctx, err, false)))
			return false
		}
		if key, isKey := keyOf(stored); isKey && !yield(strings.TrimPrefix(key, c.prefix), nil) {
			return false
		}
	}
	return true
}

// lockKey is false for the queue of a key that several hold.
func lockKey(stored string) (key string, isKey bool) {
	return stored, strings.IndexByte(stored, 0) < 0
}

// sharedKey is false for those that wait for a condition, and for overrides.
func sharedKey(stored string) (key string, isKey bool) {
	if key, isKey = strings.CutSuffix(stored, suffixes[readWrite]); isKey {
		return key, true
	}
	return strings.CutSuffix(stored, suffixes[semaphore])
}

// listable tells why List cannot begin.
func (c *Client) listable(prefix string) error {
	switch {
	case len(prefix) > MaxKey || !utf8.ValidString(prefix) || strings.IndexByte(prefix, 0) >= 0:
		return fmt.Errorf("%w: prefix %.80q: want at most %d bytes of UTF-8 without NUL", ErrInvalid, prefix, MaxKey)
	case c.state.Load() == stateClosed:
		return ErrClosed
	case !c.store.claims.Has(driver.List):
		return ErrUnsupported
	}
	return nil
}
