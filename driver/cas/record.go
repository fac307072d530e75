package cas

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

// TokenMemory is how long the cell of a lock is kept after its lease, for the
// sake of its token.
const TokenMemory = time.Hour

type state string

const (
	held state = "held" // by id, until the lease ends
	kept state = "kept" // nobody holds: taken until then all the same
	free state = "free"
)

// record is the cell of a lock. The zero record is one that was never taken.
type record struct {
	state state
	token int64
	ttl   int64 // of the lease, in microseconds; 0 if free
	until int64 // Unix microseconds
	id    string
}

// live reports whether the key is taken at now.
func (r record) live(now int64) bool {
	return (r.state == held || r.state == kept) && now < r.until
}

// heldBy reports whether id has a live hold.
func (r record) heldBy(id string, now int64) bool {
	return r.live(now) && r.state == held && r.id == id
}

// shortened is r with a lease that ends no later than it could if the clock had not been set back: so a dead holder is in the
// way for its TTL from then on. Clocks of clients may lie apart by skew.
func (r record) shortened(now time.Time, skew time.Duration) record {
	if r.state != free {
		r.until = min(r.until, now.UnixMicro()+r.ttl+2*skew.Microseconds()+1)
	}
	return r
}

const header = "coord-lock 2 "

// append writes the record as its line of text.
func (r record) append(b []byte) []byte {
	b = append(b, header...)
	b = append(b, r.state...)
	b = append(b, " token="...)
	b = strconv.AppendInt(b, r.token, 10)
	if r.state != free {
		b = append(b, " ttl="...)
		b = strconv.AppendInt(b, r.ttl, 10)
		b = append(b, " until="...)
		b = strconv.AppendInt(b, r.until, 10)
		b = append(b, " id="...)
		b = append(b, r.id...)
	}
	return append(b, '\n')
}

// parseRecord reads what append wrote and nothing else; nil is the zero record.
func parseRecord(text []byte) (record, error) {
	if text == nil {
		return record{}, nil
	}
	r, ok := scanRecord(string(text))
	if !ok || !bytes.Equal(r.append(nil), text) {
		return record{}, fmt.Errorf("%w: lock cell %.80q", driver.ErrCorrupt, text)
	}
	return r, nil
}

// scanRecord reads the fields. That there is nothing between or beside them is
// found by writing them again.
func scanRecord(text string) (r record, ok bool) {
	text, ok = strings.CutPrefix(text, header)
	if !ok {
		return r, false
	}
	fields := strings.Fields(text)
	want := 2
	if len(fields) > 0 && fields[0] != string(free) {
		want = 5
	}
	if len(fields) != want {
		return r, false
	}
	if r.state = state(fields[0]); r.state != held && r.state != kept && r.state != free {
		return r, false
	}
	if r.token, ok = holders.ScanInt(fields[1], "token=", 1, driver.MaxToken); !ok {
		return r, false
	}
	if r.state == free {
		return r, true
	}
	// Of a TTL that is greater than any, the sum with a clock would overflow.
	if r.ttl, ok = holders.ScanInt(fields[2], "ttl=", 1, driver.MaxToken); !ok {
		return r, false
	}
	if r.until, ok = holders.ScanInt(fields[3], "until=", 1, math.MaxInt64); !ok {
		return r, false
	}
	r.id, ok = strings.CutPrefix(fields[4], "id=")
	return r, ok && driver.CheckID(r.id) == nil
}
