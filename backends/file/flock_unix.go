//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The guard is a flock(2) of the whole file. Unlike a POSIX record lock it
// belongs to the open file: two opens exclude each other in one process too, and
// closing another descriptor of the file does not release it. It is released by
// LOCK_UN, not by closing alone, because a child between fork and exec shares the
// open file. The file stays open from one lock to the next, so that a lock
// costs one system call.

// tryLock takes the lock if nobody has it.
func tryLock(f *os.File) (bool, error) { return tryFlock(f, unix.LOCK_EX) }

// tryFlock takes a lock of that kind if no other lock is in the way.
func tryFlock(f *os.File, kind int) (bool, error) {
	for {
		err := flock(f, kind|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// unlock releases the lock.
func unlock(f *os.File) error {
	if err := flock(f, unix.LOCK_UN); err != nil {
		return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := conn.Control(func(fd uintptr) { ferr = unix.Flock(int(fd), how) }); err != nil {
		return err
	}
	return ferr
}
