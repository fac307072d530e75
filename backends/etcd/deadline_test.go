package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// removes reports whether a request is one that removes entries which are over.
func removes(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && len(txn.Success) > 0 && txn.Success[0].GetRequestTxn() != nil &&
		txn.Success[0].GetRequestTxn().Success[0].GetRequestDeleteRange() != nil
}

// A hold is made smaller, and its deadline comes before the answer does: either it is over, or nobody else gets what it holds.
func TestRenewalAtTheDeadline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		moved bool  // to another lease
		then  state // of the hold when the answer comes
	}{
		"about to be removed": {false, removing}, "removed": {false, dropped}, "moved": {true, removing},
	} {
		t.Run(name, func(t *testing.T) {
			_, b, m := meddledServer(t)
			r := share1("a", driver.Share{Mode: driver.Permits, Weight: 2, Of: 2})
			must[driver.Grant](t)(tryShared(b, "k", r))
			if test.moved {
				b.taintAll()
			}
			p := place{"k", r.ID, true}
			renewed := make(chan struct{})
			var once sync.Once
			m.on(func(_ string, req any, send func() error) error {
				switch {
				case removes(req) && test.then == removing:
					<-renewed
				case puts(req) && !removes(req):
					defer once.Do(func() {
						b.mu.Lock()
						e := b.entries[p]
						e.deadline = time.Now()
						b.plan(e)
						b.mu.Unlock()
						until(t, hung, "the hold to be over", func() bool {
							b.mu.Lock()
							defer b.mu.Unlock()
							return e.state == test.then
						})
					})
				}
				return send()
			})
			r.Share.Weight = 1
			_, err := b.Shared().Renew(context.Background(), "k", r)
			close(renewed)
			until(t, hung, "the removal", func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return len(b.removing) == 0
			})
			_, other := tryShared(b, "k", share1("b", driver.Share{Mode: driver.Permits, Weight: 2, Of: 2}))
			if holds, refused := err == nil, errors.Is(other, driver.ErrLocked); holds != refused || !holds && other != nil {
				t.Errorf("renewed: %v; then another's request: %v", err, other)
			}
			if !errors.Is(err, driver.ErrNotHeld) && err != nil {
				t.Errorf("renewal: %v", err)
			}
		})
	}
}
