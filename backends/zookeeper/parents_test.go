package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// A client that locks many keys once removes their parents, many in one request. Parents that
// somebody needs stay. Where the server's own look has been, some have gone already.
func TestParentsOfManyKeysAreRemoved(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	b.sweeping.Store(true) // by this test alone
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
	// As the server does, which may have been here already.
	if err := other.conn.Delete(b.lockDir("k1"), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
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
	removed := b.sweepParents(t.Context(), 0)
	// Those of the keys and of theirs rest. One request removes a hundred, and finds at most one that the server has removed
	// before, or that another uses.
	const rest = keys + 1
	if n, most := len(p.take()), rest/collectBatch+1+rest-removed; n > most {
		t.Errorf("%d requests to remove %d parents of %d: want %d at most", n, removed, rest, most)
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

// parentAt notes a parent that rests since then; the zero time is in use.
func parentAt(b *backend, dir string, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parents[dir] = since
}

// A client that uses more keys than it remembers still knows what it has to remove.
func TestParentsToRemoveAreRemembered(t *testing.T) {
	t.Parallel()
	b := newBackend(nil, options{root: "/r"})
	old := time.Now().Add(-parentRests)
	for i := range maxParents {
		parentAt(b, fmt.Sprint("old", i), old)
	}
	for i := range 1000 {
		b.foundParent(fmt.Sprint("new", i))
	}
	if n := len(b.restedParents()); len(b.parents) != maxParents || n < maxParents-1000 {
		t.Errorf("%d of %d are to be removed, want %d or more", n, len(b.parents), maxParents-1000)
	}
}

// Parents that are in use, or that the server has removed, cost one request more each. All are removed in one look.
func TestSweepOfParentsLeavesOutWhatFails(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	b.sweeping.Store(true) // by this test alone
	const keys, used = 150, 2
	for i := range keys {
		dir := b.lockDir(fmt.Sprint("k", i))
		if err := b.parent(dir); err != nil {
			t.Fatal(err)
		}
		if i < used {
			put(t, b, dir+"/used", "", 0)
		}
	}
	for i := range keys {
		parentAt(b, b.lockDir(fmt.Sprint("k", i)), time.Now().Add(-parentRests))
	}
	parentAt(b, b.lockDir("gone"), time.Now().Add(-parentRests))
	p.take()
	if n := b.sweepParents(t.Context(), 0); n != keys-used {
		t.Errorf("%d removed, want %d", n, keys-used)
	}
	if n := len(p.take()); n > 2+used+1 {
		t.Errorf("%d requests, want one for each hundred, and one for each that stays or has gone", n)
	}
	if names := must[[]string](t)(b.list(b.root+"/locks", true)); len(names) != used {
		t.Errorf("%d are left, want %d", len(names), used)
	}
}

// What there was no time for is removed by the next look.
func TestSweepOfParentsThatIsCutShort(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	for i := range 3 * collectBatch {
		parentAt(b, b.lockDir(fmt.Sprint("k", i)), time.Now().Add(-parentRests))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if n := b.sweepParents(over, 0); n != 0 {
		t.Errorf("%d removed", n)
	}
	if n := len(b.restedParents()); n != 2*collectBatch {
		t.Errorf("%d left for the next look, want %d", n, 2*collectBatch)
	}
}

// A client that uses no limits and shares no key makes no request for them.
func TestLocksAloneCollectNoLimits(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	isFree(t, b, "k")
	if b.collecting.Load() || !b.sweeping.Load() {
		t.Errorf("collects limits: %v, parents: %v; want parents alone", b.collecting.Load(), b.sweeping.Load())
	}
}
