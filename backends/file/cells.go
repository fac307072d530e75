package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/cas"
)

// shards is the number of directories of cells, each with a guard of its own,
// so that keys seldom contend. It is part of the format.
const shards = 64

// store is the cells in a directory.
type store struct {
	dir      string
	sharedFS func(string) (string, error)
	settling sync.Mutex // around settle
	clock    atomic.Pointer[clock]
	pinging  chan struct{} // full while a Ping is under way
	calls    *call.Calls
	shards   [shards]shard
	nextTidy atomic.Int64 // Unix microseconds

	// inside is called in the critical section, by tests.
	inside func(name string)
}

// shard is one directory of cells.
type shard struct {
	dir string
	// turn is full while a goroutine of this process is at the shard: the
	// others wait their turn here and leave the guard to other processes.
	turn  chan struct{}
	guard *guard
	// known is the guard's file when the clock was read last.
	known *os.File
}

// openStore opens the store within ctx. One that is open too late is closed again.
func openStore(ctx context.Context, dir string, sharedFS func(string) (string, error)) (*store, error) {
	calls := call.New(call.Options{ErrClosing: errClosing, Grace: grace})
	s, left, err := call.DoSend(ctx, calls, func(*call.Call) (*store, error) { return makeStore(ctx, dir, sharedFS, calls) }, func(s *store, err error) {
		if err == nil {
			_ = s.Close() // nobody is there who would be told
		}
	})
	if left {
		err = noAnswer(err)
	}
	return s, err
}

func makeStore(ctx context.Context, dir string, sharedFS func(string) (string, error), calls *call.Calls) (*store, error) {
	s := &store{dir: filepath.Clean(dir), sharedFS: sharedFS, calls: calls, pinging: make(chan struct{}, 1)}
	if err := settle(dir, sharedFS); err != nil {
		return nil, fmt.Errorf("file store: %w", err)
	}
	if err := s.settle(ctx); err != nil {
		return nil, fmt.Errorf("file store: %w", err)
	}
	for i := range s.shards {
		d := filepath.Join(s.dir, "cells", fmt.Sprintf("%02x", i))
		s.shards[i] = shard{dir: d, turn: make(chan struct{}, 1), guard: newGuard(filepath.Join(d, "guard"))}
	}
	now, err := s.clock.Load().now()
	if err != nil {
		return nil, fmt.Errorf("file store: %w", join(err, s.clock.Load().close()))
	}
	s.nextTidy.Store(now.Add(tidyEvery).UnixMicro())
	return s, nil
}

// Update makes one change. Its own errors come before the change takes effect,
// which it does in one step: the outcome is unknown only if ctx ended while the
// file system did not answer.
func (s *store) Update(ctx context.Context, name cas.Name, fn cas.Func) error {
	whole := wholeName(name)
	file := cutName(whole)
	if len(whole) > maxName {
		fn = withName(whole, fn)
	}
	sh := &s.shards[shardOf(file)]
	u := &update{sh: sh, file: file, fn: fn}
	left, err := s.inTurn(ctx, sh.turn, func(in *call.Call) error {
		u.in = in
		now, err := s.update(ctx, u)
		if err == nil {
			s.advance(now)
			s.tidy(now)
		}
		return err
	})
	if left {
		u.stop()
	} else if u.panicked != nil {
		panic(u.panicked)
	}
	return err
}

// update runs the critical section.
func (s *store) update(ctx context.Context, u *update) (now time.Time, err error) {
	sh := u.sh
	err = s.lockGuard(ctx, sh)
	if errors.Is(err, fs.ErrNotExist) {
		if now, writes, err := s.absent(u); !writes {
			return now, err
		}
		if err = s.makeShard(ctx, sh); err == nil {
			err = s.lockGuard(ctx, sh)
		}
	}
	if err != nil {
		return now, driver.NotSent(err)
	}
	// If the kernel refuses to unlock, closing the file has unlocked it, and the
	// next lock opens it again: the change stands.
	defer func() { _ = sh.guard.unlock() }()
	now, sweep, err := s.change(u)
	if sweep {
		sh.sweep(now)
	}
	return now, err
}

// absent decides on a cell that is not there, and neither is its guard: what is only
// read makes no files. What is to be written is decided on again.
func (s *store) absent(u *update) (now time.Time, writes bool, err error) {
	if _, err := os.Lstat(filepath.Join(u.sh.dir, u.file)); !errors.Is(err, fs.ErrNotExist) {
		return now, true, nil // somebody removed the guard alone
	}
	if now, err = s.clock.Load().now(); err != nil {
		return now, false, driver.NotSent(err)
	}
	change, err := u.decide(nil, now)
	return now, err == nil && change.Write && change.Value != nil, err
}

// change makes the change. sweep says that the shard is due for a sweep.
func (s *store) change(u *update) (now time.Time, sweep bool, err error) {
	// The clock is read inside: whoever comes later sees a later time.
	if now, err = s.clock.Load().now(); err != nil {
		return now, false, driver.NotSent(err)
	}
	c, err := openCell(filepath.Join(u.sh.dir, u.file))
	if err != nil {
		return now, false, driver.NotSent(err)
	}
	defer c.close()
	if s.inside != nil {
		s.inside(u.file)
	}
	change, err := u.decide(c.slot.value, now)
	switch {
	case err != nil || !change.Write:
		return now, false, err
	case !u.in.Send():
		return now, false, driver.ErrNotSent
	case change.Value == nil:
		err = c.remove()
	default:
		err = c.write(change.Value, now, keepUntil(now, change.Keep), filepath.Join(u.sh.dir, "tmp"))
	}
	if err != nil {
		return now, false, driver.NotSent(err)
	}
	return now, c.file == nil && rand.IntN(sweepOdds) == 0, nil
}

// lockGuard locks the shard's guard. The error is fs.ErrNotExist if it is not
// there yet, or no longer.
func (s *store) lockGuard(ctx context.Context, sh *shard) error {
	if s.calls.Closed() {
		return driver.ErrClosed
	}
	err := sh.guard.lock(ctx, s.calls.Life().Done())
	if err != nil || sh.guard.file == sh.known {
		return err
	}
	// It is another file than the last time: if somebody deleted the store and
	// it was made again, its clock is new, too.
	if err := s.settle(ctx); err != nil {
		return join(err, sh.guard.unlock())
	}
	sh.known = sh.guard.file
	return nil
}

// makeShard makes the directory of sh and its guard, and the store if it is gone.
func (s *store) makeShard(ctx context.Context, sh *shard) error {
	_, err := os.Stat(filepath.Join(s.dir, "FORMAT"))
	if errors.Is(err, fs.ErrNotExist) {
		if err = settle(s.dir, s.sharedFS); err == nil {
			err = s.settle(ctx)
		}
	}
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(sh.dir), sh.dir} {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	return sh.guard.make()
}

// settle checks the format and the clock, which are new if somebody deleted the
// directory.
func (s *store) settle(ctx context.Context) error {
	s.settling.Lock()
	defer s.settling.Unlock()
	if err := settleFormat(s.dir); err != nil {
		return err
	}
	old := s.clock.Load()
	if old != nil {
		current, err := old.current(s.dir)
		if err != nil {
			return err
		}
		if current {
			return old.restore()
		}
	}
	c, err := openClock(ctx, s.dir)
	if err != nil {
		return err
	}
	s.clock.Store(c)
	if old != nil {
		return old.close()
	}
	return nil
}

// advance lets the mark in CLOCK follow the clock.
func (s *store) advance(now time.Time) {
	if !s.clock.Load().lags(now) {
		return
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	c := s.clock.Load()
	if current, err := c.current(s.dir); current && err == nil {
		c.writeMark()
	}
}

// Ping reports whether the directory is there and ours.
func (s *store) Ping(ctx context.Context) error {
	_, err := s.inTurn(ctx, s.pinging, func(*call.Call) error { return settleFormat(s.dir) })
	return err
}

// Describe implements driver.Operator.
func (s *store) Describe(context.Context) (map[string]string, error) {
	return map[string]string{"topology": "one directory"}, nil
}

// Close ends the calls that wait and closes the files. If the file system does not
// answer, it leaves those that wait for it, and closes the files when they end.
func (s *store) Close() error {
	s.calls.Close()
	closed := make(chan error, 1)
	go func() { closed <- s.closeFiles() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return driver.NotSent(noAnswer(context.DeadlineExceeded))
	}
}

func (s *store) closeFiles() (err error) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.turn <- struct{}{} // whoever is inside leaves first
		err = join(err, sh.guard.close())
		<-sh.turn
	}
	return join(err, s.clock.Load().close())
}

// join puts two errors on one line.
func join(err, next error) error {
	switch {
	case err == nil:
		return next
	case next == nil:
		return err
	}
	return fmt.Errorf("%w; %w", err, next)
}
