package etcd

import (
	"context"
	"math"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// remote makes calls over the connection of a client. What the application has wrapped around the services of its client is
// passed by.
type remote struct {
	client *clientv3.Client
	logins logins
}

// callOptions make a call fail at once where there is no connection. The client library's own calls wait for one as long as
// their context lasts, and some are repeated: whether to do that is decided above. An answer may be as large as it is: that to
// many steps may be, and a long queue.
var callOptions = []grpc.CallOption{grpc.WaitForReady(false), grpc.MaxCallRecvMsgSize(math.MaxInt32)}

// invoke calls a method of etcd, such as KV/Txn.
func invoke[Out any](ctx context.Context, r *remote, method string, in any) (*Out, error) {
	out := new(Out)
	err := r.logins.pass(func() error {
		return r.client.ActiveConnection().Invoke(ctx, "/etcdserverpb."+method, in, out, callOptions...)
	})
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	return out, nil
}

// open calls a method that takes and gives a stream.
func (r *remote) open(ctx context.Context, method string) (stream grpc.ClientStream, err error) {
	err = r.logins.pass(func() error {
		both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		stream, err = r.client.ActiveConnection().NewStream(ctx, both, "/etcdserverpb."+method, callOptions...)
		return err
	})
	return stream, err
}
