package etcd

import (
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// To find the youngest of a line, the server reads all of it. So a long line has a tail: a key beside it, whose
// value names the entry that came last. Whoever comes puts its own name there, in the transaction that
// makes its entry, and waits for the one that was named before.
//
// A tail says only whom to wait for. When that one has gone, the line is read: nobody is granted
// for what a tail says. So it may be missing, or name what is gone, or nobody.
//
// It is made by a client that has many in line, or that has seen many there; it is bound to the lease of
// the entry that it names, and goes with that entry. Who is granted in a line that has become short
// removes it.

const (
	// longLine is how many entries make a line long, if they are one client's or one has seen them.
	longLine = 16
	// shortLine is how many entries a line may have whose tail is removed.
	shortLine = 8
)

const tailHeader = "coord-tail 1 last=" // and nobody's name, if the next is the first to be named

// tailValue names an entry of a line.
func tailValue(line, name string) string {
	return tailHeader + strings.TrimPrefix(name, line)
}

// readTail reads the name back; "" if it is nobody's, or the value is not coord's.
func readTail(line string, kv *mvccpb.KeyValue) (name string) {
	if last, ok := strings.CutPrefix(string(kv.Value), tailHeader); ok && last != "" {
		return line + last
	}
	return ""
}

// nearest reads the tail, or else those in line that came last, of which ours is one.
func nearest(tail, line string) clientv3.Op {
	return clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(tail), ">", 0)},
		[]clientv3.Op{clientv3.OpGet(tail)},
		[]clientv3.Op{clientv3.OpGet(line, clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(2))})
}

// extend makes the tail name an entry. Only a long line is given one that has none.
func extend(tail, value string, lease int64, long bool) clientv3.Op {
	var cmps []clientv3.Cmp
	if !long {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(tail), ">", 0))
	}
	return clientv3.OpTxn(cmps, []clientv3.Op{clientv3.OpPut(tail, value, clientv3.WithLease(clientv3.LeaseID(lease)))}, nil)
}

// inTxn is what a transaction within one has found: whether its condition held, what its first read has, and of
// how many.
func inTxn(resp *clientv3.TxnResponse, i int) (held bool, kvs []*mvccpb.KeyValue, count int64) {
	txn := resp.Responses[i].GetResponseTxn()
	if len(txn.GetResponses()) > 0 {
		found := txn.Responses[0].GetResponseRange()
		kvs, count = found.GetKvs(), found.GetCount()
	}
	return txn.GetSucceeded(), kvs, count
}

// beginTail gives a line that has no tail one that names nobody.
func beginTail(tail string, lease int64) clientv3.Op {
	return clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(tail), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(tail, tailHeader, clientv3.WithLease(clientv3.LeaseID(lease)))}, nil)
}

// withTail adds to what ends e, or makes it nobody's, that the tail goes with it. backend.mu is held if e is in use.
func (b *backend) withTail(op clientv3.Op, e *entry) []clientv3.Op {
	if e == nil || e.tail == "" {
		return []clientv3.Op{op}
	}
	tail := b.names.tail(e.key)
	if e.short {
		return []clientv3.Op{op, clientv3.OpDelete(tail)}
	}
	itself := clientv3.Compare(clientv3.Value(tail), "=", e.tail)
	return []clientv3.Op{op, clientv3.OpTxn([]clientv3.Cmp{itself}, []clientv3.Op{clientv3.OpDelete(tail)}, nil)}
}

// lengthOf is how many names this client has in use in the line of key.
func (b *backend) lengthOf(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.slots[key]; s != nil {
		return s.used
	}
	return 0
}
