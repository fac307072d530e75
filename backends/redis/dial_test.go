package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// A server that closes idle connections, as one that restarts or a proxy does, costs no call, with TLS too.
func TestIdleConnectionsThatTheServerClosed(t *testing.T) {
	t.Parallel()
	const connections = 5
	srv := testserver.Redis(t, testserver.WithTLS())
	url := "rediss://" + srv.Addr + "?pool_size=5&" + tlsQuery(srv.TLS)
	opened, operator := must[driver.Backend](t)(openURL(t, url)), must[driver.Backend](t)(openURL(t, url))
	b, other := opened.(*backend), operator.(*backend).client
	client := b.client.(*redis.Client)
	var burst []*redis.Conn
	for range connections {
		c := client.Conn()
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		burst = append(burst, c)
	}
	for _, c := range burst {
		if err := c.Close(); err != nil { // back to the pool
			t.Fatal(err)
		}
	}
	if n := client.PoolStats().IdleConns; n < connections {
		t.Fatalf("%d idle connections, want %d", n, connections)
	}
	if err := other.Do(t.Context(), "client", "kill", "type", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	for range connections {
		if _, err := b.TryLock(t.Context(), newID("key"), request("a", time.Minute)); err != nil {
			t.Errorf("TryLock after idle connections were closed: %v", err)
		}
	}
	if err := errors.Join(opened.Close(), operator.Close()); err != nil {
		t.Error(err)
	}
}

// A dial that fails when its caller has left is no connection for a later call.
func TestLateDialFailsNoLaterCall(t *testing.T) {
	t.Parallel()
	const calls = 3
	b := shared(t)
	var up atomic.Bool
	dialing, late := make(chan struct{}, calls), make(chan struct{})
	o := optionsOf(b)
	o.PoolSize = calls
	o.Dialer = quiet(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !up.Load() {
			dialing <- struct{}{}
			<-late
			return nil, errors.New("dead")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	client := redis.NewClient(o)
	defer client.Close()
	ctx, leave := context.WithCancel(t.Context())
	var left sync.WaitGroup
	for range calls {
		left.Go(func() {
			if err := client.Ping(ctx).Err(); err == nil {
				t.Error("a call was served by a server that is down")
			}
		})
	}
	for range calls {
		<-dialing
	}
	leave()
	left.Wait()
	up.Store(true)
	close(late)
	for start := time.Now(); client.PoolStats().IdleConns < calls; time.Sleep(time.Millisecond) {
		if time.Since(start) > hung {
			t.Fatalf("no dial came back: %+v", client.PoolStats())
		}
	}
	for range calls {
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("a call after the server was back: %v", err)
		}
	}
}
