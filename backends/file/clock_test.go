package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

var badClocks = []string{
	"\n", "coord-clock", "coord-clock 1 boot= offset=1 mark=1\n", "coord-clock 1 boot=a offset=1 mark=1",
	"coord-clock 1 boot=a offset=x mark=1\n", "coord-clock 1 boot=a offset=01 mark=1\n",
	"coord-clock 1 boot=a offset=1 mark=-1\n", "coord-clock 2 boot=a offset=1 mark=1\n",
	"coord-clock 1 boot=a b offset=1 mark=1\n", "coord-clock 1 boot=a offset=99999999999999999999 mark=1\n",
}

func TestParseClock(t *testing.T) {
	for _, text := range badClocks {
		if f, err := parseClock(text); !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("%q: %+v, %v, want ErrCorrupt", text, f, err)
		}
	}
	if f, err := parseClock(""); err != nil || f != (clockFile{}) {
		t.Errorf("empty: %+v, %v", f, err)
	}
}

func FuzzParseClock(f *testing.F) {
	for _, text := range badClocks {
		f.Add(text)
	}
	f.Add(clockFile{"0b-1", -7, 12}.String())
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseClock(text)
		if err != nil && !errors.Is(err, driver.ErrCorrupt) {
			t.Fatalf("error %v, want ErrCorrupt", err)
		}
		if err == nil && text != "" && c.String() != text {
			t.Fatalf("%q reads as %+v", text, c)
		}
	})
}

func clockAt(t *testing.T, dir string) (*clock, time.Time) {
	t.Helper()
	c, err := openClock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.now()
	if err != nil {
		t.Fatal(err)
	}
	return c, now
}

// near reports whether a is b, give or take what a slow machine needs.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 10*time.Second }

func TestClock(t *testing.T) {
	dir := t.TempDir()
	c, now := clockAt(t, dir)
	if !near(now, time.Now()) {
		t.Errorf("new clock: %v, want about %v", now, time.Now())
	}
	if c.boot == "" {
		t.Log("no boot id here: the store follows the wall clock")
		return
	}
	path := filepath.Join(dir, "CLOCK")
	set := func(f clockFile) {
		t.Helper()
		if err := os.WriteFile(path, []byte(f.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	day := 24 * time.Hour

	// In the same boot the clock is what the first process said, whatever the
	// wall clock says now.
	set(clockFile{c.boot, int64(c.offset - 3*day), now.Add(-3 * day).UnixMicro()})
	if _, got := clockAt(t, dir); !near(got, time.Now().Add(-3*day)) {
		t.Errorf("same boot: %v, want three days ago", got)
	}
	// After another boot it is set again, by the wall clock.
	set(clockFile{"another", 12345, now.Add(-3 * day).UnixMicro()})
	if _, got := clockAt(t, dir); !near(got, time.Now()) {
		t.Errorf("another boot: %v, want now", got)
	}
	// Unless the wall clock was set back meanwhile.
	set(clockFile{"another", 12345, now.Add(3 * day).UnixMicro()})
	if _, got := clockAt(t, dir); !near(got, time.Now().Add(3*day)) {
		t.Errorf("another boot, clock set back: %v, want in three days", got)
	}
	if err := os.WriteFile(path, []byte("somebody else's"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "damaged", second(openClock(t.Context(), dir)), driver.ErrCorrupt)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := clockAt(t, dir); !near(got, time.Now()) {
		t.Errorf("empty: %v, want now", got)
	}
}

func TestClockMark(t *testing.T) {
	dir := t.TempDir()
	c, now := clockAt(t, dir)
	if c.boot == "" {
		t.Log("no boot id here: the store follows the wall clock")
		return
	}
	mark := func() int64 {
		t.Helper()
		f, err := readClock(filepath.Join(dir, "CLOCK"))
		if err != nil {
			t.Fatal(err)
		}
		return f.mark
	}
	first := mark()
	later := now.Add(markEvery / 2)
	if err := c.advance(dir, later); err != nil || mark() != first {
		t.Errorf("half a minute later: mark %d, %v, want %d", mark(), err, first)
	}
	later = now.Add(2 * markEvery)
	g := newGuard(filepath.Join(dir, "CLOCK.guard"))
	if ok, err := g.tryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := c.advance(dir, later); err != nil || mark() != first {
		t.Errorf("while another process moves it: mark %d, %v, want %d", mark(), err, first)
	}
	if err := join(g.unlock(), g.close()); err != nil {
		t.Fatal(err)
	}
	if err := c.advance(dir, later); err != nil || mark() != later.UnixMicro() {
		t.Errorf("two minutes later: mark %d, %v, want %d", mark(), err, later.UnixMicro())
	}
}
