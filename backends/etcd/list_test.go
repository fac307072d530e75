package etcd

import (
	"errors"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

// A page ends amid a long queue for one key, and the next one begins behind it.
func TestListOfManyPages(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	ctx := t.Context()
	put := func(name string) {
		if _, err := b.client.Put(ctx, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"a", "a/b", "b", "ä%"}
	for _, key := range want {
		for i := range 7 {
			put(b.names.entry(key, i))
		}
	}
	put(b.names.base + "limit/a/x")
	from, end := b.names.locks(), clientv3.GetPrefixRangeEnd(b.names.locks())
	var got []string
	for requests := 0; from != ""; requests++ {
		keys, next, err := b.listFrom(ctx, b.names.locks(), from, end, 5)
		if err != nil || requests > len(want) {
			t.Fatalf("after %d requests: %v", requests, err)
		}
		got, from = append(got, keys...), next
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	put(b.names.locks() + "no entry of a lock")
	var last error
	for _, err := range b.List(ctx, "n") {
		last = err
	}
	if !errors.Is(last, driver.ErrCorrupt) {
		t.Errorf("a key that is no lock's: %v", last)
	}
}
