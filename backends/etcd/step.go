package etcd

import (
	"context"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// step is one change at the store that looks at nothing beyond its place, which is a queue or the
// state of a limit. These are what most requests are, so they are made without the client library's
// builders, and steps of different places share a request where many come at a time.
type step struct {
	place string
	txn   *pb.TxnRequest
}

// bytes is how much the step puts.
func (s *step) bytes() (n int) {
	for _, op := range s.txn.GetSuccess() {
		n += len(op.GetRequestPut().GetValue())
	}
	return n
}

// answer is what the store says to a step.
type answer struct {
	revision int64 // of the store, after it
	txn      *pb.TxnResponse
}

// send makes a request of a step.
func (b *backend) send(ctx context.Context, s step) (answer, error) {
	resp, err := b.pbKV.Txn(ctx, s.txn)
	if err != nil {
		return answer{}, classify(ctx, b.named(clientv3.ContextError(ctx, err)))
	}
	return answer{resp.Header.GetRevision(), resp}, nil
}

// anySize lets an answer be as large as it is: that to many steps may be.
var anySize = grpc.MaxCallRecvMsgSize(math.MaxInt32)

// sendAll makes one request of several steps, which is all or nothing: what the store refuses of one, it
// refuses of all.
func (b *backend) sendAll(ctx context.Context, steps []step) ([]answer, error) {
	req := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(steps))}
	for i, s := range steps {
		req.Success[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: s.txn}}
	}
	resp, err := b.pbKV.Txn(ctx, req, anySize)
	if err != nil {
		return nil, classify(ctx, b.named(clientv3.ContextError(ctx, err)))
	}
	out := make([]answer, len(steps))
	for i, r := range resp.Responses {
		out[i] = answer{resp.Header.GetRevision(), r.GetResponseTxn()}
	}
	return out, nil
}
