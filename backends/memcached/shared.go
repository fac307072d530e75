package memcached

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

// clockSkew is how far the clocks of clients may lie apart: the leases of shared holds end by them. The server's own clock
// has whole seconds and a tick that is late by up to another one, which is more than driver.HeadFor, and is not to be had
// over an application's client.
const clockSkew = time.Second

// sharedLocker keeps shared holds as package cas does, in one item for each key.
type sharedLocker struct {
	driver.SharedLocker
	granting driver.SharedLocker // whose calls need to be admitted
	b        *backend
}

func newShared(b *backend) *sharedLocker {
	over := func(c sharedCells) driver.SharedLocker {
		return cas.New(b.info, c, cas.WithSkew(clockSkew)).Shared()
	}
	return &sharedLocker{SharedLocker: over(sharedCells{b, false}), granting: over(sharedCells{b, true}), b: b}
}

// Shared implements driver.Backend.
func (b *backend) Shared() driver.SharedLocker { return b.shared }

// TryLock makes one attempt, without waiting. Two of one client on one key would only defeat each other.
func (s *sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	unlock, err := s.b.turns.Lock(ctx, nameOf(key).key(sharedKind))
	if err != nil {
		return driver.Grant{}, err
	}
	defer unlock()
	g, err := s.granting.TryLock(ctx, key, r)
	if err == nil {
		s.compareClocks(ctx, time.UnixMicro(g.Token))
	}
	return g, err
}

// compareClocks warns of a clock that is too far ahead of this one. A token is the time of its grant on the
// granting client's clock, or greater by one than that of the grant before.
func (s *sharedLocker) compareClocks(ctx context.Context, token time.Time) {
	ahead := token.Sub(s.b.clock())
	if ahead <= clockSkew || !s.b.ahead.Warn() {
		return
	}
	s.b.log.WarnContext(ctx, "memcached: another client's clock is ahead of this one's: shared holds can overlap until the clocks agree", "ahead", ahead)
}

// sharedCells implements cas.Cells.
type sharedCells struct {
	b     *backend
	admit bool
}

// Update reads the item and swaps it if it has changed: two commands, or one.
func (s sharedCells) Update(ctx context.Context, name cas.Name, fn cas.Func) error {
	if err := s.b.calls.Ready(ctx); err != nil {
		return err
	}
	v := &sharedVisit{visit: visit{b: s.b, to: nameOf(name.Key)}, admit: s.admit}
	defer v.end()
	return cas.Optimistic(v).Update(ctx, name, fn)
}

// Close has nothing to close: the backend is closed by itself.
func (s sharedCells) Close() error { return nil }

// sharedVisit is one change of the item of a key. It implements cas.Versions.
type sharedVisit struct {
	visit
	admit bool
}

// Load reads the record.
func (v *sharedVisit) Load(ctx context.Context, _ cas.Name) (loaded cas.Loaded[*memcache.Item], err error) {
	item, err := v.read(ctx, v.to.key(sharedKind), v.admit)
	if err != nil {
		return loaded, err
	}
	loaded.Version, loaded.Now = item, v.b.clock()
	if item != nil {
		loaded.Value, err = v.to.record(item.Value)
	}
	return loaded, err
}

// CompareAndSwap writes the record. It is never removed before its time: its token is needed. Who has to try again
// keeps no connection from others while it pauses.
func (v *sharedVisit) CompareAndSwap(ctx context.Context, _ cas.Name, old *memcache.Item, c cas.Change) (bool, error) {
	defer v.end()
	value := append(c.Value, v.to.last()...)
	return v.write(ctx, v.to.key(sharedKind), old, value, lasting(ceilSeconds(c.Keep), v.b.clock()))
}

// Close has nothing to close.
func (v *sharedVisit) Close() error { return nil }

// last is the last line of the item: the name, if the store key is a hash.
func (n name) last() string {
	if n.full == "" {
		return ""
	}
	return "key=" + n.full + "\n"
}

// record is what is in the item before that.
func (n name) record(value []byte) ([]byte, error) {
	record, ours := bytes.CutSuffix(value, []byte(n.last()))
	if !ours {
		return nil, fmt.Errorf("%w: %s holds %.80q, which are not the holders of this key", driver.ErrCorrupt, n.key(sharedKind), value)
	}
	return record, nil
}
