package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// listAll is what List yields, and how often, and the error at its end.
func listAll(ctx context.Context, b driver.Backend, prefix string) (keys map[string]int, err error) {
	keys = map[string]int{}
	for key, failed := range b.List(ctx, prefix) {
		if failed != nil {
			err = failed
			continue
		}
		keys[key]++
	}
	return keys, err
}

// Many pages, and the keys of others.
func TestListOfManyPages(t *testing.T) {
	t.Parallel()
	b := shared(t)
	ctx := t.Context()
	const n = 2500
	pipe := b.client.Pipeline()
	for i := range n {
		pipe.Set(ctx, fmt.Sprintf("another application's %d", i), "", 0)
		pipe.Set(ctx, lockKey(fmt.Sprintf("k%d", i)), held+"a", time.Minute)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if keys, err := listAll(ctx, b, ""); len(keys) != n || err != nil {
		t.Errorf("%d keys, %v, want %d", len(keys), err, n)
	}
	if keys, err := listAll(ctx, b, "k249"); len(keys) != 11 || err != nil {
		t.Errorf("%d keys, %v, want k249 and ten more", len(keys), err)
	}
	for key, err := range b.List(ctx, "") {
		if key == "" || err != nil {
			t.Errorf("%q, %v, want one key", key, err)
		}
		break
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if keys, err := listAll(ended, b, ""); len(keys) != 0 || err == nil {
		t.Errorf("%d keys, %v, want the end of ctx", len(keys), err)
	}
}

// Keys on the masters that answer are listed, and the error of the other one comes after them.
func TestNightlyListWhileAMasterHangs(t *testing.T) {
	t.Parallel()
	c, hung := partlyHung(t)
	b := connectTo(t, slowCluster(c))
	ctx := t.Context()
	want := map[string]int{}
	for i := range 12 {
		key := fmt.Sprint("k", i)
		must[driver.Grant](t)(b.TryLock(ctx, key, request("a", time.Minute)))
		if b.Partition(key) != hung.Addr {
			want[key] = 1
		}
	}
	hung.Pause()
	defer hung.Resume()
	keys, err := listAll(ctx, b, "k")
	if err == nil {
		t.Error("no error, though a master does not answer")
	}
	for key := range want {
		if keys[key] == 0 {
			t.Errorf("%s is not listed", key)
		}
	}
	if len(keys) != len(want) {
		t.Errorf("%d keys, want %d", len(keys), len(want))
	}
}
