package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/batch"
)

const (
	// maxOut is how many requests are under way before steps wait for each other: more would only wait at the server, for which
	// a request is more work than a step.
	maxOut = 4
	// maxBytes is how much steps put together before no other joins them. A server takes 1.5 MiB as a rule, and a client sends 2.
	maxBytes = 448 << 10
	// maxWait is how long a step waits at most for a request to come back: one may hang on a member that does not answer.
	maxWait = 10 * time.Millisecond
)

// errAlone: the store has refused the request that steps shared, and so done none of them. Each is to
// be made alone, for all but one may be good.
var errAlone = errors.New("etcd: one of several steps was refused")

// step is one change at the store that looks at nothing beyond its place, which is a queue or the state of a limit. These are
// what most requests are, so steps of different places share a request where many come at a time.
type step struct {
	place string
	txn   *pb.TxnRequest
	resp  *pb.TxnResponse
}

// bytes is how much the step puts.
func (s *step) bytes() (n int) {
	for _, op := range s.txn.GetSuccess() {
		n += len(op.GetRequestPut().GetValue())
	}
	return n
}

// stepSender sends the steps of a backend.
type stepSender struct{ *backend }

func (b *backend) newBatcher(wait time.Duration) *batch.Batcher[*step] {
	return batch.New[*step](stepSender{b}, batch.Options{
		Out: maxOut, Shared: 1, Wait: wait, Calls: b.calls,
	})
}

// perform makes a step, by a request of its own or together with others.
func (b *backend) perform(ctx context.Context, place string, txn *pb.TxnRequest) (*pb.TxnResponse, error) {
	s := &step{place: place, txn: txn}
	switch err := b.batcher.Do(ctx, s); {
	case errors.Is(err, errAlone):
		return b.txn(ctx, txn)
	case err != nil:
		return nil, err
	}
	return s.resp, nil
}

// Send implements batch.Sender.
func (b stepSender) Send(ctx context.Context, s *step) (err error) {
	s.resp, err = b.txn(ctx, s.txn)
	return err
}

// Join implements batch.Sender. Steps of one place do not share a request: they would not see each other.
func (b stepSender) Join(before []*step, s *step) (fits, full bool) {
	bytes := s.bytes()
	for _, other := range before {
		bytes += other.bytes()
	}
	same := func(other *step) bool { return other.place == s.place }
	fits = !slices.ContainsFunc(before, same) && (len(before) == 0 || bytes <= 2*maxBytes)
	return fits, bytes >= maxBytes || len(before)+1 >= b.ops.most()
}

// SendAll implements batch.Sender, by one request, which is all or nothing: what the store refuses of one step, it refuses of
// all.
func (b stepSender) SendAll(ctx context.Context, steps []*step, answer func(int, error)) {
	all := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(steps))}
	for i, s := range steps {
		all.Success[i] = nested(s.txn)
	}
	ctx, cancel := context.WithTimeout(ctx, b.making)
	defer cancel()
	resp, err := b.txn(ctx, all)
	var refusal rpctypes.EtcdError
	if errors.As(err, &refusal) && driver.Definite(err) {
		b.ops.tooMany(err, len(steps))
		err = errAlone
	}
	for i, s := range steps {
		if err == nil {
			s.resp = resp.Responses[i].GetResponseTxn()
			s.resp.Header = resp.Header
		}
		answer(i, err)
	}
}
