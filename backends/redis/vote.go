package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/coordgo/coord/driver"
)

// acquireFloor is acquire with a floor under the token: what a member of a quorum is asked for. The script is another one,
// so that nothing else pays for it.
func (b *backend) acquireFloor(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	lock, fence := lockKeys(key)
	got := b.runGrant(ctx, acquireFloorScript, lock, fence, r.ID, b.ttl(r.TTL).lease, r.Floor, driver.FloorRange.Microseconds())
	if got.err != nil {
		return driver.Grant{}, got.err
	}
	values, _ := got.value.([]any)
	if len(values) != 5 {
		if err := refusal(lock, got); err != nil {
			return driver.Grant{}, err
		}
		return driver.Grant{}, fmt.Errorf("script replied %v, want five values, or a refusal", values)
	}
	if got.short != nil {
		return driver.Grant{}, b.giveBack(ctx, unlockScript, lock, r.ID, got.short)
	}
	run, ok := values[4].(string)
	numbers, err := reply{value: values[:4]}.integers(4)
	if err != nil || !ok {
		return driver.Grant{}, fmt.Errorf("script replied %v, want four numbers and a text", values)
	}
	g, err := granted(numbers)
	g.Run, g.Age = run, time.Duration(numbers.at(3))*time.Second
	return g, err
}

// renewFloor is Renew that raises the token.
func (b *backend) renewFloor(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	lock, fence := lockKeys(key)
	return renewed(b.runGrant(ctx, renewFloorScript, lock, fence, r.ID, b.ttl(r.TTL).lease, r.Floor))
}
