package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/quorum"
	"github.com/coordgo/coord/internal/testserver"
)

// apart is a member that its client does not reach.
type apart struct{ *backend }

func (apart) TryLock(context.Context, string, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, fmt.Errorf("%w: no route to host", driver.ErrNotSent)
}

// A server that was flushed while just a majority holds a lock has no vote for another holder: neither at clients that
// knew it before, nor at new ones.
func TestNightlyQuorumFlush(t *testing.T) {
	t.Parallel() // it mostly waits
	const longest = 30 * time.Second
	servers := []*testserver.Server{testserver.Redis(t), testserver.Redis(t), testserver.Redis(t)}
	client := func(unreached int) *quorum.Backend {
		var all []driver.Backend
		for i, s := range servers {
			b := connect(t, s.Addr)
			if i == unreached {
				all = append(all, apart{b})
			} else {
				all = append(all, b)
			}
		}
		return must[*quorum.Backend](t)(quorum.New(longest, all...))
	}
	holder, rival := client(2), client(-1)
	awaitVotes(t, rival)
	awaitVotes(t, holder)
	r := request("holder", longest)
	g := must[driver.Grant](t)(holder.TryLock(t.Context(), "k", r))
	must[any](t)(connect(t, servers[0].Addr).client.Do(t.Context(), "flushall").Result())
	for name, other := range map[string]*quorum.Backend{"a client that knew it": rival, "a new client": client(-1)} {
		if taken, err := other.TryLock(t.Context(), "k", request("rival", longest)); err == nil && time.Now().Before(g.Since.Add(g.TTL)) {
			t.Errorf("%s is granted %+v, beside a holder of %+v", name, taken, g)
		} else if !errors.Is(err, driver.ErrLocked) && !errors.Is(err, coord.ErrUnavailable) {
			t.Logf("%s: %v", name, err)
		}
	}
	awaitVotes(t, client(-1))
}

// A server has one run, which began with it, until it loses its keys.
func TestRunEndsWithTheKeys(t *testing.T) {
	t.Parallel() // it mostly waits
	other := testserver.Redis(t, testserver.WithFlags("--repl-diskless-sync-delay", "0"))
	unused := 5
	host, port, err := net.SplitHostPort(other.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for name, lose := range map[string]func(*backend){
		"FLUSHALL": func(b *backend) { carryOut(t, b, "flushall") },
		"FLUSHDB":  func(b *backend) { carryOut(t, b, "flushdb") },
		"SWAPDB": func(b *backend) {
			carryOut(t, b, "swapdb", 0, unused)
			unused++
		},
		"REPLICAOF": func(b *backend) {
			carryOut(t, b, "replicaof", host, port)
			for !strings.Contains(carryOut(t, b, "info", "replication"), "master_link_status:up") {
				time.Sleep(10 * time.Millisecond) // between two questions
			}
			carryOut(t, b, "replicaof", "no", "one")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, b := open(t)
			time.Sleep(4 * time.Second) // it tells its age in whole seconds, less one
			first, next := voteOf(t, b), voteOf(t, b)
			if first.Age < 2*time.Second || next.Run != first.Run {
				t.Errorf("of a server that has run for 4s: %+v, and then %+v: want one run, of nearly that age", first, next)
			}
			voteOf(t, connect(t, other.Addr)) // it has a run of its own, which is older
			for range 2 {
				lose(b)
				after := voteOf(t, b)
				if after.Run == next.Run || after.Age != 0 {
					t.Errorf("after %s: %+v, and before %+v: want another run, of no age", name, after, next)
				}
				next = after
			}
		})
	}
}

// voteOf is a grant by a member.
func voteOf(t *testing.T, b *backend) driver.Grant {
	t.Helper()
	r := request("a", time.Minute)
	r.Floor = 1
	return must[driver.Grant](t)(b.TryLock(t.Context(), r.ID, r))
}

func carryOut(t *testing.T, b *backend, args ...any) string {
	t.Helper()
	return fmt.Sprint(must[any](t)(b.client.Do(t.Context(), args...).Result()))
}

// awaitVotes waits until a majority of new servers has a vote.
func awaitVotes(t *testing.T, b *quorum.Backend) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
	defer cancel()
	for {
		r := request("await", time.Second)
		_, err := b.TryLock(ctx, "await", r)
		if err == nil {
			_ = b.Unlock(ctx, "await", r.ID) // what it could not do lapses
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no vote: %v", err)
		}
	}
}
