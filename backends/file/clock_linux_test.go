package file

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

var badClocks = []string{
	"\n", "coord-clock", "coord-clock 1 boot= offset=1 mark=0000000000000001\n", "coord-clock 1 boot=a offset=1 mark=0000000000000001", "coord-clock 1 boot=a offset=1 mark=1\n",
	"coord-clock 1 boot=a offset=x mark=0000000000000001\n", "coord-clock 1 boot=a offset=01 mark=0000000000000001\n",
	"coord-clock 1 boot=a offset=1 mark=-000000000000001\n", "coord-clock 2 boot=a offset=1 mark=0000000000000001\n",
	"coord-clock 1 boot=a b offset=1 mark=0000000000000001\n",
	"coord-clock 1 boot=a offset=99999999999999999999 mark=0000000000000001\n",
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
		if err == nil && strings.Trim(text, "\x00") != "" && c.String() != text {
			t.Fatalf("%q reads as %+v", text, c)
		}
	})
}

// clockAt opens and closes the clock of a store, as a client does that is alone.
func clockAt(t *testing.T, dir string) (*clock, time.Time) {
	t.Helper()
	c, err := openClock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.now()
	if err := join(err, c.close()); err != nil {
		t.Fatal(err)
	}
	return c, now
}

func setClock(t *testing.T, dir, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "CLOCK"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// near reports whether a is b, as days go.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < time.Hour }

const day = 24 * time.Hour

func TestClock(t *testing.T) {
	dir := t.TempDir()
	c, now := clockAt(t, dir)
	if !near(now, time.Now()) {
		t.Errorf("new clock: %v, want about %v", now, time.Now())
	}
	behind := clockFile{c.boot, int64(c.offset - 3*day), now.Add(-3 * day).UnixMicro()}.String()
	if c.boot != hiddenBoot {
		// In the same boot the clock is what the first client said, whatever the
		// wall clock says now.
		setClock(t, dir, behind)
		if _, got := clockAt(t, dir); !near(got, time.Now().Add(-3*day)) {
			t.Errorf("same boot: %v, want three days ago", got)
		}
	}
	// After another boot it is set again, by the wall clock.
	for _, boot := range []string{"another", hiddenBoot} {
		setClock(t, dir, clockFile{boot, 12345, now.Add(-3 * day).UnixMicro()}.String())
		if _, got := clockAt(t, dir); !near(got, time.Now()) {
			t.Errorf("boot %s: %v, want now", boot, got)
		}
	}
	// Unless the wall clock was set back meanwhile.
	setClock(t, dir, clockFile{"another", 12345, now.Add(3 * day).UnixMicro()}.String())
	if _, got := clockAt(t, dir); !near(got, time.Now().Add(3*day)) {
		t.Errorf("another boot, clock set back: %v, want in three days", got)
	}
	setClock(t, dir, "somebody else's")
	_, err := openClock(t.Context(), dir)
	wantErr(t, "damaged", err, driver.ErrCorrupt)
	if err != nil && !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("damaged: %v, want it to say what to do", err)
	}
	for name, content := range map[string]string{"empty": "", "zero bytes, as a crash leaves them": strings.Repeat("\x00", 95)} {
		setClock(t, dir, content)
		if _, got := clockAt(t, dir); !near(got, time.Now()) {
			t.Errorf("%s: %v, want now", name, got)
		}
	}
}

// While a client is open, its clock is the store's.
func TestClockOfOpenClients(t *testing.T) {
	dir := t.TempDir()
	first, now := clockAt(t, dir)
	behind := clockFile{first.boot, int64(first.offset - 3*day), now.Add(-3 * day).UnixMicro()}
	setClock(t, dir, behind.String())
	s := openedBy(t, dir, first.boot)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	put(t, s, n, "v", time.Hour)

	adopts := func(what string) {
		t.Helper()
		c, err := openClock(t.Context(), dir)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		got, err := c.now()
		if err = join(err, c.close()); err != nil || !near(got, time.Now().Add(-3*day)) {
			t.Errorf("%s: %v, %v, want three days ago", what, got, err)
		}
	}
	adopts("a second client")
	setClock(t, dir, clockFile{"another", behind.offset, behind.mark}.String())
	adopts("a second client that finds another boot id")

	path := filepath.Join(dir, "CLOCK")
	for name, content := range map[string]string{"deleted": "", "damaged": "somebody else's"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			setClock(t, dir, content)
		}
		_, err := openClock(t.Context(), dir)
		wantErr(t, name, err, driver.ErrCorrupt)
		if err != nil && !strings.Contains(err.Error(), "close it") {
			t.Errorf("%s: %v, want it to say what to do", name, err)
		}
		// The client notices with an update, a minute after the last mark.
		s.clock.Load().mark.Add(-2 * markEvery.Microseconds())
		put(t, s, n, "v", time.Hour)
		adopts(name + " and restored")
	}
	setClock(t, dir, clockFile{first.boot, behind.offset, now.Add(day).UnixMicro()}.String())
	_, err := openClock(t.Context(), dir)
	wantErr(t, "behind the mark", err, driver.ErrUnsupported)
}

// A clock of another version is refused, and stays under clients that are open.
func TestClockOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	n := cas.Name{Kind: cas.Lock, Key: "k"}
	put(t, s, n, "v", time.Hour)
	const other = "coord-clock 2 somebody's of tomorrow\n"
	setClock(t, dir, other)
	_, err := openClock(t.Context(), dir)
	wantErr(t, "a second client", err, driver.ErrCorrupt)
	s.clock.Load().mark.Add(-2 * markEvery.Microseconds())
	put(t, s, n, "v", time.Hour)
	if text, err := os.ReadFile(filepath.Join(dir, "CLOCK")); err != nil || string(text) != other {
		t.Errorf("CLOCK: %q, %v, want it left", text, err)
	}
}

// systemd-tmpfiles leaves a directory alone that it cannot lock.
func TestOpenClientKeepsCleanersOut(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	cleaner, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := tryLock(cleaner); ok || err != nil {
		t.Errorf("lock of the directory of an open store: %v, %v, want it refused", ok, err)
	}
	wantErr(t, "Close", cleaner.Close(), nil)
}

// openedBy opens the store, whose CLOCK is of the boot.
func openedBy(t *testing.T, dir, boot string) *store {
	t.Helper()
	if boot == hiddenBoot {
		t.Skip("unsupported: the kernel's boot id cannot be read here")
	}
	return newStore(t, dir)
}

func TestClockMark(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	now, err := s.clock.Load().now()
	if err != nil {
		t.Fatal(err)
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
	s.advance(time.UnixMicro(first).Add(markEvery / 2))
	if mark() != first {
		t.Errorf("half a minute later: mark %d, want %d", mark(), first)
	}
	later := now.Add(2 * markEvery)
	if s.advance(later); mark() != later.UnixMicro() {
		t.Errorf("two minutes later: mark %d, want %d", mark(), later.UnixMicro())
	}
}

// A store whose clock was an hour ahead, and whose CLOCK somebody removed: what died then is in nobody's way for the hour.
func TestStoreOfAClockThatWasAhead(t *testing.T) {
	dir := t.TempDir()
	old, now := clockAt(t, dir)
	if err := old.close(); err != nil {
		t.Fatal(err)
	}
	setClock(t, dir, clockFile{"another", 0, now.Add(time.Hour).UnixMicro()}.String())
	l, err := driver.Limit{Rate: 10, Per: time.Second}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	all := driver.Ask{Min: 10, N: 10}
	dead, next := request("dead", 50*time.Millisecond), request("next", 50*time.Millisecond)
	dead.Share, next.Share = driver.Share{Mode: driver.Write}, driver.Share{Mode: driver.Write}
	ahead, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	takes := func(b driver.Backend, r driver.Request) map[string]func() (driver.Grant, error) {
		return map[string]func() (driver.Grant, error){
			"a lock":        func() (driver.Grant, error) { return b.TryLock(t.Context(), "k", r) },
			"a shared hold": func() (driver.Grant, error) { return b.Shared().TryLock(t.Context(), "k", r) },
			"a limit": func() (driver.Grant, error) {
				one, err := b.TakeOne(t.Context(), "k", l, all)
				if err == nil && one.N == 0 {
					err = driver.ErrLocked
				}
				return driver.Grant{}, err
			},
		}
	}
	before := make(map[string]driver.Grant)
	for what, take := range takes(ahead, dead) {
		if before[what], err = take(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if err := ahead.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "CLOCK")); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for what, take := range takes(newBackend(t, dir), next) {
		g, err := take()
		for ; errors.Is(err, driver.ErrLocked); g, err = take() {
			if time.Since(start) > time.Minute {
				t.Fatalf("%s: %v after a minute", what, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil || g.Token < before[what].Token || g.Token == before[what].Token && what != "a limit" {
			t.Errorf("%s: %+v after %+v, %v", what, g, before[what], err)
		}
	}
}

// sandboxRole is a client that cannot find out which boot this is, or that is told
// another one, as in a container. The clock of the store is three days behind the
// wall clock, and k is held.
func sandboxRole(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	const id = "/proc/sys/kernel/random/boot_id"
	if os.Getenv("COORD_FILE_BOOT") == "hidden" {
		if err := unix.Mount("none", "/proc/sys", "tmpfs", 0, ""); err != nil {
			return err
		}
	} else if err := unix.Mount(filepath.Join(dir, "..", "boot_id"), id, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	b, err := New(dir)
	if err != nil {
		return err
	}
	_, err = b.TryLock(context.Background(), "k", request("sandbox", time.Hour))
	return join(expect(err, driver.ErrLocked), b.Close())
}

func init() { roles["sandbox"] = sandboxRole }

func TestClientsInSandboxes(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	dir := filepath.Join(top, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "boot_id"), []byte("01234567-89ab-cdef-0123-456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, now := clockAt(t, dir)
	setClock(t, dir, clockFile{first.boot, int64(first.offset - 3*day), now.Add(-3 * day).UnixMicro()}.String())
	openedBy(t, dir, first.boot)
	b := newBackend(t, dir)
	wantErr(t, "TryLock", second(b.TryLock(t.Context(), "k", request("a", time.Hour))), nil)
	for _, boot := range []string{"hidden", "another"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "COORD_FILE_ROLE=sandbox", "COORD_FILE_DIR="+dir, "COORD_FILE_BOOT="+boot)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("boot id %s: %v: %s", boot, err, out)
		}
	}
	// Nor do those outside notice anything.
	wantErr(t, "Renew", second(b.Renew(t.Context(), "k", request("a", time.Hour))), nil)
	wantErr(t, "TryLock of the next", second(newBackend(t, dir).TryLock(t.Context(), "k", request("b", time.Hour))), driver.ErrLocked)
}
