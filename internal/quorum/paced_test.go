package quorum_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
)

// pace is how a client on a busy machine sends: a request leaves some time after those that it has sent before.
type pace struct {
	client *quorum.Backend
	mu     sync.Mutex
	rand   *rand.Rand
}

// paced is the way of such a client to its i-th member.
type paced struct {
	*link
	pace *pace
	i    int
}

func (p paced) travel() {
	p.pace.mu.Lock()
	way := 50*time.Microsecond + time.Duration(p.pace.rand.IntN(int(100*time.Microsecond)))
	p.pace.mu.Unlock()
	time.Sleep(time.Duration(quorum.Place(p.pace.client, p.i))*time.Millisecond + way)
}

func (p paced) TryLock(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
	p.travel()
	return p.link.TryLock(ctx, key, r)
}

func (p paced) Unlock(ctx context.Context, key, id string) error {
	p.travel()
	return p.link.Unlock(ctx, key, id)
}

// open opens a client of the quorum that servers make, in this order.
func (p *pace) open(t *testing.T, servers []*server) *coord.Client {
	var all []driver.Backend
	for i, s := range servers {
		all = append(all, paced{&link{s: s}, p, i})
	}
	p.client = quorumOf(t, all...)
	c, err := coord.New(p.client)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Of clients that want one key all the time, one that names the members in another order has it about as often as the others.
// If it also asked them in that order, it would have it a third as often: it would meet the requests and the releases of all
// others from the wrong end.
func TestOtherOrderStarvesNobody(t *testing.T) {
	const clients, grants = 6, 6000
	synctest.Test(t, func(t *testing.T) {
		servers := []*server{newServer(), newServer(), newServer()}
		order := servers
		var wg sync.WaitGroup
		var mu sync.Mutex
		has, all := make([]int, clients), 0
		for i := range clients {
			if i == clients-1 {
				order = slices.Clone(servers)
				slices.Reverse(order)
			}
			p := &pace{rand: rand.New(rand.NewPCG(1, uint64(i)))}
			c := p.open(t, order)
			wg.Go(func() {
				defer c.Close()
				for over := false; !over; {
					l, err := c.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					has[i]++
					all++
					over = all >= grants
					mu.Unlock()
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("grants: %v", has)
		if least := grants / clients * 6 / 10; has[clients-1] < least {
			t.Errorf("who names the members in another order has the key %d times of %v, want %d or more", has[clients-1], has, least)
		}
	})
}
