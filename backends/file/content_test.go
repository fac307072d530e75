package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// pad gives the content of a file with these slots.
func pad(size int, slots ...[]byte) []byte {
	b := make([]byte, 2*size)
	for i, s := range slots {
		copy(b[i*size:], s)
	}
	return b
}

func text(seq int64, value string) []byte {
	return slot{seq: seq, keep: 1000, value: []byte(value)}.append(nil)
}

func TestParseFile(t *testing.T) {
	if got, want := string(text(1, "v")), "coord-cell 1 seq=1 keep=1000 size=1 crc=33ea22ab\nv"; got != want {
		t.Errorf("slot: %q, want %q", got, want)
	}
	cut := text(9, "newest")
	for name, tc := range map[string]struct {
		content []byte
		value   string // "" for none
		second  bool
		corrupt bool
	}{
		"no bytes":            {content: nil},
		"nothing but zeros":   {content: pad(minSlot)},
		"first only":          {content: pad(minSlot, text(1, "a")), value: "a"},
		"second is newer":     {content: pad(minSlot, text(1, "a"), text(2, "b")), value: "b", second: true},
		"first is newer":      {content: pad(minSlot, text(3, "c"), text(2, "b")), value: "c"},
		"second cut off":      {content: pad(minSlot, text(8, "a"), cut[:len(cut)-1]), value: "a"},
		"second's line cut":   {content: pad(minSlot, text(8, "a"), cut[:20]), value: "a"},
		"first cut off":       {content: pad(minSlot, cut[:len(cut)-1], text(8, "a")), value: "a", second: true},
		"larger slots":        {content: pad(4*minSlot, text(1, strings.Repeat("x", 9000))), value: strings.Repeat("x", 9000)},
		"both cut off":        {content: pad(minSlot, cut[:20], cut[:30]), corrupt: true},
		"foreign":             {content: pad(minSlot, []byte("somebody else's")), corrupt: true},
		"foreign, short":      {content: []byte("somebody else's"), corrupt: true},
		"cut short":           {content: pad(minSlot, text(1, "a"))[:minSlot], corrupt: true},
		"odd":                 {content: append(pad(minSlot, text(1, "a")), 0), corrupt: true},
		"not a power of two":  {content: pad(3*minSlot, text(1, "a")), corrupt: true},
		"too large":           {content: pad(2*maxSlot, text(1, "a")), corrupt: true},
		"another version":     {content: pad(minSlot, bytes.Replace(text(1, "a"), []byte("cell 1"), []byte("cell 2"), 1)), corrupt: true},
		"beside another":      {content: pad(minSlot, text(1, "a"), bytes.Replace(text(2, "b"), []byte("cell 1"), []byte("cell 2"), 1)), corrupt: true},
		"another beside ours": {content: pad(minSlot, []byte("coord-cell 12 x"), text(2, "b")), corrupt: true},
		"size beyond the end": {content: pad(minSlot, bytes.Replace(text(1, "a"), []byte("size=1"), []byte("size=9999"), 1)), corrupt: true},
		"damaged keep":        {content: pad(minSlot, bytes.Replace(text(1, "a"), []byte("keep=1000"), []byte("keep=9000"), 1)), corrupt: true},
	} {
		s, secondSlot, err := parseFile(tc.content)
		if errors.Is(err, driver.ErrCorrupt) != tc.corrupt || (err != nil) != tc.corrupt {
			t.Errorf("%s: error %v, want corrupt %v", name, err, tc.corrupt)
		}
		if string(s.value) != tc.value || secondSlot != tc.second {
			t.Errorf("%s: %.20q, second %v, want %.20q, %v", name, s.value, secondSlot, tc.value, tc.second)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add(text(1, "a"), text(2, "b"), true)
	f.Add(text(1, "a"), []byte{}, true)
	f.Add([]byte("coord-cell 1 seq=1 keep=1 size=0 crc=00000000\n"), []byte("\n"), true)
	f.Add([]byte("somebody else's"), []byte(nil), false)
	f.Add(text(1, "a"), []byte("coord-cell 2 seq=2 keep=1 size=0 crc=00000000\n"), true)
	f.Fuzz(func(t *testing.T, a, b []byte, padded bool) {
		content := append(bytes.Clone(a), b...)
		if padded && len(a) <= minSlot && len(b) <= minSlot {
			content = pad(minSlot, a, b)
		}
		s, secondSlot, err := parseFile(content)
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		if s.value == nil {
			return
		}
		at := content
		if secondSlot {
			at = content[len(content)/2:]
		}
		if !bytes.HasPrefix(at, s.append(nil)) {
			t.Fatalf("%q reads as %+v, which writes as %q", content, s, s.append(nil))
		}
	})
}

func reopen(t *testing.T, path string) *cell {
	t.Helper()
	c, err := openCell(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// A cell through many writes of many sizes: in place, grown, cut off.
func TestCellWrites(t *testing.T) {
	dir := t.TempDir()
	path, tmp := filepath.Join(dir, "lock,k"), filepath.Join(dir, "tmp")
	if c := reopen(t, path); c.slot.value != nil {
		t.Fatalf("no file: %+v", c.slot)
	}
	for i, size := range []int{0, 1, 100, 4000, 10, 5000, 3, 20_000, 300_000, 1, 2} {
		value := strings.Repeat(string(rune('a'+i)), size)
		if err := reopen(t, path).write([]byte(value), time.Now(), int64(i), tmp); err != nil {
			t.Fatalf("write %d bytes: %v", size, err)
		}
		c := reopen(t, path)
		if c.slot.value == nil || string(c.slot.value) != value || c.slot.keep != int64(i) || c.slot.seq != int64(i+1) {
			t.Fatalf("after a write of %d bytes: %d bytes, keep %d, seq %d", size, len(c.slot.value), c.slot.keep, c.slot.seq)
		}
	}
	if err := reopen(t, path).write(make([]byte, maxSlot), time.Now(), 0, tmp); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("huge value: %v, want ErrInvalid", err)
	}
	if _, err := os.Stat(tmp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("tmp is left: %v", err)
	}
}

// Wherever a write in place is cut off, the cell is as before or as after.
func TestCutOffWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock,k")
	for _, v := range []string{"one", "two"} {
		if err := reopen(t, path).write([]byte(v), time.Now(), 1, filepath.Join(dir, "tmp")); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := pad(minSlot, slot{seq: 3, keep: 1, value: []byte("three")}.append(nil))[:minSlot]
	for n := range 100 {
		content := bytes.Clone(before)
		copy(content, next[:n])
		s, _, err := parseFile(content)
		if err != nil || string(s.value) != "two" && string(s.value) != "three" {
			t.Fatalf("cut off after %d bytes: %q, %v", n, s.value, err)
		}
	}
}
