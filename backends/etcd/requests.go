package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The parts of a request. A request of ours has few of them, and always the same.

// madeAt holds if a key was created by that revision; 0: if there is none.
func madeAt(key string, revision int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, Key: []byte(key), TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision}}
}

// changedAt holds if a key was written last by that revision; 0: if there is none.
func changedAt(key string, revision int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, Key: []byte(key), TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
}

// noneSince holds if nothing under a prefix was made or changed after a revision. It does not notice what is removed.
func noneSince(prefix string, revision int64) *pb.Compare {
	return &pb.Compare{
		Target: pb.Compare_MOD, Result: pb.Compare_LESS, Key: []byte(prefix), RangeEnd: endOf(prefix),
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1},
	}
}

// hasValue holds if a key has that value.
func hasValue(key, value string) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL, Key: []byte(key), TargetUnion: &pb.Compare_Value{Value: []byte(value)}}
}

// onLease holds if a key is bound to that lease.
func onLease(key string, lease int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_LEASE, Result: pb.Compare_EQUAL, Key: []byte(key), TargetUnion: &pb.Compare_Lease{Lease: lease}}
}

// emptyQueue holds if there is nothing in a queue.
func emptyQueue(queue string) *pb.Compare {
	c := madeAt(queue, 0)
	c.RangeEnd = endOf(queue)
	return c
}

// endOf is the first key behind those with a prefix.
func endOf(prefix string) []byte { return []byte(clientv3.GetPrefixRangeEnd(prefix)) }

func put(r *pb.PutRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}}
}

func putOf(key, value string, lease int64) *pb.RequestOp {
	return put(&pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease})
}

func deletionOf(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

func read(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func getOf(key string) *pb.RequestOp { return read(&pb.RangeRequest{Key: []byte(key)}) }

// nested is a transaction within another one.
func nested(t *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}
}

// allUnder reads what is under a prefix.
func allUnder(prefix string) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(prefix), RangeEnd: endOf(prefix)}
}

// firstOfQueue reads the first in a queue.
func firstOfQueue(queue string) *pb.RangeRequest {
	r := allUnder(queue)
	r.Limit, r.SortTarget, r.SortOrder = 1, pb.RangeRequest_CREATE, pb.RangeRequest_ASCEND
	return r
}

// newestOfQueue reads the last n in a queue that were created by a revision, or before; 0: by any.
func newestOfQueue(queue string, n, until int64) *pb.RangeRequest {
	r := allUnder(queue)
	r.Limit, r.SortTarget, r.SortOrder, r.MaxCreateRevision = n, pb.RangeRequest_CREATE, pb.RangeRequest_DESCEND, until
	return r
}

// kvsOf is what the i-th operation of a transaction, a read, has found.
func kvsOf(resp *pb.TxnResponse, i int) []*mvccpb.KeyValue {
	return resp.Responses[i].GetResponseRange().GetKvs()
}
