package zookeeper

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// A client that locks many keys once removes their parents, many in one request. Parents that
// somebody needs stay. Where the server's own look has been, some have gone already.
func TestParentsOfManyKeysAreRemoved(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	b.collecting.Store(true) // by this test alone
	other := connect(t, urlWith(t, p.target, calmSession))
	mine, theirs := request("a", time.Minute), request("b", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "mine", mine))
	must[driver.Grant](t)(other.TryLock(t.Context(), "theirs", theirs))
	const keys = 600
	var next atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1); i <= keys; i = next.Add(1) {
				key, r := fmt.Sprint("k", i), request("a", time.Minute)
				must[driver.Grant](t)(b.TryLock(t.Context(), key, r))
				if err := b.Unlock(t.Context(), key, r.ID); err != nil {
					t.Error(err)
				}
				if i%100 != 0 {
					continue
				}
				if _, err := b.TryLock(t.Context(), "theirs", request("a", time.Minute)); !errors.Is(err, driver.ErrLocked) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := other.conn.Delete(b.lockDir("k1"), -1); err != nil { // as the server does
		t.Error(err)
	}
	b.mu.Lock()
	for dir, since := range b.parents {
		if !since.IsZero() {
			b.parents[dir] = since.Add(-parentRests)
		}
	}
	b.mu.Unlock()
	p.take()
	must[int](t)(b.collect(t.Context(), leaderNow(t, b), 0))
	if n := len(p.take()); n > keys/2 { // one removes a hundred, unless one of them has gone or is in use
		t.Errorf("%d requests to remove %d parents: want far less than one for each", n, keys)
	}
	eventually(t, "only those that are held to be left", func() bool {
		names, _, err := other.conn.Children(b.root + "/locks")
		slices.Sort(names)
		return err == nil && slices.Equal(names, []string{"mine", "theirs"})
	})
	must[driver.Grant](t)(b.Renew(t.Context(), "mine", mine))
	must[driver.Grant](t)(other.Renew(t.Context(), "theirs", theirs))
	isFree(t, b, "k1")
}
