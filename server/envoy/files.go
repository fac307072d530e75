package envoy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coordgo/coord"
)

// maxFile bounds a file in bytes, and maxFiles how many there are.
const (
	maxFile  = 4 << 20
	maxFiles = 10_000
)

// readFiles reads the files in order, and those of a directory, and of directories in it, by name. Names that begin
// with a dot are passed over: so of the directory that Kubernetes makes of a ConfigMap each file is read once.
func readFiles(paths []string) (all []File, err error) {
	for _, path := range paths {
		root, err := filepath.EvalSymlinks(path) // each time: the link may lead elsewhere by now
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			switch hidden := name != root && strings.HasPrefix(filepath.Base(name), "."); {
			case err != nil:
				return err
			case hidden && d.IsDir():
				return fs.SkipDir
			case hidden || d.IsDir():
				return nil
			}
			text, err := readFile(name)
			if err == nil && text != nil {
				all = append(all, File{Name: name, Text: text})
			}
			if len(all) > maxFiles {
				err = fmt.Errorf("%w: %s: more than %d files", coord.ErrInvalid, path, maxFiles)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readFile gives the content of a file, or of what a link leads to; nil of what is no file.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(text) > maxFile {
		err = fmt.Errorf("%w: %s: more than %d bytes", coord.ErrInvalid, name, maxFile)
	}
	return text, errors.Join(err, f.Close())
}

// sum is another one for each content of files.
type sum = [sha256.Size]byte

func sumOf(all []File) (s sum) {
	h := sha256.New()
	for _, f := range all {
		_, _ = fmt.Fprintf(h, "%d %d %s", len(f.Name), len(f.Text), f.Name) // a hash takes everything
		_, _ = h.Write(f.Text)
	}
	h.Sum(s[:0])
	return s
}
