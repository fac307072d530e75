package cas

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// MaxHolders is the most live holds of one key: each change writes all of them.
const MaxHolders = 64

// Shared implements driver.Backend: a key has one cell with all its holders. info has to claim driver.Shared.
func (b *Backend) Shared() driver.SharedLocker { return sharedLocker{b: b} }

// sharedLocker keeps shared holds in cells. Without a notifier of changes the head of a queue polls.
type sharedLocker struct {
	driver.Unimplemented
	b *Backend
}

var _ driver.SharedLocker = sharedLocker{}

func (s sharedLocker) rules() holders.Rules {
	return holders.Rules{Skew: s.b.skew, MaxHolders: MaxHolders, ClockTokens: true}
}

// TryLock makes one attempt, without waiting.
func (s sharedLocker) TryLock(ctx context.Context, key string, r driver.Request) (grant driver.Grant, err error) {
	if err := s.check(ctx, key, r); err != nil {
		return driver.Grant{}, err
	}
	err = s.update(ctx, key, func(rec *holders.Record, now time.Time) (err error) {
		grant, err = rec.TryLock(r, now, s.rules())
		return err
	})
	return result(grant, err)
}

// Renew extends the lease of r.ID, and makes the hold smaller if r asks for less.
func (s sharedLocker) Renew(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	renewed := s.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0]
	return renewed.Grant, renewed.Err
}

// renewWidth is how many cells one batch of renewals changes at a time.
const renewWidth = 16

// RenewAll implements driver.Locker: what this client holds of one key is renewed by one change, so that its holds do
// not compete for their cell with each other.
func (s sharedLocker) RenewAll(ctx context.Context, holds []driver.Hold) []driver.Renewal {
	answers := make([]driver.Renewal, len(holds))
	byKey := make(map[string][]int)
	for i, h := range holds {
		if err := s.check(ctx, h.Key, h.Request); err != nil {
			answers[i].Err = err
			continue
		}
		byKey[h.Key] = append(byKey[h.Key], i)
	}
	if len(byKey) == 1 {
		for key, which := range byKey {
			s.renewKey(ctx, key, holds, which, answers)
		}
		return answers
	}
	var wg sync.WaitGroup
	var once sync.Once
	var panicked any
	turns := make(chan struct{}, renewWidth)
	for key, which := range byKey {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					once.Do(func() { panicked = p })
				}
				<-turns
			}()
			s.renewKey(ctx, key, holds, which, answers)
		})
	}
	wg.Wait()
	if panicked != nil {
		panic(panicked) // in the goroutine of the caller, who may recover from it
	}
	return answers
}

// renewKey renews the holds of one key, which are those of these numbers.
func (s sharedLocker) renewKey(ctx context.Context, key string, holds []driver.Hold, which []int, answers []driver.Renewal) {
	renewed := make([]driver.Renewal, len(which))
	err := s.update(ctx, key, func(rec *holders.Record, now time.Time) error {
		for n, i := range which {
			renewed[n].Grant, renewed[n].Err = rec.Renew(holds[i].Request, now, s.rules())
		}
		return nil
	})
	for n, i := range which {
		if err != nil {
			answers[i] = driver.Renewal{Err: err}
		} else {
			answers[i] = renewed[n]
		}
	}
}

// Unlock ends the hold of id, or its headship.
func (s sharedLocker) Unlock(ctx context.Context, key, id string) error {
	if err := s.b.checkHold(ctx, key, id); err != nil {
		return err
	}
	return s.update(ctx, key, func(rec *holders.Record, now time.Time) error {
		return rec.Unlock(id, now, s.rules())
	})
}

// Break takes the hold from id. It counts until its lease ends.
func (s sharedLocker) Break(ctx context.Context, key, id string) error {
	if err := s.b.checkHold(ctx, key, id); err != nil {
		return err
	}
	return s.update(ctx, key, func(rec *holders.Record, now time.Time) error {
		return rec.Break(id, now, s.rules())
	})
}

// BreakNow ends the hold of id, or its headship, also a hold that was broken.
func (s sharedLocker) BreakNow(ctx context.Context, key, id string) error {
	if err := s.b.checkHold(ctx, key, id); err != nil {
		return err
	}
	return s.update(ctx, key, func(rec *holders.Record, now time.Time) error {
		return rec.BreakNow(id, now, s.rules())
	})
}

// Holders reads who holds key.
func (s sharedLocker) Holders(ctx context.Context, key string) (live []driver.Holder, err error) {
	if err := s.b.checkKey(ctx, key); err != nil {
		return nil, err
	}
	err = s.update(ctx, key, func(rec *holders.Record, now time.Time) error {
		live = rec.Live(now)
		return nil
	})
	return live, err
}

// update has fn change the record of key. It is written if it has changed, also where fn fails.
func (s sharedLocker) update(ctx context.Context, key string, fn func(*holders.Record, time.Time) error) error {
	var answer error
	err := s.b.cells.Update(ctx, Name{Kind: Shared, Key: key}, func(old []byte, now time.Time) (Change, error) {
		rec, err := holders.Parse(old)
		if err != nil {
			return Change{}, err
		}
		answer = fn(&rec, now)
		text := rec.Append(nil)
		if bytes.Equal(text, old) || old == nil && rec.Token == 0 && rec.Head.ID == "" {
			return Change{}, nil
		}
		return Change{Write: true, Value: text, Keep: TokenMemory + max(0, rec.End().Sub(now))}, nil
	})
	if err != nil {
		return err
	}
	return answer
}

func (s sharedLocker) check(ctx context.Context, key string, r driver.Request) error {
	if err := s.b.checkHold(ctx, key, r.ID); err != nil {
		return err
	}
	if err := r.Share.Check(); err != nil {
		return err
	}
	if r.Fair {
		return fmt.Errorf("%w: fair: a shared hold has no queue at the store", driver.ErrUnsupported)
	}
	return s.b.checkTTL(r.TTL)
}
