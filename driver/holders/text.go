package holders

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/coordgo/coord/driver"
)

// The text has a line for the key and one for each hold, which an operator can read:
//
//	coord-shared 1 token=1763711409000123 head=1763711410000000 id=app@host/4711/1763711409000/0a…
//	held write slot=0 weight=0 of=0 ttl=30000000 token=1763711409000123 until=1763711439000000 id=app@host/4711/…
//
// head and its id are absent where there is no head. A hold is held or broken, and read, write or permits.

const header = "coord-shared 1 token="

// Append writes the record as text.
func (r *Record) Append(b []byte) []byte {
	b = strconv.AppendInt(append(b, header...), r.Token, 10)
	if r.Head.ID != "" {
		b = appendField(b, " head=", r.Head.Until)
		b = append(append(b, " id="...), r.Head.ID...)
	}
	b = append(b, '\n')
	for i := range r.Holds {
		b = r.Holds[i].append(b)
	}
	return b
}

func (h *Hold) append(b []byte) []byte {
	state := "held "
	if h.Broken {
		state = "broken "
	}
	b = append(append(b, state...), h.Share.Mode.String()...)
	b = appendField(b, " slot=", int64(h.Slot))
	b = appendField(b, " weight=", h.Share.Weight)
	b = appendField(b, " of=", h.Share.Of)
	b = appendField(b, " ttl=", h.TTL)
	b = appendField(b, " token=", h.Token)
	b = appendField(b, " until=", h.Until)
	b = append(append(b, " id="...), h.ID...)
	return append(b, '\n')
}

func appendField(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// Parse reads what Append wrote and nothing else; nil is the zero Record. Anything else is driver.ErrCorrupt.
func Parse(text []byte) (Record, error) {
	if text == nil {
		return Record{}, nil
	}
	r, ok := scan(string(text))
	if !ok || !bytes.Equal(r.Append(nil), text) {
		return Record{}, fmt.Errorf("%w: cell of shared holds %.80q", driver.ErrCorrupt, text)
	}
	return r, nil
}

// scan reads the fields. That there is nothing between or beside them is found by writing them again.
func scan(text string) (r Record, ok bool) {
	first, rest, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	if len(fields) != 3 && len(fields) != 5 || !strings.HasPrefix(first, header) {
		return r, false
	}
	if r.Token, ok = ScanInt(fields[2], "token=", 1, driver.MaxToken); !ok {
		return r, false
	}
	if len(fields) == 5 {
		var known bool
		r.Head.Until, ok = ScanInt(fields[3], "head=", 1, driver.MaxToken)
		r.Head.ID, known = scanID(fields[4])
		if !ok || !known {
			return r, false
		}
	}
	for line := range strings.Lines(rest) {
		h, ok := scanHold(strings.Fields(line))
		if !ok {
			return r, false
		}
		r.Holds = append(r.Holds, h)
	}
	return r, true
}

var modes = map[string]driver.Mode{
	driver.Read.String(): driver.Read, driver.Write.String(): driver.Write, driver.Permits.String(): driver.Permits,
}

func scanHold(fields []string) (h Hold, ok bool) {
	if len(fields) != 9 || fields[0] != "held" && fields[0] != "broken" {
		return h, false
	}
	h.Broken = fields[0] == "broken"
	if h.Share.Mode, ok = modes[fields[1]]; !ok {
		return h, false
	}
	var slot int64
	for i, field := range []struct {
		name        string
		value       *int64
		least, most int64
	}{
		{"slot=", &slot, 0, driver.MaxHolders - 1},
		{"weight=", &h.Share.Weight, 0, driver.MaxPermits},
		{"of=", &h.Share.Of, 0, driver.MaxPermits},
		{"ttl=", &h.TTL, 1, driver.MaxToken},
		{"token=", &h.Token, 1, driver.MaxToken},
		{"until=", &h.Until, 1, driver.MaxToken},
	} {
		if *field.value, ok = ScanInt(fields[2+i], field.name, field.least, field.most); !ok {
			return h, false
		}
	}
	if h.Share.Check() != nil {
		return h, false
	}
	h.Slot = int(slot)
	h.ID, ok = scanID(fields[8])
	return h, ok
}

// ScanInt reads a number from least to most behind its name.
func ScanInt(field, name string, least, most int64) (int64, bool) {
	digits, ok := strings.CutPrefix(field, name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= least && n <= most
}

func scanID(field string) (string, bool) {
	id, ok := strings.CutPrefix(field, "id=")
	return id, ok && driver.CheckID(id) == nil
}
