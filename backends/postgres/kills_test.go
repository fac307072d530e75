package postgres

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
)

// crew is processes that hold keys in turn, and are killed while they hold.
type crew struct {
	t     *testing.T
	of    holder
	keys  map[string]*history
	kills atomic.Int64 // of those that held
	over  atomic.Bool
}

// TestNightlyKills kills processes that hold, and restarts the server under them. No key is granted while a lease may live, also one
// of the dead, and tokens rise. COORD_POSTGRES_KILLS says how many holders are killed; there is a restart for each five.
func TestNightlyKills(t *testing.T) {
	t.Parallel()
	kills := 10
	if text := os.Getenv("COORD_POSTGRES_KILLS"); text != "" {
		kills = must[int](t)(strconv.Atoi(text))
	}
	srv := ownServer(t)
	c := &crew{t: t, of: holder{URL: patientURL(t, srv.Addr), Keys: []string{"a", "b", "c"}}, keys: map[string]*history{}}
	for _, key := range c.of.Keys {
		c.keys[key] = &history{}
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(c.work)
	}
	restarts := 0
	start := time.Now()
	for ; c.kills.Load() < int64(kills); restarts++ {
		for c.kills.Load() < int64(min(kills, (restarts+1)*5)) {
			if time.Since(start) > time.Duration(kills)*5*time.Second+2*hung {
				t.Fatalf("%d of %d holders were killed in %v", c.kills.Load(), kills, time.Since(start))
			}
			pause(5 * time.Millisecond)
		}
		srv.Restart()
	}
	c.over.Store(true)
	wg.Wait()
	holds, lost := 0, 0
	for key, h := range c.keys {
		h.checkExclusion(t)
		h.checkTokens(t)
		holds, lost = holds+len(h.tenures), lost+h.lost
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		if l, err := newClient(t, c.of.URL).Lock(ctx, key); err != nil || l.Unlock(ctx) != nil {
			t.Errorf("%s after all: %v", key, err)
		}
		cancel()
	}
	t.Logf("%d holds, %d of them lost; %d holders killed, %d restarts of the server, in %v", holds, lost, c.kills.Load(), restarts, time.Since(start).Round(time.Second))
}

// work has one process hold after the other.
func (c *crew) work() {
	for !c.over.Load() {
		of := c.of
		of.TTL = 300*time.Millisecond + rand.N(700*time.Millisecond)
		p := startHolder(c.t, of)
		var open *note // what it holds
		for n := p.next(); n != nil; n = p.next() {
			if open = n; n.Left {
				c.ended(n)
				open = nil
			}
			if c.over.Load() {
				p.kill()
			} else if !n.Left && rand.N(3) == 0 {
				pause(rand.N(of.TTL))
				p.kill()
			}
		}
		p.end()
		if open != nil {
			c.kills.Add(1)
			c.ended(open)
		}
	}
}

// ended notes a hold. That of a process which was killed counts for as long as its lease was certain when it was granted.
func (c *crew) ended(n *note) {
	h := c.keys[n.Key]
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.Lost {
		h.lost++
	}
	h.tenures = append(h.tenures, tenure{token: coord.Token(n.Token), sent: time.Unix(0, n.Sent), got: time.Unix(0, n.Got), till: time.Unix(0, n.Till)})
}
