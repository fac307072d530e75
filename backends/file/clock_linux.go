package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordgo/coord/driver"
)

// clock is the machine's clock as all clients of the store see it: the time since
// boot plus an offset, which CLOCK keeps. Setting the wall clock changes nothing.
//
// Each open client keeps a shared lock on the store's directory, which keeps
// systemd-tmpfiles out of it, too. A client that
// comes while others have theirs adopts the offset in CLOCK, whatever it can find
// out about the boot: the locks prove that it is the same. A client that comes
// alone keeps the offset if CLOCK is of this boot. Otherwise it sets the clock by
// the wall clock, but never to before the mark: the machine may come up with its
// wall clock set back.
//
// A kernel that hides its boot id has the clock set by each client that comes alone.
type clock struct {
	dir    string
	alive  *os.File // the directory, locked
	boot   string
	shift  time.Duration // of this process's time namespace
	offset time.Duration
	mark   atomic.Int64 // Unix microseconds, as last read or written
}

const (
	// markEvery is how far the clock runs until the mark follows: the most by
	// which the clock can go back over a restart.
	markEvery = time.Minute
	// hiddenBoot stands in CLOCK for a boot id that could not be read.
	hiddenBoot = "hidden"
)

// now reads the clock.
func (c *clock) now() (time.Time, error) {
	up, err := sinceBoot()
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(0, int64(up-c.shift+c.offset)), nil
}

// openClock joins the clients of the store in dir and reads its clock. The caller
// closes it.
func openClock(ctx context.Context, dir string) (*clock, error) {
	shift, err := bootShift()
	if err != nil {
		return nil, err
	}
	c := &clock{dir: dir, boot: bootID(), shift: shift}
	if err := poll(ctx, nil, c.join); err != nil {
		return nil, join(err, c.close())
	}
	return c, nil
}

// join takes the shared lock and reads the clock. It is not ok while somebody has
// the exclusive lock: a client that sets the clock, or a cleaner of old files.
func (c *clock) join() (ok bool, err error) {
	if c.alive == nil {
		if c.alive, err = os.Open(c.dir); err != nil {
			return false, err
		}
	}
	alone, err := tryLock(c.alive)
	if err != nil {
		return false, err
	}
	if alone {
		if err := c.start(); err != nil {
			return false, err
		}
	}
	// The exclusive lock does not become a shared one in one step: CLOCK is read
	// after it, because another client may have been alone in between.
	if ok, err := tryLockShared(c.alive); !ok || err != nil {
		return false, err
	}
	if current, err := c.current(c.dir); !current || err != nil {
		return false, join(err, c.close())
	}
	return true, c.adopt()
}

// start makes CLOCK say the time of this boot. The caller is alone in the store.
func (c *clock) start() error {
	f, err := readClock(c.path())
	if errors.Is(err, driver.ErrCorrupt) {
		return fmt.Errorf("%w: no other client is open: remove the file to set the clock anew", err)
	}
	if err != nil || f.boot == c.boot && c.boot != hiddenBoot {
		return err
	}
	up, err := sinceBoot()
	if err != nil {
		return err
	}
	now := max(time.Now().UnixNano(), f.mark*int64(time.Microsecond))
	return c.write(clockFile{boot: c.boot, offset: now - int64(up-c.shift), mark: now / int64(time.Microsecond)})
}

// adopt takes over what CLOCK says.
func (c *clock) adopt() error {
	f, err := readClock(c.path())
	if err == nil && f == (clockFile{}) {
		err = fmt.Errorf("%w: %s is missing or empty", driver.ErrCorrupt, c.path())
	}
	if errors.Is(err, driver.ErrCorrupt) {
		return fmt.Errorf("%w, and another client is open, whose clock is not known: close it, or let it lock something and try again", err)
	}
	if err != nil {
		return err
	}
	c.boot, c.offset = f.boot, time.Duration(f.offset)
	c.mark.Store(f.mark)
	now, err := c.now()
	if err == nil && now.UnixMicro() < f.mark {
		err = fmt.Errorf("%w: the clock of %s is %v behind here: a process in a time namespace must be able to read /proc/self/timens_offsets",
			driver.ErrUnsupported, c.dir, time.UnixMicro(f.mark).Sub(now))
	}
	return err
}

// restore writes CLOCK if it no longer says what this client adopted: somebody has
// deleted or damaged it. One of another version stays. As long as a client is open, its clock is the store's.
func (c *clock) restore() error {
	f, err := readClock(c.path())
	if err == nil && f.boot == c.boot && f.offset == int64(c.offset) {
		return nil
	}
	if err != nil && !errors.Is(err, driver.ErrCorrupt) || errors.Is(err, errClockVersion) {
		return err
	}
	return c.write(c.content())
}

// lags reports whether the mark is to move to now. It is true once for each mark.
func (c *clock) lags(now time.Time) bool {
	mark := c.mark.Load()
	return now.UnixMicro()-mark >= markEvery.Microseconds() && c.mark.CompareAndSwap(mark, now.UnixMicro())
}

// writeMark writes the mark. It does not matter if that fails: the clock may go
// back further after a restart, and the next minute tries again.
func (c *clock) writeMark() {
	if err := c.restore(); err != nil {
		return
	}
	// Only the digits of the mark change, in place: this works on a full disk.
	f, err := os.OpenFile(c.path(), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt([]byte(c.content().String()), 0)
	_ = f.Close()
}

// current reports whether the locked directory is still the one at dir.
func (c *clock) current(dir string) (bool, error) {
	_, is, err := isAt(c.alive, dir)
	return is, err
}

// close leaves the clients of the store.
func (c *clock) close() error {
	if c.alive == nil {
		return nil
	}
	err := join(unlock(c.alive), c.alive.Close())
	c.alive = nil
	return err
}

// tryLockShared locks f together with others that do, in place of a lock it has.
func tryLockShared(f *os.File) (bool, error) { return tryFlock(f, unix.LOCK_SH) }

// content is what CLOCK ought to say.
func (c *clock) content() clockFile {
	return clockFile{boot: c.boot, offset: int64(c.offset), mark: c.mark.Load()}
}

func (c *clock) path() string { return filepath.Join(c.dir, "CLOCK") }

func (c *clock) write(f clockFile) error { return replaceFile(c.dir, "CLOCK", f.String()) }

// clockFile is the content of CLOCK.
type clockFile struct {
	boot   string
	offset int64 // nanoseconds
	mark   int64 // Unix microseconds
}

// clockForm gives texts of one length for all marks.
const clockForm = "coord-clock 1 boot=%s offset=%d mark=%016d\n"

func (f clockFile) String() string { return fmt.Sprintf(clockForm, f.boot, f.offset, f.mark) }

var errClockVersion = fmt.Errorf("%w: clock of another version", driver.ErrCorrupt)

// parseClock reads what String wrote: numbers that do not parse are found when the
// text is written again. A file that is empty, or full of zero bytes, is what a
// crash may leave of a new one, and counts as none.
func parseClock(text string) (f clockFile, err error) {
	if strings.Trim(text, "\x00") == "" {
		return clockFile{}, nil
	}
	if otherVersion([]byte(text), "coord-clock") {
		return clockFile{}, fmt.Errorf("%w: %.80q", errClockVersion, text)
	}
	fields := strings.Split(strings.TrimSuffix(text, "\n"), " ")
	if len(fields) == 5 {
		f.boot = strings.TrimPrefix(fields[2], "boot=")
		f.offset, _ = strconv.ParseInt(strings.TrimPrefix(fields[3], "offset="), 10, 64)
		f.mark, _ = strconv.ParseInt(strings.TrimPrefix(fields[4], "mark="), 10, 64)
	}
	if f.boot == "" || f.mark < 0 || f.String() != text {
		return clockFile{}, fmt.Errorf("%w: clock %.80q", driver.ErrCorrupt, text)
	}
	return f, nil
}

func readClock(path string) (clockFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return clockFile{}, nil
	}
	if err != nil {
		return clockFile{}, err
	}
	f, err := parseClock(string(text))
	if err != nil {
		return clockFile{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}
