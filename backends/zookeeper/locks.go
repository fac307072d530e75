package zookeeper

import (
	"context"
	"fmt"

	"github.com/coordgo/coord/driver"
)

// TryLock implements driver.Locker.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.acquire(ctx, key, r, false)
}

// Lock implements driver.Queuer.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.acquire(ctx, key, r, true)
}

func (b *backend) acquire(ctx context.Context, key string, r driver.Request, wait bool) (driver.Grant, error) {
	if err := checkRequest(key, r); err != nil {
		return driver.Grant{}, err
	}
	return b.attempt(ctx, holdName{key: key, id: r.ID}, r, wait)
}

// attempt makes one attempt.
func (b *backend) attempt(ctx context.Context, name holdName, r driver.Request, wait bool) (driver.Grant, error) {
	if _, err := b.await(ctx); err != nil {
		return driver.Grant{}, err
	}
	e := b.enter(name)
	if err := e.begin(ctx); err != nil {
		e.leave()
		return driver.Grant{}, err
	}
	a := &attempt{b: b, e: e, r: r, wait: wait}
	g, err := a.run(ctx)
	if !a.handed {
		e.end()
	}
	return g, err
}

func checkHold(key, id string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: key of %d bytes: want 1 to %d", driver.ErrInvalid, len(key), maxKey)
	}
	return driver.CheckID(id)
}

func checkRequest(key string, r driver.Request) error {
	if r.TTL <= 0 || r.TTL > maxTTL {
		return fmt.Errorf("%w: TTL %v: want more than 0, at most %v", driver.ErrInvalid, r.TTL, maxTTL)
	}
	return checkHold(key, r.ID)
}
