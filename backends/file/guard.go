package file

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/coordgo/coord/driver"
)

// guard is a file whose lock only one open guard has at a time, over all
// processes; the kernel releases it when the process ends. It is never deleted
// while the store is in use: whoever locked a deleted file would share the
// critical section with whoever locked the next one. As others may delete it all
// the same, a lock only counts if the file is still the one at its path.
//
// A guard is for one goroutine at a time.
type guard struct {
	path string
	file *os.File
}

func newGuard(path string) *guard { return &guard{path: path} }

const (
	minPause = 20 * time.Microsecond
	maxPause = time.Millisecond
	// touchEvery is how old a guard may look: a lock leaves no trace in its times,
	// and a cleaner would take a guard for unused. Much less than cleanerAge.
	touchEvery = time.Hour
)

// lock takes the lock; it gives up when ctx ends or done is closed.
func (g *guard) lock(ctx context.Context, done <-chan struct{}) error {
	return poll(ctx, done, g.tryLock)
}

// make makes the file, if it is not there.
func (g *guard) make() error {
	f, err := os.OpenFile(g.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return join(giveToOwner(f), f.Close())
}

// tryLock takes the lock if nobody has it. The file must be there.
func (g *guard) tryLock() (bool, error) {
	for {
		if g.file == nil {
			f, err := os.OpenFile(g.path, os.O_RDWR, 0)
			if err != nil {
				return false, err
			}
			g.file = f
		}
		ok, err := tryLock(g.file)
		if !ok || err != nil {
			return false, err
		}
		open, current, err := isAt(g.file, g.path)
		if current && err == nil {
			if now := time.Now(); now.Sub(open.ModTime()) > touchEvery {
				_ = setTimes(g.path, now) // if it fails, the lock holds all the same
			}
			return true, nil
		}
		if err := join(err, g.close()); err != nil { // which unlocks
			return false, err
		}
	}
}

// unlock releases the lock.
func (g *guard) unlock() error {
	if err := unlock(g.file); err != nil {
		return join(err, g.close())
	}
	return nil
}

// close closes the file.
func (g *guard) close() error {
	if g.file == nil {
		return nil
	}
	err := g.file.Close()
	g.file = nil
	return err
}

// poll calls try until it is ok or fails, with growing random pauses. It does not
// wait in the kernel: that wait could not be ended, and the process that has the
// lock may have been stopped.
func poll(ctx context.Context, done <-chan struct{}, try func() (bool, error)) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-done:
			t.Stop()
			return driver.ErrClosed
		}
	}
}

// isAt reports whether the open file is still the one at path.
func isAt(f *os.File, path string) (open fs.FileInfo, is bool, err error) {
	if open, err = f.Stat(); err != nil {
		return nil, false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return open, false, nil
	}
	return open, err == nil && os.SameFile(open, there), err
}
