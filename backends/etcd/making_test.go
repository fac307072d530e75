package etcd

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// A call that is cancelled while its request is on the way returns at once, and leaves nothing behind: neither its entry, nor
// a lease to which the other holds of the client may not be bound any more.
func TestCancelledAttemptLeavesNothing(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	for name, lock := range map[string]func(b *backend) func(context.Context, string, driver.Request) (driver.Grant, error){
		"TryLock": func(b *backend) func(context.Context, string, driver.Request) (driver.Grant, error) { return b.TryLock },
		"Lock": func(b *backend) func(context.Context, string, driver.Request) (driver.Grant, error) {
			return func(ctx context.Context, key string, r driver.Request) (driver.Grant, error) {
				return b.Lock(ctx, key, r, func() {})
			}
		},
	} {
		for applied, when := range map[bool]string{false: "before the server has it", true: "after the server has it"} {
			t.Run(name+", "+when, func(t *testing.T) {
				b, m := meddled(t, srv.Addr)
				call := lock(b)
				other := request("other", time.Minute)
				key, rest := name+when, "other "+name+when
				must[driver.Grant](t)(b.TryLock(t.Context(), rest, other))
				before := entriesOf(t, b.client, b.names.queue(rest)).Kvs[0]

				sent, release := make(chan struct{}), make(chan struct{})
				var once, freed sync.Once
				free := func() { freed.Do(func() { close(release) }) }
				defer free()
				m.on(func(_ string, req any, send func() error) (err error) {
					first := false
					if puts(req) {
						once.Do(func() { first = true })
					}
					if !first {
						return send()
					}
					if applied {
						err = send()
					}
					close(sent)
					<-release
					if !applied {
						err = send()
					}
					return err
				})
				r := request("cancelled", time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					_, err := call(ctx, key, r)
					done <- err
				}()
				<-sent
				cancel()
				select {
				case err := <-done:
					if !errors.Is(err, context.Canceled) || driver.Definite(err) {
						t.Errorf("cancelled: %v, want an unknown outcome", err)
					}
				case <-time.After(hung):
					t.Fatal("a cancelled call waits for its request")
				}
				again := make(chan error, 1)
				go func() { // the same id, while the first request is still on its way
					_, err := call(t.Context(), key, r)
					again <- err
				}()
				free()
				select {
				case err := <-again:
					if err != nil {
						t.Errorf("again: %v", err)
					}
				case <-time.After(hung):
					t.Fatal("the second call of the id does not return")
				}
				if kvs := entriesOf(t, b.client, b.names.queue(key)).Kvs; len(kvs) != 1 || string(kvs[0].Value) != heldValue(r.ID) {
					t.Errorf("in the queue: %v, want the hold of the second call alone", kvs)
				}
				must[driver.Grant](t)(b.Renew(t.Context(), key, r))
				must[driver.Grant](t)(b.Renew(t.Context(), rest, other))
				if after := entriesOf(t, b.client, b.names.queue(rest)).Kvs[0]; after.ModRevision != before.ModRevision {
					t.Error("the other hold was written anew")
				}
				if err := b.Unlock(t.Context(), key, r.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Without a second call the entry goes by itself.
func TestCancelledAttemptIsRemoved(t *testing.T) {
	t.Parallel()
	b, m := meddled(t, shared(t).Addr)
	must[driver.Grant](t)(b.TryLock(t.Context(), "other", request("other", time.Minute)))
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	m.on(func(_ string, req any, send func() error) error {
		err := send()
		if puts(req) {
			cancel()
			<-release
		}
		return err
	})
	if _, err := b.TryLock(ctx, "k", request("cancelled", time.Minute)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := entriesOf(t, b.client, b.names.queue("k")).Count; n != 1 {
		t.Fatalf("%d entries: the test shows nothing", n)
	}
	m.on(nil)
	close(release)
	until(t, hung, "the entry to be removed", func() bool { return entriesOf(t, b.client, b.names.queue("k")).Count == 0 })
	nothingLeft(t, b)
}

// A request that was given up may be applied later. A client removes what it has made long before its lease ends.
func TestLateEntryIsRemovedByTheClient(t *testing.T) {
	t.Parallel()
	b, m := meddled(t, shared(t).Addr)
	c := must[*coord.Client](t)(coord.New(b, coord.WithLogger(slog.New(slog.DiscardHandler))))
	lost := make(chan *pb.TxnRequest, 100)
	m.on(func(_ string, req any, send func() error) error {
		if puts(req) {
			lost <- req.(*pb.TxnRequest)
			return errLost
		}
		return send()
	})
	if _, err := c.TryLock(t.Context(), "k", coord.TTL(10*time.Minute)); !errors.Is(err, coord.ErrUnknownOutcome) {
		t.Fatalf("a lost request: %v, want an unknown outcome", err)
	}
	m.on(nil)
	if resp := must[*pb.TxnResponse](t)(b.sendTxn(t.Context(), <-lost)); !resp.Succeeded {
		t.Fatal("the late request made no entry: the test shows nothing")
	}
	until(t, hung, "the late entry to be removed", func() bool { return entriesOf(t, b.client, b.names.queue("k")).Count == 0 })
	must[any](t)(nil, c.Close())
}
