package zookeeper

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"
)

// List implements driver.Operator. ZooKeeper has no pages: the names of all locks, among them some that were held
// lately, come in one reply, and each is then asked for whether it has a holder.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return b.keys(ctx, []string{b.root + "/locks"}, prefix, func(key string) (bool, error) { return b.hasChildren(b.lockDir(key)) })
}

// List implements driver.SharedLocker. The guards are under 256 parents.
func (l sharedLocker) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	var dirs []string
	for bucket := range 256 {
		dirs = append(dirs, l.b.guardsDir(byte(bucket)))
	}
	return l.b.keys(ctx, dirs, prefix, func(key string) (bool, error) {
		g, err := l.b.group(l.b.guardPath(key), false)
		return len(g.holds) > 0, err
	})
}

// keys gives those that have a node in one of dirs and are held. The first listing is as a server that has caught up shows it.
func (b *backend) keys(ctx context.Context, dirs []string, prefix string, isHeld func(key string) (bool, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i, dir := range dirs {
			names, err := call(ctx, b, func() ([]string, error) { return b.list(dir, i == 0) }, nil)
			for _, name := range names {
				key, ok := keyOf(name)
				if !ok || !strings.HasPrefix(key, prefix) {
					continue
				}
				var held bool
				held, err = call(ctx, b, func() (bool, error) { return isHeld(key) }, nil)
				if err != nil {
					break
				}
				if held && !yield(key, nil) {
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

// hasChildren reports whether a lock has a holder. A released entry that keeps its key is one, too.
func (b *backend) hasChildren(dir string) (bool, error) {
	_, stat, err := b.conn.Exists(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil && stat.NumChildren > 0, err
}

// keyOf gives the key that escape made a name of. What is not ours is not ok.
func keyOf(name string) (key string, ok bool) {
	key, err := url.PathUnescape(name)
	return key, err == nil && escape(key) == name
}
