package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// A change that makes room is pushed: a release, a smaller hold, a head that goes, the end of a lease. Of who comes nothing is
// said.
func TestNotifyChanges(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	b, other := connect(t, srv.Addr), connect(t, srv.Addr)
	told := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- other.Shared().NotifyChanges(ctx, "k", func() { told <- struct{}{} })
	}()
	await := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(hung):
			t.Fatalf("not told: %s", what)
		}
	}
	await("that it listens")

	r, small := share1("a", permits(2, 4)), share1("b", permits(2, 4))
	must[driver.Grant](t)(tryShared(b, "k", r))
	must[driver.Grant](t)(tryShared(b, "k", small))
	small.Share = permits(1, 4)
	must[driver.Grant](t)(b.Shared().Renew(t.Context(), "k", small))
	await("a smaller hold")
	if len(told) > 0 {
		t.Error("told of who came")
	}
	head := asHead(share1("head", writes))
	if _, err := tryShared(b, "k", head); !errors.Is(err, driver.ErrLocked) {
		t.Fatal(err)
	}
	for what, id := range map[string]string{"a release": r.ID, "a head that goes": head.ID} {
		if err := b.Shared().Unlock(t.Context(), "k", id); err != nil {
			t.Fatal(err)
		}
		await(what)
	}
	kv := entriesOf(t, b.client, b.names.shared("k")).Kvs[0]
	must[*clientv3.LeaseRevokeResponse](t)(b.client.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)))
	await("the end of a lease")

	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(hung):
		t.Fatal("NotifyChanges does not end")
	}
	if n := other.waits.count(); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// A watch that the server refuses ends, and so does one of a backend that is closed.
func TestNotifyChangesEnds(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	client := raw(t, srv.Addr)
	b := must[driver.Backend](t)(New(client, WithNamespace(testserver.NameOf(t)))).(*backend)
	ended, began := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- b.Shared().NotifyChanges(t.Context(), "k", func() { began <- struct{}{} })
	}()
	<-began
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("ended without an error")
		}
	case <-time.After(hung):
		t.Fatal("NotifyChanges outlives Close")
	}
}
