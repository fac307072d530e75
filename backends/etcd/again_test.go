package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/driver"
)

// The server enforces the time-out of an attempt, and may say so before the client's own clock does, in three ways.
func TestAgainWhenTheServerSaysThatTheTimeIsUp(t *testing.T) {
	for _, late := range []error{
		context.DeadlineExceeded,
		status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
		status.Error(codes.Unknown, "context deadline exceeded"),
	} {
		attempts := 0
		_, err := again(t.Context(), func(context.Context) error {
			if attempts++; attempts == 1 {
				return late
			}
			return nil
		})
		if err != nil || attempts != 2 {
			t.Errorf("%v: %d attempts, %v, want a second one that succeeds", late, attempts, err)
		}
	}
}

// A request that a member breaks off is made once more. Where there is no connection at all, that would be in vain.
func TestAgainWhenAMemberBreaksOff(t *testing.T) {
	for _, test := range []struct {
		err   error
		lasts bool // each attempt fails
		want  int  // attempts
	}{
		{err: errLost, want: 2},
		{err: errLost, lasts: true, want: 2},
		{err: rpctypes.ErrNoLeader, want: 2},
		{err: rpctypes.ErrStopped, want: 2},
		{err: errNoConnection, want: 1},
		{err: rpctypes.ErrNoSpace, want: 1},
		{err: rpctypes.ErrLeaseNotFound, want: 1},
	} {
		attempts := 0
		_, err := again(t.Context(), func(context.Context) error {
			if attempts++; attempts == 1 || test.lasts {
				return test.err
			}
			return nil
		})
		if failed := test.lasts || test.want == 1; attempts != test.want || failed != errors.Is(err, test.err) {
			t.Errorf("%v, lasting: %v: %d attempts, %v, want %d", test.err, test.lasts, attempts, err, test.want)
		}
	}
}

// After an attempt that may have been applied the outcome is unknown, though the server refuses the next one.
func TestAgainTellsThatAnAttemptBeforeMayBeApplied(t *testing.T) {
	for _, test := range []struct {
		errs []error
		want bool
	}{
		{[]error{nil}, false},
		{[]error{errNoConnection}, false},
		{[]error{errLost, nil}, true},
		{[]error{errLost, rpctypes.ErrTooManyRequests}, true},
		{[]error{context.DeadlineExceeded, errNoConnection}, true},
		{[]error{context.DeadlineExceeded, errLost, rpctypes.ErrTooManyRequests}, true},
	} {
		left := test.errs
		before, err := again(t.Context(), func(context.Context) (err error) {
			err, left = left[0], left[1:]
			return err
		})
		if len(left) > 0 || before != test.want || !errors.Is(err, test.errs[len(test.errs)-1]) {
			t.Errorf("%v: before %v, %v, %d attempts left, want %v", test.errs, before, err, len(left), test.want)
		}
	}
}

// A connection that breaks under a request which may be made twice fails no call.
func TestBrokenConnectionFailsNoRead(t *testing.T) {
	t.Parallel()
	b, m := meddled(t, shared(t).Addr)
	hold := request("holder", time.Minute)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", hold))
	for name, call := range map[string]func() error{
		"Inspect": func() error { _, err := b.Inspect(t.Context(), "k"); return err },
		"Renew":   func() error { _, err := b.Renew(t.Context(), "k", hold); return err },
		"a lease": func() error { _, err := b.TryLock(t.Context(), "other", request("other", 2*time.Minute)); return err },
	} {
		var once sync.Once
		broke := false
		m.on(func(_ string, req any, send func() error) (err error) {
			if puts(req) {
				return send()
			}
			once.Do(func() { broke, err = true, errLost })
			if err != nil {
				return err
			}
			return send()
		})
		if err := call(); err != nil || !broke {
			t.Errorf("%s: %v, a connection broke: %v", name, err, broke)
		}
	}
}

// An attempt by the same id, which finds the entry of one before whose reply was lost, begins again if that entry ends under it:
// the key is free, and to say that somebody has it were a lie.
func TestAgainWhenTheEntryOfAnEarlierAttemptEnds(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	other := connect(t, srv.Addr)
	for name, try := range map[string]func(b *backend, r driver.Request) error{
		"a lock": func(b *backend, r driver.Request) error {
			_, err := b.TryLock(context.Background(), "ends", r)
			return err
		},
		"a shared hold": func(b *backend, r driver.Request) error {
			r.Share = reads
			_, err := tryShared(b, "ends", r)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := meddled(t, srv.Addr)
			r := request("a", time.Minute)
			m.loseTxn(true)
			if err := try(b, r); err == nil || driver.Definite(err) {
				t.Fatalf("a lost reply: %v, want an unknown outcome", err)
			}
			moved := false
			m.on(func(_ string, req any, send func() error) error {
				if txn, ok := req.(*pb.TxnRequest); ok && rebinds(txn) && !moved { // the entry is read, and not yet on another lease
					moved = true
					for _, kv := range append(entriesOf(t, other.client, other.names.queue("ends")).Kvs, entriesOf(t, other.client, other.names.shared("ends")).Kvs...) {
						must[*clientv3.LeaseRevokeResponse](t)(other.client.Revoke(context.Background(), clientv3.LeaseID(kv.Lease)))
					}
				}
				return send()
			})
			if err := try(b, r); err != nil || !moved {
				t.Errorf("the second attempt: %v, the entry ended under it: %v", err, moved)
			}
		})
	}
}

// rebinds reports whether a transaction compares the lease of an entry.
func rebinds(txn *pb.TxnRequest) bool {
	return slices.ContainsFunc(txn.Compare, func(c *pb.Compare) bool { return c.Target == pb.Compare_LEASE }) ||
		slices.ContainsFunc(txn.Success, func(op *pb.RequestOp) bool { return op.GetRequestTxn() != nil && rebinds(op.GetRequestTxn()) })
}
