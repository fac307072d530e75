package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// notWaiting makes a call fail at once where there is no connection. The client library's own calls wait for one as long as
// their context lasts, and some are repeated: whether to do that is decided above. What an application has wrapped around the
// services of its client is passed by.
func notWaiting(opts []grpc.CallOption) []grpc.CallOption {
	return append(opts, grpc.WaitForReady(false))
}

// The clients of the services are wrapped, one by one: up to etcd 3.6 they take a *grpc.ClientConn, which cannot be wrapped.
type (
	failFastKV struct {
		pb.KVClient
		logins *logins
	}
	failFastLease struct {
		pb.LeaseClient
		logins *logins
	}
	failFastWatch struct {
		pb.WatchClient
		logins *logins
	}
)

func (c failFastKV) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return send(ctx, c.logins, c.KVClient.Range, in, opts)
}

func (c failFastKV) Put(ctx context.Context, in *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return send(ctx, c.logins, c.KVClient.Put, in, opts)
}

func (c failFastKV) DeleteRange(ctx context.Context, in *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return send(ctx, c.logins, c.KVClient.DeleteRange, in, opts)
}

func (c failFastKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return send(ctx, c.logins, c.KVClient.Txn, in, opts)
}

func (c failFastLease) LeaseGrant(ctx context.Context, in *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return send(ctx, c.logins, c.LeaseClient.LeaseGrant, in, opts)
}

func (c failFastLease) LeaseRevoke(ctx context.Context, in *pb.LeaseRevokeRequest, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return send(ctx, c.logins, c.LeaseClient.LeaseRevoke, in, opts)
}

func (c failFastLease) LeaseTimeToLive(ctx context.Context, in *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return send(ctx, c.logins, c.LeaseClient.LeaseTimeToLive, in, opts)
}

func (c failFastLease) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return pass(ctx, c.logins, c.LeaseClient.LeaseKeepAlive, opts)
}

func (c failFastWatch) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	return pass(ctx, c.logins, c.WatchClient.Watch, opts)
}

// send is pass of a call that takes a request.
func send[In, Out any](ctx context.Context, l *logins, call func(context.Context, In, ...grpc.CallOption) (Out, error), in In, opts []grpc.CallOption) (out Out, err error) {
	return pass(ctx, l, func(ctx context.Context, opts ...grpc.CallOption) (Out, error) { return call(ctx, in, opts...) }, opts)
}

// pass makes a call, if the client may log in for it.
func pass[Out any](ctx context.Context, l *logins, call func(context.Context, ...grpc.CallOption) (Out, error), opts []grpc.CallOption) (out Out, err error) {
	if err = l.refused(); err != nil {
		return out, err
	}
	out, err = call(ctx, notWaiting(opts)...)
	l.note(err)
	return out, err
}

// services are the parts of etcd that the store uses.
type services struct {
	client  *clientv3.Client
	kv      clientv3.KV // pbKV with the library's builders of requests
	pbKV    pb.KVClient
	lease   pb.LeaseClient
	watcher pb.WatchClient
}

func servicesOf(client *clientv3.Client, t *terms, seen func(int64, *pb.ResponseHeader)) services {
	conn := client.ActiveConnection()
	l := &logins{}
	kv := termKV{failFastKV{pb.NewKVClient(conn), l}, t, seen}
	return services{
		client: client, kv: clientv3.NewKVFromKVClient(kv, client), pbKV: kv,
		lease: failFastLease{pb.NewLeaseClient(conn), l}, watcher: failFastWatch{pb.NewWatchClient(conn), l},
	}
}
