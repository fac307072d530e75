package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/coordgo/coord/driver"
)

// A cell's file has two slots of one size, and each write goes to the slot that is
// not current: a write that is cut off, by kill -9 or by a power failure, leaves
// the other. A slot is one line, the value, and zeros:
//
//	coord-cell 1 seq=3 keep=1763711439000000 size=97 crc=0a1b2c3d
//
// The current slot is the valid one with the greater seq; beside a slot of another
// version there is none. keep is until when the
// cell is needed, in Unix microseconds of the machine's clock; crc is the CRC-32
// (Castagnoli) of the line before it and of the value.
//
// Writing in place is what makes the store fast: to rename a new file over the
// old one at each write makes ext4, among others, start writing it to the disk
// before the rename returns.
const slotForm = "coord-cell 1 seq=%d keep=%d size=%d crc="

const (
	minSlot = 4096
	maxSlot = 1 << 20 // more than any value needs
	maxLine = 128     // more than any first line has
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// slot is the content of one slot. The zero slot is an empty one.
type slot struct {
	seq   int64
	keep  int64
	value []byte
}

// appendLine writes the first line of the slot.
func (s slot) appendLine(b []byte) []byte {
	start := len(b)
	b = fmt.Appendf(b, slotForm, s.seq, s.keep, len(s.value))
	crc := crc32.Update(crc32.Checksum(b[start:], castagnoli), castagnoli, s.value)
	return fmt.Appendf(b, "%08x\n", crc)
}

// append writes the slot, without the zeros.
func (s slot) append(b []byte) []byte { return append(s.appendLine(b), s.value...) }

// parseSlot reads what append wrote. What it cannot read, zeros and a write that
// was cut off among it, is not ok.
func parseSlot(b []byte) (s slot, ok bool) {
	line, _, found := bytes.Cut(b[:min(len(b), maxLine)], []byte("\n"))
	fields := bytes.Split(line, []byte(" "))
	if !found || len(fields) != 6 {
		return slot{}, false
	}
	s.seq, _ = scanInt(fields[2], "seq=")
	s.keep, _ = scanInt(fields[3], "keep=")
	size, _ := scanInt(fields[4], "size=")
	value := b[len(line)+1:]
	if s.seq < 1 || size < 0 || size > int64(len(value)) {
		return slot{}, false
	}
	s.value = value[:size:size]
	// What did not parse is found here, with all other damage.
	var buf [maxLine]byte
	return s, bytes.Equal(s.appendLine(buf[:0]), b[:len(line)+1])
}

func scanInt(field []byte, name string) (int64, error) {
	return strconv.ParseInt(string(bytes.TrimPrefix(field, []byte(name))), 10, 64)
}

// parseFile reads the content of a cell's file: the current slot and where it is.
// A file without anything in it is what a power failure leaves of a new one, and
// counts as none.
func parseFile(content []byte) (s slot, second bool, err error) {
	half := len(content) / 2
	if otherVersion(content, "coord-cell") || otherVersion(content[half:], "coord-cell") {
		return slot{}, false, fmt.Errorf("%w: cell of another version", driver.ErrCorrupt)
	}
	if len(content) > 0 && !slotSize(half) || len(content)%2 != 0 {
		return slot{}, false, fmt.Errorf("%w: cell of %d bytes", driver.ErrCorrupt, len(content))
	}
	a, okA := parseSlot(content[:half])
	b, okB := parseSlot(content[half:])
	switch {
	case okB && (!okA || b.seq > a.seq):
		return b, true, nil
	case okA:
		return a, false, nil
	case len(bytes.Trim(content, "\x00")) > 0:
		return slot{}, false, fmt.Errorf("%w: cell that begins %.60q", driver.ErrCorrupt, content)
	}
	return slot{}, false, nil
}

// otherVersion reports whether text is a form of ours, of another version than 1. What is cut off is not.
func otherVersion(text []byte, form string) bool {
	rest, ours := bytes.CutPrefix(text[:min(len(text), maxLine)], []byte(form+" "))
	version, _, whole := bytes.Cut(rest, []byte(" "))
	return ours && whole && string(version) != "1"
}

// slotSize reports whether a slot can have n bytes: a power of two.
func slotSize(n int) bool { return n >= minSlot && n <= maxSlot && n&(n-1) == 0 }

// cell is an open cell.
type cell struct {
	path   string
	file   *os.File // nil if there is none
	slot   slot     // the current one; its value is nil if there is none
	second bool     // where it is
	size   int      // of a slot
}

// openCell opens and reads a cell. The caller closes it.
func openCell(path string) (*cell, error) {
	c := &cell{path: path, size: minSlot}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.file = f
	if err := c.read(); err != nil {
		return nil, join(err, f.Close())
	}
	return c, nil
}

func (c *cell) read() error {
	content := make([]byte, 2*minSlot, 2*minSlot+1)
	n, err := io.ReadFull(c.file, content)
	content = content[:n]
	if err == nil { // there may be more
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(c.file, 2*maxSlot))
		content = append(content, rest...)
	}
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if c.slot, c.second, err = parseFile(content); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.size = max(minSlot, len(content)/2)
	return nil
}

// cleanerAge is less than the age at which any cleaner of old files removes one:
// macOS waits for three days, systemd-tmpfiles and tmpreaper for a week and more.
const cleanerAge = 24 * time.Hour

// write makes value the content of the cell, which is needed until keep. After an
// error it is as it was.
func (c *cell) write(value []byte, now time.Time, keep int64, tmp string) error {
	if err := c.put(value, keep, tmp); err != nil {
		return err
	}
	if d := time.UnixMicro(keep).Sub(now); d > cleanerAge {
		// Dated in the future, it is not old before it is needed no longer. If
		// that fails, the value stands.
		_ = setTimes(c.path, time.Now().Add(d))
	}
	return nil
}

// setTimes dates a file for cleaners of old files.
func setTimes(path string, t time.Time) error { return os.Chtimes(path, t, t) }

func (c *cell) put(value []byte, keep int64, tmp string) error {
	next := slot{seq: c.slot.seq + 1, keep: keep, value: value}
	b := next.append(make([]byte, 0, minSlot))
	used := len(b)
	if c.slot.value == nil || used > c.size {
		return c.create(b, tmp)
	}
	b = append(b, make([]byte, c.size-used)...)
	at := int64(c.size)
	if c.second {
		at = 0
	}
	n, err := c.file.WriteAt(b, at)
	if err != nil && n < used { // behind it there are only zeros
		return err
	}
	return nil
}

// create makes a new file, with b in its first slot, by way of tmp, and replaces
// the cell by it in one step. Only one process at a time uses tmp.
//
// Both slots are written, so that the file system has room for them: a hold can be
// renewed and released on a disk that is full.
func (c *cell) create(b []byte, tmp string) error {
	size := c.size
	for size < len(b) {
		size *= 2
	}
	if size > maxSlot {
		return fmt.Errorf("%w: value of %d bytes: want at most %d", driver.ErrInvalid, len(b), maxSlot)
	}
	// One may be left of a process that was killed. O_EXCL follows no link.
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, make([]byte, 2*size-len(b))...))
	err = join(join(err, giveToOwner(f)), f.Close())
	if err == nil {
		err = os.Rename(tmp, c.path)
	}
	if err != nil {
		return join(err, os.Remove(tmp))
	}
	return nil
}

// remove deletes the cell.
func (c *cell) remove() error {
	if c.file == nil {
		return nil
	}
	return os.Remove(c.path)
}

// close closes the file. Nothing that was written hangs on it: a later reader on
// this machine sees it already.
func (c *cell) close() {
	if c.file != nil {
		_ = c.file.Close()
	}
}

// keepUntil is the moment keep from now, rounded up to a microsecond.
func keepUntil(now time.Time, keep time.Duration) int64 {
	return now.Add(keep).UnixMicro() + 1
}
