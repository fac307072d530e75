package limits

import (
	"encoding/binary"
	"fmt"

	"github.com/coordgo/coord/driver"
)

// The stored form is a version, a kind and then unsigned varints:
//
//	window:  last width span  slots (index n)...  records (id n at)...
//	bucket:  last debt over cap rate unit due wide blind [paid]  records (id n at)...
//
// A bucket that owes a charge beyond its burst is stored as versionCharged, with paid: code that does not
// know charges must not count on it.
// Slots and records are preceded by their number; the index of a slot is the
// distance from the one before; an id is preceded by its length.
const (
	version        = 1
	versionCharged = 2
)

// AppendBinary appends the stored form of s to b. The error is always nil.
func (s State) AppendBinary(b []byte) ([]byte, error) {
	v := byte(version)
	if s.kind == bucketed && s.paid > s.last {
		v = versionCharged
	}
	b = append(b, v, byte(s.kind))
	put := func(vs ...int64) {
		for _, v := range vs {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	switch s.kind {
	case windowed:
		used := 0
		for i := range s.slots.len() {
			if s.slots.at(i).n > 0 {
				used++
			}
		}
		put(s.last, s.width, s.span, int64(used))
		before := int64(0)
		for i := range s.slots.len() {
			if sl := s.slots.at(i); sl.n > 0 {
				put(sl.index-before, sl.n)
				before = sl.index
			}
		}
	case bucketed:
		put(s.last, s.debt, s.over, s.cap, s.rate, s.unit, s.due, s.wide, s.blind)
		if v == versionCharged {
			put(s.paid)
		}
	default:
		return b, nil
	}
	put(int64(s.records.len()))
	for i := range s.records.len() {
		r := s.records.at(i)
		put(int64(len(r.id)))
		b = append(b, r.id...)
		put(r.n, r.at)
	}
	return b, nil
}

// MarshalBinary gives the stored form of s. The error is always nil.
func (s State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary reads the stored form. Anything else is driver.ErrCorrupt and
// leaves s as it was.
func (s *State) UnmarshalBinary(b []byte) error {
	r := reader{rest: b}
	read := r.state()
	if r.err == nil && len(r.rest) > 0 {
		r.fail("bytes after the end")
	}
	if r.err != nil {
		return r.err
	}
	*s = read
	return nil
}

// reader reads the stored form. After the first error it gives zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: limit state: %s", driver.ErrCorrupt, why)
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("too short")
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// num reads a number of at most most.
func (r *reader) num(most int64) int64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("not a number")
		return 0
	}
	if v > uint64(most) {
		r.fail("number out of range")
		return 0
	}
	r.rest = r.rest[n:]
	return int64(v)
}

func (r *reader) state() (s State) {
	v := r.byte()
	if r.err == nil && v != version && v != versionCharged {
		r.fail(fmt.Sprintf("version %d: want %d or %d", v, version, versionCharged))
	}
	switch s.kind = kind(r.byte()); {
	case r.err != nil || s.kind == fresh:
		return s
	case s.kind == windowed:
		r.window(&s)
	case s.kind == bucketed:
		s.last, s.debt = r.num(maxExact), r.num(maxExact)
		s.over, s.cap = r.num(s.debt), r.num(maxExact)
		s.rate, s.unit = r.num(driver.MaxRate), r.num(driver.MaxPer.Microseconds())
		s.due, s.wide, s.blind = r.num(maxExact), r.num(maxExact), r.num(maxExact)
		if v == versionCharged {
			s.paid = r.num(maxExact)
		}
		if s.rate == 0 || s.unit == 0 {
			r.fail("no rate")
		}
	default:
		r.fail("unknown kind")
	}
	n := int(r.num(maxRecords))
	for range n {
		if r.err != nil {
			return s
		}
		s.records.push(record{id: r.text(driver.MaxID), n: r.num(driver.MaxRate), at: r.num(maxExact)})
	}
	return s
}

func (r *reader) window(s *State) {
	s.last, s.width, s.span = r.num(maxExact), r.num(driver.MaxPer.Microseconds()), r.num(driver.SubWindows)
	if s.width == 0 {
		r.fail("no width")
		return
	}
	slots := int(r.num(s.span + 1))
	current := s.last / s.width
	index := int64(0)
	for i := range slots {
		if r.err != nil {
			return
		}
		step, n := r.num(maxExact), r.num(driver.MaxRate)
		index += step
		if n == 0 || i > 0 && step == 0 || index > current || index < current-s.span {
			r.fail("slot out of range")
			return
		}
		s.slots.push(slot{index: index, n: n})
		s.sum += n
	}
}

func (r *reader) text(most int64) string {
	n := r.num(most)
	if int64(len(r.rest)) < n {
		r.fail("too short")
		return ""
	}
	t := string(r.rest[:n])
	r.rest = r.rest[n:]
	return t
}
