package etcd

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/internal/testwait"
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

// rootClient gives a client of root for the same namespace.
func (u user) rootClient(t testing.TB) *coord.Client {
	t.Helper()
	b := must[*backend](t)(newBackend(t.Context(), u.root, false, []Option{WithNamespace(u.name)}))
	c := must[*coord.Client](t)(coord.New(b))
	t.Cleanup(func() { c.Close() })
	return c
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

// Whoever waits when the store begins to refuse the client learns why, and leaves nothing there, though keepalives, which need
// no password, are answered as before.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
	srv := testserver.Etcd(t, testserver.WithPassword("secret"))
	for what, take := range testwait.Takes() {
		for why, refusal := range refusals {
			opened := what != "fair" // else over a client of the application
			t.Run(what+", "+why, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, srv, what+"-"+why)
				waiter, count := u.client(t, opened)
				var began time.Time
				testwait.Refused{
					Holder: u.rootClient(t), Waiter: waiter, Next: u.rootClient(t),
					Entries: func() int { return int(u.entries(t)) },
					Refuse: func() {
						refusal.begin(u)
						count.take()
						began = time.Now()
					},
					Says: refusal.says,
				}.Ends(t, take)
				took := time.Since(began)
				// A few at once, and then after pauses: without them there would be more than ten a second.
				if n, most := count.take()[methodLogin], 12+int(took/loginPause); n > most {
					t.Errorf("%d log-ins in %v, want at most %d", n, took, most)
				}
			})
		}
	}
}
