package etcd

import (
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
)

// The entries of a key that several hold. The name of a reader's, or of one with permits, is its slot, so that two holds
// never have the same. A writer and the head of the queue are under a prefix of their own: a reader looks for nothing else. A
// writer is alone when it comes, so its slot is 0; it keeps its name when it becomes a reader.
const (
	readersDir = "r/"
	writersDir = "w/"
	headName   = writersDir + "head"
	writerName = writersDir + "0000"
	slotDigits = 4
)

const shareHeader = "coord-shared 1 "

var modes = map[string]driver.Mode{
	driver.Read.String(): driver.Read, driver.Write.String(): driver.Write, driver.Permits.String(): driver.Permits,
}

// shareName is the name of a hold, below the prefix of its key.
func shareName(mode driver.Mode, slot int) string {
	if mode == driver.Write {
		return writerName
	}
	return fmt.Sprintf("%s%0*d", readersDir, slotDigits, slot)
}

// The value of an entry says what it is, and whose: "coord-shared 1 held read id=…", or permits weight=1 of=3, or broken for held;
// or "coord-shared 1 head id=…".
func shareValue(s driver.Share, id string) string  { return formatShare("held ", s, id) }
func brokenValue(s driver.Share, id string) string { return formatShare("broken ", s, id) }
func headValue(id string) string                   { return shareHeader + "head id=" + id }

func formatShare(state string, s driver.Share, id string) string {
	b := make([]byte, 0, len(shareHeader)+64+len(id))
	b = append(append(append(b, shareHeader...), state...), s.Mode.String()...)
	if s.Mode == driver.Permits {
		b = strconv.AppendInt(append(b, " weight="...), s.Weight, 10)
		b = strconv.AppendInt(append(b, " of="...), s.Of, 10)
	}
	return string(append(append(b, " id="...), id...))
}

// readShared reads an entry of the key with that prefix. What is not coord's is driver.ErrCorrupt.
func readShared(prefix string, kv *mvccpb.KeyValue) (record, error) {
	rec, ok := parseShared(string(kv.Value))
	rec.name, rec.create, rec.lease = string(kv.Key), kv.CreateRevision, kv.Lease
	name, under := strings.CutPrefix(rec.name, prefix)
	if ok = ok && under && kv.Lease != 0; ok {
		rec.slot, ok = slotOf(name, rec)
	}
	if !ok {
		return record{}, fmt.Errorf("%w: %.300q = %.200q", driver.ErrCorrupt, kv.Key, kv.Value)
	}
	return rec, nil
}

// slotOf reads the name of an entry, which has to be one that rec may have.
func slotOf(name string, rec record) (slot int, ok bool) {
	switch name {
	case headName:
		return 0, rec.kind == ofHead
	case writerName:
		return 0, rec.kind == ofShare && rec.share.Mode != driver.Permits
	}
	slot, err := strconv.Atoi(strings.TrimPrefix(name, readersDir))
	return slot, err == nil && 0 <= slot && slot < driver.MaxHolders &&
		rec.kind == ofShare && rec.share.Mode != driver.Write && name == shareName(rec.share.Mode, slot)
}

// parseShared reads a value. That there is nothing between or beside its fields is found by writing them again.
func parseShared(value string) (rec record, ok bool) {
	rec.value = value
	rest, _ := strings.CutPrefix(value, shareHeader)
	fields := strings.Split(rest, " ")
	if rec.id, ok = strings.CutPrefix(fields[len(fields)-1], "id="); !ok || !validID(rec.id) {
		return record{}, false
	}
	rec.kind = ofShare
	switch fields[0] {
	case "head":
		rec.kind = ofHead
		return rec, value == headValue(rec.id)
	case "held":
	case "broken":
		rec.released = true
	default:
		return record{}, false
	}
	if len(fields) == 5 {
		rec.share.Weight, _ = strconv.ParseInt(strings.TrimPrefix(fields[2], "weight="), 10, 64)
		rec.share.Of, _ = strconv.ParseInt(strings.TrimPrefix(fields[3], "of="), 10, 64)
	}
	rec.share.Mode = modes[fields[1]]
	state := fields[0] + " "
	return rec, rec.share.Check() == nil && value == formatShare(state, rec.share, rec.id)
}
