package etcd

import (
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
)

// The entries of a key that several hold. The name of a reader's, or of one with permits, is its slot, so that two holds
// never have the same. A writer and the head of the queue are under a prefix of their own, at which a reader looks. A
// writer is alone when it comes, so its slot is 0. It keeps its name when it becomes a reader.
const (
	readersDir = "r/"
	writersDir = "w/"
	headName   = writersDir + "head"
	writerName = writersDir + "0000"
	slotDigits = 4
)

// shareName is the name of a hold, below the prefix of its key.
func shareName(mode driver.Mode, slot int) string {
	if mode == driver.Write {
		return writerName
	}
	return fmt.Sprintf("%s%0*d", readersDir, slotDigits, slot)
}

// sharedPart is what an entry has that is of a shared hold, or the head of the queue for a shared key.
type sharedPart struct {
	head  bool
	share driver.Share // of a hold, without Head
	slot  int
}

// The value of an entry says what it is, and whose: "coord-shared 1 held read id=…", or "permits weight=1 of=3" for read, or
// broken for held; or "coord-shared 1 head id=…".
const (
	shareHeader = "coord-shared 1 "
	shareHeld   = "held"
	shareBroken = "broken"
	shareHead   = "head"
)

func shareValue(state string, s driver.Share, id string) string {
	mode := ""
	switch s.Mode {
	case driver.Permits:
		mode = fmt.Sprintf(" %v weight=%d of=%d", s.Mode, s.Weight, s.Of)
	case driver.Read, driver.Write:
		mode = " " + s.Mode.String()
	}
	return shareHeader + state + mode + " id=" + id
}

// value is the value of an entry of id, as far as this client knows.
func (s *sharedPart) value(id string) string {
	switch {
	case s.head:
		return shareValue(shareHead, driver.Share{}, id)
	case s.share.Mode == driver.Exclusive:
		return heldValue(id)
	}
	return shareValue(shareHeld, s.share, id)
}

// releasedValue is its value once it is nobody's.
func (s *sharedPart) releasedValue(id string) string {
	if s.share.Mode == driver.Exclusive {
		return releasedValue(id)
	}
	return shareValue(shareBroken, s.share, id)
}

// readShared reads an entry of the key with that prefix. What is not coord's is driver.ErrCorrupt.
func readShared(prefix string, kv *mvccpb.KeyValue) (record, error) {
	rec, ok := parseShared(string(kv.Value))
	rec.name, rec.create, rec.lease = string(kv.Key), kv.CreateRevision, kv.Lease
	name, under := strings.CutPrefix(rec.name, prefix)
	if ok = ok && under && kv.Lease != 0; ok {
		ok = rec.named(name)
	}
	if !ok {
		return record{}, fmt.Errorf("%w: %.300q = %.200q", driver.ErrCorrupt, kv.Key, kv.Value)
	}
	return rec, nil
}

// named takes the slot from the name of an entry. It reports whether that is one which the entry may have.
func (s *sharedPart) named(name string) bool {
	switch name {
	case headName:
		return s.head
	case writerName:
		return !s.head && s.share.Mode != driver.Permits
	}
	slot, err := strconv.Atoi(strings.TrimPrefix(name, readersDir))
	s.slot = slot
	return err == nil && 0 <= slot && slot < driver.MaxHolders &&
		!s.head && s.share.Mode != driver.Write && name == shareName(s.share.Mode, slot)
}

var modes = map[string]driver.Mode{
	driver.Read.String(): driver.Read, driver.Write.String(): driver.Write, driver.Permits.String(): driver.Permits,
}

// parseShared reads a value. That there is nothing between or beside its fields is found by writing them again.
func parseShared(value string) (rec record, ok bool) {
	rest, _ := strings.CutPrefix(value, shareHeader)
	fields := strings.Split(rest, " ")
	state := fields[0]
	rec.value, rec.head, rec.released = value, state == shareHead, state == shareBroken
	rec.id, _ = strings.CutPrefix(fields[len(fields)-1], "id=")
	if len(fields) > 2 {
		rec.share.Mode = modes[fields[1]]
	}
	if len(fields) == 5 {
		rec.share.Weight, _ = strconv.ParseInt(strings.TrimPrefix(fields[2], "weight="), 10, 64)
		rec.share.Of, _ = strconv.ParseInt(strings.TrimPrefix(fields[3], "of="), 10, 64)
	}
	switch state {
	case shareHead:
		ok = rec.share == driver.Share{}
	case shareHeld, shareBroken:
		ok = rec.share.Check() == nil
	}
	return rec, ok && driver.CheckID(rec.id) == nil && value == shareValue(state, rec.share, rec.id)
}
