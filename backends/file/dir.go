package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coordgo/coord/driver"
)

// format is the content of FORMAT. It changes with anything that processes of
// different versions would not agree on.
const format = "coord-file 1 shards=64\n"

const (
	newPrefix   = ".new-" // of files that are not in place yet
	probePrefix = ".probe-"
)

// settle makes the directory if it is not there and checks that a store works in it.
func settle(dir string, sharedFS func(string) (string, error)) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%w: directory %q: want an absolute path, like /var/lib/app/coord", driver.ErrInvalid, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		if st, serr := os.Stat(dir); serr == nil && !st.IsDir() || errors.Is(err, notDirectory) {
			return fmt.Errorf("%w: %s: want a directory: %w", driver.ErrInvalid, dir, err)
		}
		return err
	}
	name, err := sharedFS(dir)
	if err != nil {
		return err
	}
	if name != "" {
		return fmt.Errorf("%w: %s is on %s, which machines share and whose locks are not certain: want a local filesystem", driver.ErrUnsupported, dir, name)
	}
	return probeLocks(dir)
}

// settleFormat reads FORMAT, or writes it where it is missing.
func settleFormat(dir string) error {
	path := filepath.Join(dir, "FORMAT")
	text, err := os.ReadFile(path)
	switch {
	case err == nil && string(text) == format:
		return nil
	case err == nil && len(text) > 0:
		return fmt.Errorf("%w: %s says %.40q: this version of coord reads %q", driver.ErrCorrupt, path, text, format)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := wantOurs(dir); err != nil {
		return err
	}
	return replaceFile(dir, "FORMAT", format)
}

// replaceFile writes a file of dir in one step, and to the disk. Several clients
// may do that at once: each writes a file of its own, and the last rename wins.
func replaceFile(dir, name, content string) error {
	tmp, err := os.CreateTemp(dir, newPrefix+name+"-")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(content)
	err = join(join(join(err, giveToOwner(tmp)), tmp.Sync()), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// makeDir makes a directory below the store's, if it is not there.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	return join(giveToOwner(d), d.Close())
}

// wantOurs refuses a directory without a FORMAT that has other entries than a
// store's. Those of a store are no mistake: cleaners of old files remove what was
// not written for long, and FORMAT is written once.
func wantOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch n := e.Name(); n {
		case "FORMAT", "CLOCK", "cells":
		case "lost+found": // of a volume that was just made
		default:
			if !strings.HasPrefix(n, newPrefix) && !strings.HasPrefix(n, probePrefix) {
				return fmt.Errorf("%w: %s holds %q and is not a coord store: want an empty directory or a new one", driver.ErrInvalid, dir, n)
			}
		}
	}
	return nil
}

// probeLocks finds out whether two opens of one file exclude each other here.
func probeLocks(dir string) (err error) {
	a, err := os.CreateTemp(dir, probePrefix)
	if err != nil {
		return err
	}
	defer func() { err = join(join(err, a.Close()), os.Remove(a.Name())) }()
	b, err := os.OpenFile(a.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = join(err, b.Close()) }()

	first, err := tryLock(a)
	if err != nil {
		return fmt.Errorf("%w: %s: file locks do not work here: %w", driver.ErrUnsupported, dir, err)
	}
	second, err := tryLock(b)
	if err != nil || !first || second {
		return fmt.Errorf("%w: %s: file locks do not exclude here: want a local filesystem", driver.ErrUnsupported, dir)
	}
	return nil
}
