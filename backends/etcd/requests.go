package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The parts of a request. A request of ours has few of them, and always the same.

// madeAt holds if a key was created by that revision; 0: if there is none.
func madeAt(key []byte, revision int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, Key: key, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision}}
}

// changedAt holds if a key was written last by that revision; 0: if there is none.
func changedAt(key []byte, revision int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, Key: key, TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}
}

// noneSince holds if nothing under a prefix was made or changed after a revision. It does not notice what is removed.
func noneSince(prefix []byte, revision int64) *pb.Compare {
	return &pb.Compare{
		Target: pb.Compare_MOD, Result: pb.Compare_LESS, Key: prefix, RangeEnd: queueEnd(prefix),
		TargetUnion: &pb.Compare_ModRevision{ModRevision: revision + 1},
	}
}

// hasValue holds if a key has that value.
func hasValue(key []byte, value string) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL, Key: key, TargetUnion: &pb.Compare_Value{Value: []byte(value)}}
}

// emptyQueue holds if there is nothing in a queue.
func emptyQueue(queue []byte) *pb.Compare {
	c := madeAt(queue, 0)
	c.RangeEnd = queueEnd(queue)
	return c
}

// queueEnd is the first key behind a queue, whose last byte is a slash.
func queueEnd(queue []byte) []byte {
	end := append(make([]byte, 0, len(queue)), queue...)
	end[len(end)-1]++
	return end
}

func putOf(key, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: lease}}}
}

func getOf(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
}

func deletionOf(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
}

// firstOfQueue reads the first in a queue.
func firstOfQueue(queue []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: queue, RangeEnd: queueEnd(queue), Limit: 1, SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND,
	}}}
}
