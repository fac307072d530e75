package file

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/driver/cas"
)

// backend is the cells as a backend, which lists them by the names of their files.
type backend struct {
	*cas.Backend
	store *store
}

// List implements driver.Operator.
func (b backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.store.list(ctx, cas.Lock, prefix, func(key string) (bool, error) {
		_, err := b.Inspect(ctx, key)
		if errors.Is(err, driver.ErrNotHeld) {
			return false, nil
		}
		return true, err
	})
}

// Shared implements driver.Backend.
func (b backend) Shared() driver.SharedLocker { return sharedLocker{b.Backend.Shared(), b.store} }

type sharedLocker struct {
	driver.SharedLocker
	store *store
}

// List implements driver.SharedLocker.
func (l sharedLocker) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return l.store.list(ctx, cas.Shared, prefix, func(key string) (bool, error) {
		holders, err := l.Holders(ctx, key)
		return len(holders) > 0, err
	})
}

// list gives the keys that are taken, among those that have a cell.
func (s *store) list(ctx context.Context, kind cas.Kind, prefix string, taken func(key string) (bool, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i := range s.shards {
			keys, left, err := call.Do(ctx, s.calls, func() ([]string, error) { return s.shards[i].keys(kind, prefix) }, nil)
			if left {
				err = noAnswer(err)
			}
			for j := 0; err == nil && j < len(keys); j++ {
				var is bool
				if is, err = taken(keys[j]); is && err == nil && !yield(keys[j], nil) {
					return
				}
			}
			if err != nil {
				yield("", err)
				return
			}
		}
	}
}

// keys are those that have a cell of this kind. Where the file's name is cut, the cell has the whole of it.
func (sh *shard) keys(kind cas.Kind, prefix string) (keys []string, err error) {
	files, err := os.ReadDir(sh.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, driver.NotSent(err)
	}
	for _, f := range files {
		name, is := strings.CutPrefix(f.Name(), kind.String()+",")
		if is && strings.Contains(name, "#") {
			c, err := openCell(filepath.Join(sh.dir, f.Name()))
			if err != nil {
				return nil, driver.NotSent(err)
			}
			line, _, _ := strings.Cut(string(c.slot.value), "\n")
			c.close()
			name, is = strings.CutPrefix(line, kind.String()+",")
		}
		if key, err := url.PathUnescape(name); is && err == nil && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
