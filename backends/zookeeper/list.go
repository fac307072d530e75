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
	return func(yield func(string, error) bool) {
		names, err := call(ctx, b, func() ([]string, error) { return b.list(b.root+"/locks", true) }, nil)
		for _, name := range names {
			key, ok := keyOf(name)
			if !ok || !strings.HasPrefix(key, prefix) {
				continue
			}
			var held bool
			held, err = call(ctx, b, func() (bool, error) { return b.hasChildren(b.lockDir(key)) }, nil)
			if err != nil || held && !yield(key, nil) {
				break
			}
		}
		if err != nil {
			yield("", err)
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
