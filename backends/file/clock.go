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

	"github.com/coordgo/coord/driver"
)

// clock is the machine's clock as all processes see it: the time since boot plus
// an offset, the Unix time of the boot, that the first process after a boot
// writes into the file CLOCK. Setting the wall clock later changes nothing, and
// if the machine comes up with its clock set back, the store's clock goes on from
// the mark that was left behind, not from before it.
//
// Where the kernel does not name its boot, the store follows the wall clock.
type clock struct {
	boot   string
	shift  time.Duration // of this process's time namespace
	offset time.Duration
	mark   atomic.Int64 // as last read or written, Unix microseconds
}

// markEvery is how far the clock runs until the mark follows: the most by which
// the clock can go back over a restart.
const markEvery = time.Minute

// now reads the clock.
func (c *clock) now() (time.Time, error) {
	if c.boot == "" {
		return time.Now().Round(0), nil
	}
	up, err := sinceBoot()
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(0, int64(up-c.shift+c.offset)), nil
}

// clockFile is the content of CLOCK.
type clockFile struct {
	boot   string
	offset int64 // nanoseconds
	mark   int64 // Unix microseconds
}

const clockForm = "coord-clock 1 boot=%s offset=%d mark=%d\n"

func (f clockFile) String() string { return fmt.Sprintf(clockForm, f.boot, f.offset, f.mark) }

// parseClock reads what String wrote: numbers that do not parse are found when the
// text is written again. An empty file is one that a power failure
// left.
func parseClock(text string) (f clockFile, err error) {
	if text == "" {
		return clockFile{}, nil
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

// write replaces the file. It need not survive a power failure: the next boot
// starts a clock of its own.
func (f clockFile) write(path string) error {
	return writeFile(path, path+".tmp", func(file *os.File) error {
		_, err := file.WriteString(f.String())
		return err
	})
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

// openClock reads the clock of this boot, or starts it.
func openClock(ctx context.Context, dir string) (*clock, error) {
	boot, err := bootID()
	if err != nil || boot == "" {
		return &clock{}, err
	}
	shift, err := bootShift()
	if err != nil {
		return nil, err
	}
	c := &clock{boot: boot, shift: shift}
	path := filepath.Join(dir, "CLOCK")
	f, err := readClock(path)
	if err != nil {
		return nil, err
	}
	if f.boot != boot {
		if f, err = c.start(ctx, path); err != nil {
			return nil, err
		}
	}
	c.offset = time.Duration(f.offset)
	c.mark.Store(f.mark)
	return c, nil
}

// start sets the clock for this boot, unless another process just did.
func (c *clock) start(ctx context.Context, path string) (f clockFile, err error) {
	g := newGuard(path + ".guard")
	if err := g.lock(ctx, nil); err != nil {
		return f, err
	}
	defer func() { err = join(join(err, g.unlock()), g.close()) }()
	if f, err = readClock(path); err != nil || f.boot == c.boot {
		return f, err
	}
	up, err := sinceBoot()
	if err != nil {
		return f, err
	}
	now := max(time.Now().UnixNano(), f.mark*int64(time.Microsecond))
	f = clockFile{boot: c.boot, offset: now - int64(up-c.shift), mark: now / int64(time.Microsecond)}
	return f, f.write(path)
}

// advance moves the mark to now once it lags. One process at a time does it, and
// the others go on.
func (c *clock) advance(dir string, now time.Time) (err error) {
	if c.boot == "" || now.UnixMicro()-c.mark.Load() < markEvery.Microseconds() {
		return nil
	}
	path := filepath.Join(dir, "CLOCK")
	g := newGuard(path + ".guard")
	ok, err := g.tryLock()
	if err != nil || !ok {
		return join(err, g.close())
	}
	defer func() { err = join(join(err, g.unlock()), g.close()) }()
	f, err := readClock(path)
	if err != nil || f.boot != c.boot {
		return err
	}
	if f.mark < now.UnixMicro() {
		f.mark = now.UnixMicro()
		if err := f.write(path); err != nil {
			return err
		}
	}
	c.mark.Store(f.mark)
	return nil
}
