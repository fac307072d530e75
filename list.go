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

// List gives the keys that begin with prefix and are held, or kept taken by MinHold or after Break: what an operator
// wants to see. [Client.Inspect] tells who holds one. The order is the store's. A key that is held from
// the beginning to the end comes, perhaps more than once; one that is taken or given back meanwhile may
// be missing.
//
// prefix comes after that of [WithPrefix], and the keys come without that. "" is for every key. More
// than MaxKey bytes, a NUL byte, or what is not UTF-8 is ErrInvalid. An error ends the
// sequence: it comes last, with no key. On a store that does not claim driver.List it is ErrUnsupported.
//
// List asks the store for a page of keys at a time, as the loop goes on. What it costs there grows with all the locks
// of the store; Redis looks at every key of its database, and ZooKeeper is asked once for each lock. It is for people
// and their tools, not for a program's own decisions. It is safe for concurrent use.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := c.listable(prefix); err != nil {
			yield("", c.fail("list", prefix, err))
			return
		}
		for key, err := range c.store.backend.List(ctx, c.prefix+prefix) {
			if err != nil {
				yield("", c.fail("list", prefix, errs.OfStore(ctx, err, false)))
				return
			}
			if strings.IndexByte(key, 0) >= 0 {
				continue // the queue of a key that several hold
			}
			if !yield(strings.TrimPrefix(key, c.prefix), nil) {
				return
			}
		}
	}
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
