package etcd

import (
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
)

// The value of an entry says what it is. The id is in its name and, so that an
// operator need not look there, in its value.
const (
	heldHeader     = "coord-lock 1 held id="     // in line, or the holder if it is the first
	releasedHeader = "coord-lock 1 released id=" // nobody's: the key is only kept taken
)

func heldValue(id string) string     { return heldHeader + id }
func releasedValue(id string) string { return releasedHeader + id }

// record is an entry as it was read.
type record struct {
	id       string
	released bool
	create   int64 // revision of its creation: its place in line, and its token
	lease    int64
}

// readRecord reads an entry of the line with that prefix. What is not coord's is
// driver.ErrCorrupt.
func readRecord(line string, kv *mvccpb.KeyValue) (record, error) {
	name, value := string(kv.Key), string(kv.Value)
	r := record{create: kv.CreateRevision, lease: kv.Lease}
	id, isEntry := strings.CutPrefix(name, line)
	switch {
	case !isEntry || !validID(id) || kv.Lease == 0:
	case value == heldValue(id):
		r.id = id
		return r, nil
	case value == releasedValue(id):
		r.id, r.released = id, true
		return r, nil
	}
	return record{}, fmt.Errorf("%w: %.300q = %.200q", driver.ErrCorrupt, name, value)
}

// validID reports whether id can name an entry: printable ASCII without spaces.
func validID(id string) bool {
	if id == "" || len(id) > driver.MaxID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
