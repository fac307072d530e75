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
	failFastKV    struct{ pb.KVClient }
	failFastLease struct{ pb.LeaseClient }
	failFastWatch struct{ pb.WatchClient }
)

func (c failFastKV) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return c.KVClient.Range(ctx, in, notWaiting(opts)...)
}

func (c failFastKV) Put(ctx context.Context, in *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return c.KVClient.Put(ctx, in, notWaiting(opts)...)
}

func (c failFastKV) DeleteRange(ctx context.Context, in *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return c.KVClient.DeleteRange(ctx, in, notWaiting(opts)...)
}

func (c failFastKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return c.KVClient.Txn(ctx, in, notWaiting(opts)...)
}

func (c failFastLease) LeaseGrant(ctx context.Context, in *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return c.LeaseClient.LeaseGrant(ctx, in, notWaiting(opts)...)
}

func (c failFastLease) LeaseRevoke(ctx context.Context, in *pb.LeaseRevokeRequest, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return c.LeaseClient.LeaseRevoke(ctx, in, notWaiting(opts)...)
}

func (c failFastLease) LeaseTimeToLive(ctx context.Context, in *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return c.LeaseClient.LeaseTimeToLive(ctx, in, notWaiting(opts)...)
}

func (c failFastLease) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return c.LeaseClient.LeaseKeepAlive(ctx, notWaiting(opts)...)
}

func (c failFastWatch) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	return c.WatchClient.Watch(ctx, notWaiting(opts)...)
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
	kv := termKV{failFastKV{pb.NewKVClient(conn)}, t, seen}
	return services{
		client: client, kv: clientv3.NewKVFromKVClient(kv, client), pbKV: kv,
		lease: failFastLease{pb.NewLeaseClient(conn)}, watcher: failFastWatch{pb.NewWatchClient(conn)},
	}
}
