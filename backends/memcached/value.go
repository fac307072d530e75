package memcached

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// state is what the item of a lock says of it.
type state string

const (
	taking state = "taking" // by id, which has no token yet and so holds nothing
	held   state = "held"   // by id
	kept   state = "kept"   // nobody holds: taken until it expires all the same
)

// value is the item of a lock.
type value struct {
	state state
	token int64  // 0 while taking
	ttl   int64  // of the lease, in seconds
	until int64  // its end, Unix microseconds on the writer's clock; greater in each version
	id    string // of the hold, or of the last one
	full  string // the name, if the store key is a hash
}

const header = "coord-lock 1 "

// bytes writes the value as its line of text.
func (v value) bytes() []byte {
	b := make([]byte, 0, 256)
	b = append(b, header...)
	b = append(b, v.state...)
	for _, f := range []struct {
		name string
		n    int64
	}{{" token=", v.token}, {" ttl=", v.ttl}, {" until=", v.until}} {
		b = append(b, f.name...)
		b = strconv.AppendInt(b, f.n, 10)
	}
	b = append(b, " id="...)
	b = append(b, v.id...)
	if v.full != "" {
		b = append(b, " key="...)
		b = append(b, v.full...)
	}
	return append(b, '\n')
}

// parseValue reads what bytes wrote for the lock n, and nothing else.
func parseValue(text []byte, n name) (value, error) {
	v, ok := scanValue(string(text))
	if !ok || !bytes.Equal(v.bytes(), text) {
		return value{}, fmt.Errorf("%w: %s holds %.80q", driver.ErrCorrupt, n.key(lockKind), text)
	}
	if v.full != n.full {
		return value{}, fmt.Errorf("%w: %s is the lock of another key", driver.ErrCorrupt, n.key(lockKind))
	}
	return v, nil
}

// scanValue reads the fields. That there is nothing between or beside them is found by
// writing them again.
func scanValue(text string) (v value, ok bool) {
	text, ok = strings.CutPrefix(text, header)
	// Not strings.Fields: a name may well have spaces that are not ASCII's.
	fields := strings.Split(strings.TrimSuffix(text, "\n"), " ")
	if !ok || len(fields) != 5 && len(fields) != 6 {
		return v, false
	}
	if v.state = state(fields[0]); v.state != taking && v.state != held && v.state != kept {
		return v, false
	}
	for i, f := range []struct {
		name string
		to   *int64
		most int64
	}{{"token=", &v.token, driver.MaxToken}, {"ttl=", &v.ttl, int64(maxTTL / time.Second)}, {"until=", &v.until, driver.MaxToken}} {
		if *f.to, ok = holders.ScanInt(fields[1+i], f.name, 0, f.most); !ok {
			return v, false
		}
	}
	if (v.state == taking) != (v.token == 0) || v.ttl == 0 {
		return v, false
	}
	if v.id, ok = strings.CutPrefix(fields[4], "id="); !ok || driver.CheckID(v.id) != nil {
		return v, false
	}
	if len(fields) == 6 {
		v.full, ok = strings.CutPrefix(fields[5], "key=")
		ok = ok && v.full != ""
	}
	return v, ok
}
