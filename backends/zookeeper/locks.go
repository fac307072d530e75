package zookeeper

import (
	"context"
	"fmt"
	"sync"

	"github.com/coordgo/coord/driver"
)

// TryLock implements driver.Locker.
func (b *backend) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	return b.acquire(ctx, key, r, nil)
}

// Lock implements driver.Queuer.
func (b *backend) Lock(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	return b.acquire(ctx, key, r, sync.OnceFunc(waits))
}

func (b *backend) acquire(ctx context.Context, key string, r driver.Request, waits func()) (driver.Grant, error) {
	if err := checkRequest(key, r); err != nil {
		return driver.Grant{}, err
	}
	return b.attempt(ctx, holdName{key: key, id: r.ID}, r, waits)
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
