package file

import (
	"os"
	"sync"
	"sync/atomic"
)

// reserve is a descriptor that a store keeps for the time when there are no others:
// an update opens its cell, and a hold whose renewal cannot do that is lost. One
// update at a time uses it.
//
// Between its return to the kernel and the opening of the cell, a few
// microseconds, something else in the process may take it away. Then that update
// fails, and the reserve is filled by the next one that finds a descriptor.
type reserve struct {
	dir     string       // any file will do
	opening sync.RWMutex // excludes other updates while the reserve is exchanged
	using   sync.Mutex   // from openCell to release
	file    *os.File     // nil if there is none
	empty   atomic.Bool
}

func newReserve(dir string) *reserve {
	r := &reserve{dir: dir}
	r.empty.Store(true)
	r.fill()
	return r
}

// openCell opens a cell, with the reserve if need be. The caller calls release.
func (r *reserve) openCell(path string) (c *cell, release func(), err error) {
	r.opening.RLock()
	c, err = openCell(path)
	r.opening.RUnlock()
	if err == nil {
		r.fill()
		return c, c.close, nil
	}
	if !outOfDescriptors(err) {
		return nil, nil, err
	}
	r.using.Lock()
	if r.file == nil {
		r.using.Unlock()
		return nil, nil, err
	}
	if c, err = r.exchange(path); err != nil {
		r.empty.Store(true)
		r.using.Unlock()
		return nil, nil, err
	}
	return c, func() {
		// The descriptor of the cell becomes the reserve: nobody can take it.
		r.file = c.file
		r.empty.Store(r.file == nil)
		r.using.Unlock()
		r.fill()
	}, nil
}

// exchange gives the reserve back and opens a cell instead.
func (r *reserve) exchange(path string) (*cell, error) {
	r.opening.Lock()
	defer r.opening.Unlock()
	_ = r.file.Close() // nothing hangs on it
	r.file = nil
	return openCell(path)
}

// fill opens the reserve again if it is empty.
func (r *reserve) fill() {
	if !r.empty.Load() || !r.using.TryLock() {
		return
	}
	defer r.using.Unlock()
	if r.file == nil {
		f, err := os.Open(r.dir)
		if err != nil {
			return
		}
		r.file = f
	}
	r.empty.Store(false)
}

// close gives the descriptor back.
func (r *reserve) close() error {
	r.using.Lock()
	defer r.using.Unlock()
	r.empty.Store(false) // it stays so
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
