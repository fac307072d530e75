package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// All keepalives of a client share one stream, so that a server with a password is logged in to once for all of them.
func TestKeepAlivesShareAStream(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithPassword("secret"))
	cfg, count := counting(clientConfig(srv.Addr))
	cfg.Username, cfg.Password, cfg.DialTimeout = "root", "secret", hung // which bounds the login
	b := connectWith(t, cfg)
	var holds []driver.Request
	for ttl := range 3 { // and so on leases of their own
		r := request("a", time.Duration(600+ttl)*time.Second)
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", len(holds)), r))
		holds = append(holds, r)
	}
	renew := func() {
		for i, r := range holds {
			b.mu.Lock()
			for _, l := range b.granted {
				l.since = l.since.Add(-100 * time.Second) // a keepalive is due
			}
			b.mu.Unlock()
			must[driver.Grant](t)(b.Renew(t.Context(), fmt.Sprint("k", i), r))
		}
	}
	renew()
	count.take()
	for range 5 {
		renew()
	}
	calls := count.take()
	if calls[methodTxn] != 15 || len(calls) != 1 {
		t.Errorf("15 renewals: %v, want a read each, and neither a keepalive stream nor an Authenticate", calls)
	}
}
