package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// etcd's client lets a call wait for a connection for as long as its context lasts. A store
// that cannot be reached is to be told at once: whether to wait is decided above. So
// the services are called past the client's own, on its connection. That also
// passes by what an application has wrapped around them.

var failFast = grpc.WaitForReady(false)

// kvs are reads and transactions.
type kvs struct{ pb.KVClient }

func (k kvs) Range(ctx context.Context, in *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return k.KVClient.Range(ctx, in, append(opts, failFast)...)
}

func (k kvs) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return k.KVClient.Txn(ctx, in, append(opts, failFast)...)
}

// leases are what is done with leases. KeepAliveOnce of the client library is not among
// it: while no server can be reached it tries again without a pause.
type leases struct{ pb.LeaseClient }

func (l leases) LeaseGrant(ctx context.Context, in *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return l.LeaseClient.LeaseGrant(ctx, in, append(opts, failFast)...)
}

func (l leases) LeaseRevoke(ctx context.Context, in *pb.LeaseRevokeRequest, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return l.LeaseClient.LeaseRevoke(ctx, in, append(opts, failFast)...)
}

func (l leases) LeaseTimeToLive(ctx context.Context, in *pb.LeaseTimeToLiveRequest, opts ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return l.LeaseClient.LeaseTimeToLive(ctx, in, append(opts, failFast)...)
}

func (l leases) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return l.LeaseClient.LeaseKeepAlive(ctx, append(opts, failFast)...)
}

// services are the parts of etcd that the store uses.
type services struct {
	client  *clientv3.Client
	kv      clientv3.KV
	pbKV    pb.KVClient
	lease   clientv3.Lease
	pbLease pb.LeaseClient
}

func servicesOf(client *clientv3.Client) services {
	l := leases{clientv3.RetryLeaseClient(client)}
	return services{
		client:  client,
		kv:      clientv3.NewKVFromKVClient(kvs{clientv3.RetryKVClient(client)}, client),
		pbKV:    clientv3.RetryKVClient(client),
		lease:   clientv3.NewLeaseFromLeaseClient(l, client, defaultTimeout),
		pbLease: l,
	}
}
