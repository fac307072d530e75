package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The same on every store.
const want = `one holder at a time          8 goroutines of 2 clients counted to 40
tokens rise                   10 holders, 10 times a greater token
no waiting                    while it is held: ErrLocked is true; after Unlock: granted
a bounded wait                after 100ms: ErrLocked is true, DeadlineExceeded is true
an owner enters again         3 deep, one token: true
work longer than its lease    after one and a half TTLs it is still held: true
a stale holder is fenced off  the next holder's write is accepted: true; its own is refused: true; its Unlock is ErrLost: true
a limit, shared               20/1h: 20 allowed, 30 denied
a limit, asked for too much   6 of a burst of 5: ErrExceedsBurst; 5: allowed is true, 0 left
`

func TestTourIsTheSameOnEveryStore(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"memory": func(*testing.T) string { return "memory://tour" },
		"file":   func(t *testing.T) string { return "file://" + t.TempDir() },
		"redis":  func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr },
		"etcd":   func(t *testing.T) string { return "etcd://" + testserver.Etcd(t).Addr },
		"zookeeper": func(t *testing.T) string {
			return "zookeeper://" + testserver.ZooKeeper(t).Addr + "?session_timeout=2s"
		},
		"memcached": func(t *testing.T) string { return "memcached://" + testserver.Memcached(t).Addr },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out bytes.Buffer
			if err := run(ctx, url(t), &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Errorf("on %s it says\n%s\nwant\n%s", name, out.String(), want)
			}
		})
	}
}
