package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// failFast makes calls on the connection of a client of etcd that fail at once where there is no connection. The client
// library's own calls wait for one as long as their context lasts, and some are repeated: whether to do that is decided above.
// What an application has wrapped around the services of its client is passed by.
type failFast struct{ grpc.ClientConnInterface }

func (c failFast) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, method, req, reply, append(opts, grpc.WaitForReady(false))...)
}

func (c failFast) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(ctx, desc, method, append(opts, grpc.WaitForReady(false))...)
}

// services are the parts of etcd that the store uses.
type services struct {
	client  *clientv3.Client
	kv      clientv3.KV // pbKV with the library's builders of requests
	pbKV    pb.KVClient
	lease   pb.LeaseClient
	watcher pb.WatchClient
}

func servicesOf(client *clientv3.Client) services {
	conn := failFast{client.ActiveConnection()}
	kv := pb.NewKVClient(conn)
	return services{
		client: client, kv: clientv3.NewKVFromKVClient(kv, client), pbKV: kv,
		lease: pb.NewLeaseClient(conn), watcher: pb.NewWatchClient(conn),
	}
}
