package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxID is the most bytes that an id has.
const MaxID = 128

// CheckID wants an id of 1 to [MaxID] bytes of printable ASCII without spaces, as every id of package coord is, so
// that it fits into a line of text. Anything else is [ErrInvalid].
func CheckID(id string) error {
	if id == "" || len(id) > MaxID || !printable(id) {
		return fmt.Errorf("%w: id %.140q: want 1 to %d bytes of printable ASCII without spaces", ErrInvalid, id, MaxID)
	}
	return nil
}

// MaxName is the most bytes that the holder name in an id has.
const MaxName = 64

// LeaderMark ends the id of a leader's hold.
const LeaderMark = "/lead"

// An id reads "name/pid/since/random": the holder's name, its process id, the
// start of the acquisition in Unix milliseconds and 128 random bits in
// hexadecimal. The name is printable ASCII without spaces. A LeaderMark may follow.

// FormatID builds an id.
func FormatID(name string, pid int, since time.Time, random [16]byte) string {
	const hex = "0123456789abcdef"
	buf := make([]byte, 0, MaxID)
	buf = append(buf, name...)
	buf = append(buf, '/')
	buf = strconv.AppendInt(buf, int64(pid), 10)
	buf = append(buf, '/')
	buf = strconv.AppendInt(buf, since.UnixMilli(), 10)
	buf = append(buf, '/')
	for _, b := range random {
		buf = append(buf, hex[b>>4], hex[b&15])
	}
	return string(buf)
}

// ParseID reads an id back. It is for showing to people: an id that coord did
// not make is refused with [ErrCorrupt].
func ParseID(id string) (name string, pid int, since time.Time, err error) {
	bad := func() (string, int, time.Time, error) {
		return "", 0, time.Time{}, fmt.Errorf("%w: id %q", ErrCorrupt, id)
	}
	if len(id) > MaxID || !printable(id) {
		return bad()
	}
	// The name may itself contain slashes: read from the right.
	rest, random, ok := cutLast(strings.TrimSuffix(id, LeaderMark))
	if !ok || len(random) != 32 || strings.Trim(random, "0123456789abcdef") != "" {
		return bad()
	}
	rest, ms, ok := cutLast(rest)
	if !ok {
		return bad()
	}
	millis, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return bad()
	}
	name, digits, ok := cutLast(rest)
	if !ok || name == "" {
		return bad()
	}
	pid, err = strconv.Atoi(digits)
	if err != nil {
		return bad()
	}
	return name, pid, time.UnixMilli(millis), nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
