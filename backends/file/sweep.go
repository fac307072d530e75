package file

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Cells that are no longer needed are removed in passing. One in sweepOdds new
// cells brings a sweep of its shard, which looks at sweepSize cells: four for each
// new one, so that cells which are no longer needed cannot become more than a
// part of the others. And a process that lives longer sweeps some shard each
// tidyEvery, so that a store in which nothing new appears is cleaned, too.
const (
	sweepOdds = 32
	sweepSize = 128
	tidyEvery = time.Minute
)

// sweep removes cells that are no longer needed, of some of the shard, beginning
// anywhere. The caller has the guard: nobody else looks at the cells meanwhile.
//
// It is done in passing, for the good of all, by a call that has succeeded: a
// cell that cannot be read or removed stays, and whoever uses it gets the error.
func (sh *shard) sweep(now time.Time) (removed int) {
	d, err := os.Open(sh.dir)
	if err != nil {
		return 0
	}
	names, _ := d.Readdirnames(-1) // what was read before an error will do
	_ = d.Close()                  // it was only read
	if len(names) == 0 {
		return 0
	}
	first := rand.IntN(len(names))
	for i := range min(len(names), sweepSize) {
		name := names[(first+i)%len(names)]
		if !isCell(name) {
			continue
		}
		path := filepath.Join(sh.dir, name)
		c, err := openCell(path)
		if err != nil {
			continue
		}
		if c.slot.keep <= now.UnixMicro() && c.remove() == nil {
			removed++
		}
		c.close()
	}
	return removed
}

// tidy sweeps some shard that nobody is at, once each tidyEvery.
func (s *store) tidy(now time.Time) {
	due := s.nextTidy.Load()
	if now.UnixMicro() < due || !s.nextTidy.CompareAndSwap(due, now.Add(tidyEvery).UnixMicro()) {
		return
	}
	sh := &s.shards[rand.IntN(shards)]
	select {
	case sh.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-sh.turn }()
	if s.calls.Closed() {
		return
	}
	if ok, err := sh.guard.tryLock(); ok && err == nil {
		sh.sweep(now)
		_ = sh.guard.unlock() // see update
	}
}
