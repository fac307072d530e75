package etcd

import (
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
)

// The value of an entry says what it is, and whose.
const (
	heldHeader     = "coord-lock 1 held id="     // in the queue, or the holder if it is the first
	releasedHeader = "coord-lock 1 released id=" // nobody's: the key is only kept taken
)

func heldValue(id string) string     { return heldHeader + id }
func releasedValue(id string) string { return releasedHeader + id }

// record is an entry as it was read.
type record struct {
	name     string
	value    string
	id       string
	released bool
	create   int64 // revision of its creation: its place in the queue, and its token
	lease    int64
	sharedPart
}

// read reads an entry among those of p. What is not coord's is driver.ErrCorrupt.
func (n names) read(p place, kv *mvccpb.KeyValue) (record, error) {
	if p.shared {
		return readShared(n.shared(p.key), kv)
	}
	return readRecord(n.queue(p.key), kv)
}

// readRecord reads an entry of the queue with that prefix. What is not coord's is
// driver.ErrCorrupt.
func readRecord(queue string, kv *mvccpb.KeyValue) (record, error) {
	value := string(kv.Value)
	r := record{name: string(kv.Key), value: value, create: kv.CreateRevision, lease: kv.Lease}
	var known bool
	if r.id, known = strings.CutPrefix(value, heldHeader); !known {
		r.id, known = strings.CutPrefix(value, releasedHeader)
		r.released = known
	}
	if rest, queued := strings.CutPrefix(r.name, queue); !queued || rest == "" || !known || driver.CheckID(r.id) != nil || kv.Lease == 0 {
		return record{}, fmt.Errorf("%w: %.300q = %.200q", driver.ErrCorrupt, r.name, value)
	}
	return r, nil
}
