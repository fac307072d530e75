package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

const methodLogin = "/etcdserverpb.Auth/Authenticate"

// user is one of a server with passwords, who may use a namespace of its own.
type user struct {
	srv  *testserver.Server
	name string
	root *clientv3.Client
}

func newUser(t testing.TB, srv *testserver.Server, name string) user {
	t.Helper()
	srv.AddUser(name, "pass", name+"/")
	cfg := clientConfig(srv.Addr)
	cfg.Username, cfg.Password, cfg.DialTimeout = "root", "secret", hung
	return user{srv, name, rawWith(t, cfg)}
}

// client gives a client of the user, over a connection as Open makes it, or over one of the application, whose requests are
// counted.
func (u user) client(t testing.TB, opened bool) (*coord.Client, *counter) {
	t.Helper()
	cfg, count := counting(clientConfig(u.srv.Addr))
	cfg.Username, cfg.Password, cfg.DialTimeout = u.name, "pass", hung // to check a password takes a busy machine seconds
	var client *clientv3.Client
	if opened {
		client = must[*clientv3.Client](t)(dial(t.Context(), cfg))
	} else {
		client = rawWith(t, cfg)
	}
	b := must[*backend](t)(newBackend(t.Context(), client, opened, []Option{WithNamespace(u.name)}))
	c := must[*coord.Client](t)(coord.New(b))
	t.Cleanup(func() { c.Close() })
	return c, count
}

// entries counts what the clients have at the store.
func (u user) entries(t testing.TB) int64 {
	t.Helper()
	return must[*clientv3.GetResponse](t)(u.root.Get(t.Context(), u.name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())).Count
}

// refusals are how a server comes to refuse a user, and what the user reads then.
var refusals = map[string]struct {
	begin func(user)
	says  string
}{
	"password": {func(u user) { u.srv.ChangePassword(u.name, "other") }, "wrong user or password"},
	"role":     {func(u user) { u.srv.RevokeRole(u.name) }, "may not read and write"},
}

// takes are the ways to wait for a key.
var takes = map[string]func(ctx context.Context, c *coord.Client, ttl time.Duration) error{
	"lock": func(ctx context.Context, c *coord.Client, ttl time.Duration) error {
		_, err := c.Lock(ctx, "k", coord.TTL(ttl))
		return err
	},
	"fair": func(ctx context.Context, c *coord.Client, ttl time.Duration) error {
		_, err := c.Lock(ctx, "k", coord.TTL(ttl), coord.Fair())
		return err
	},
	"permit": func(ctx context.Context, c *coord.Client, ttl time.Duration) error {
		_, err := c.Semaphore(1).Lock(ctx, "k", coord.TTL(ttl))
		return err
	},
	"write": func(ctx context.Context, c *coord.Client, ttl time.Duration) error {
		_, err := c.ReadWrite().Write().Lock(ctx, "k", coord.TTL(ttl))
		return err
	},
}

// Whoever waits when the store begins to refuse the client learns why, and leaves nothing there, though keepalives, which need
// no password, are answered as before.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithPassword("secret"))
	const ttl = 6 * time.Second // is to end
	for what, take := range takes {
		for why, refusal := range refusals {
			opened := what != "fair" // else over a client of the application
			t.Run(what+", "+why, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, srv, what+"-"+why)
				holder, _ := u.client(t, true)
				waiter, count := u.client(t, opened)
				if err := take(t.Context(), holder, time.Minute); err != nil {
					t.Fatal(err)
				}
				held := u.entries(t)
				waits := make(chan error, 1)
				go func() { waits <- take(context.Background(), waiter, ttl) }()
				until(t, hung, "the waiter to have an entry", func() bool { return u.entries(t) > held })
				refusal.begin(u)
				count.take()
				began := time.Now()
				select {
				case err := <-waits:
					// Who shares a key loses its place and queues again, and may have had only time-outs since.
					shares := what == "permit" || what == "write"
					if !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), refusal.says) && !(shares && errors.Is(err, context.DeadlineExceeded)) {
						t.Errorf("%v: want that the store is unavailable, and %q", err, refusal.says)
					}
				case <-time.After(hung):
					t.Fatalf("still waiting after %v", hung)
				}
				until(t, hung, "the waiter's entries to be gone", func() bool { return u.entries(t) <= held })
				// A few at once, and then after pauses that grow: without them there would be more than ten a second.
				if n, most := count.take()[methodLogin], 12+int(time.Since(began)/mostLoginPause); n > most {
					t.Errorf("%d log-ins in %v, want at most %d", n, time.Since(began), most)
				}
			})
		}
	}
}
