package etcd

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// meddler sits between a client and the connection, and has its way with unary calls.
type meddler struct {
	mu   sync.Mutex
	with func(method string, req any, send func() error) error
}

// on makes fn decide what becomes of each call; nil lets them through.
func (m *meddler) on(fn func(method string, req any, send func() error) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.with = fn
}

func (m *meddler) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	m.mu.Lock()
	with := m.with
	m.mu.Unlock()
	send := func() error { return invoker(ctx, method, req, reply, cc, opts...) }
	if with == nil {
		return send()
	}
	return with(method[strings.LastIndexByte(method, '/')+1:], req, send)
}

// meddled gives a backend whose calls can be meddled with.
func meddled(t testing.TB, addrs ...string) (*backend, *meddler) {
	t.Helper()
	m := &meddler{}
	cfg := clientConfig(addrs...)
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(m.intercept))
	return connectWith(t, cfg), m
}

// streamed gives a backend whose streams go through fn.
func streamed(t testing.TB, fn grpc.StreamClientInterceptor, addr string) *backend {
	t.Helper()
	cfg := clientConfig(addr)
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(fn))
	return connectWith(t, cfg)
}

// errLost is what gRPC says when a connection breaks under a call.
var errLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// errNoConnection is what gRPC says when there was none to send anything on.
var errNoConnection = status.Error(codes.Unavailable, "there is no connection available")

// puts reports whether a request is a transaction that would put something.
func puts(req any) bool {
	txn, ok := req.(*pb.TxnRequest)
	if !ok {
		return false
	}
	for _, op := range txn.Success {
		if op.GetRequestPut() != nil || op.GetRequestTxn() != nil {
			return true
		}
	}
	return false
}

// loseReply loses the reply to the next request that puts something; the server applies it.
func (m *meddler) loseReply() {
	var once sync.Once
	m.on(func(_ string, req any, send func() error) error {
		err := send()
		if puts(req) {
			once.Do(func() { err = errLost })
		}
		return err
	})
}

// lose loses the next most requests that put something, and gives the first of them.
func (m *meddler) lose(most int) chan *pb.TxnRequest {
	caught := make(chan *pb.TxnRequest, 1)
	var lost atomic.Int64
	m.on(func(_ string, req any, send func() error) error {
		if !puts(req) {
			return send()
		}
		switch n := lost.Add(1); {
		case n > int64(most):
			return send()
		case n == 1:
			caught <- req.(*pb.TxnRequest)
		}
		return errLost
	})
	return caught
}

// entriesOf are the entries of a queue, as they stand.
func entriesOf(t testing.TB, client *clientv3.Client, queue string) *clientv3.GetResponse {
	t.Helper()
	return must[*clientv3.GetResponse](t)(client.Get(context.Background(), queue,
		clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)))
}
