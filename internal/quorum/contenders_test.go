package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// unsteady is a way to a member on which each request and each reply takes up to most, as on a machine that is busy.
type unsteady struct {
	*member
	most time.Duration
	mu   *sync.Mutex
	rand *rand.Rand
}

func (u unsteady) delay() {
	u.mu.Lock()
	d := time.Duration(u.rand.Float64() * float64(u.most))
	u.mu.Unlock()
	time.Sleep(d)
}

func (u unsteady) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	u.delay()
	defer u.delay()
	return u.member.TryLock(ctx, key, r)
}

func (u unsteady) Unlock(ctx context.Context, key, id string) error {
	u.delay()
	defer u.delay()
	return u.member.Unlock(ctx, key, id)
}

// Of those who try a free key at once one gets it, also where members answer late. Rarely all give up.
func TestOneContenderWins(t *testing.T) {
	for _, most := range []time.Duration{100 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond} {
		for seed := range uint64(50) {
			t.Run(fmt.Sprintf("%v/%d", 2*most, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					random := rand.New(rand.NewPCG(seed, 1))
					stores := []*member{newMember(), newMember(), newMember()}
					var clients []*quorum.Backend
					for range 3 {
						var all []driver.Backend
						for _, s := range stores {
							all = append(all, unsteady{s, most, &mu, random})
						}
						c := quorumOf(t, all...)
						defer c.Close()
						clients = append(clients, c)
					}
					none := 0
					for round := range 10 {
						winners := contend(t, clients, round)
						if len(winners) == 0 {
							none++                      // who asks last is chance, and so is that all give up
							time.Sleep(2 * time.Minute) // for votes that are on their way back
							continue
						}
						if len(winners) > 1 {
							t.Errorf("members that take up to %v, seed %d, round %d: %d winners, want 1", 2*most, seed, round, len(winners))
							return
						}
						if err := clients[0].Unlock(t.Context(), "k", winners[0]); err != nil {
							t.Error(err)
						}
					}
					if none > 1 {
						t.Errorf("members that take up to %v, seed %d: %d of 10 rounds without a winner, want 1 at most, for it is seen in 1 of 6,000", 2*most, seed, none)
					}
				})
			})
		}
	}
}

// contend tries one key twelve times at once, and gives the ids that have it.
func contend(t *testing.T, clients []*quorum.Backend, round int) (winners []string) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range 12 {
		wg.Go(func() {
			id := fmt.Sprintf("%d-of-round-%d", i, round)
			_, err := clients[i%len(clients)].TryLock(t.Context(), "k", driver.Request{ID: id, TTL: time.Minute})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				winners = append(winners, id)
			case !errors.Is(err, driver.ErrLocked):
				t.Errorf("TryLock among many: %v, want a grant or ErrLocked", err)
			}
		})
	}
	wg.Wait()
	return winners
}
