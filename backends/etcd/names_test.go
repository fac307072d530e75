package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/coordgo/coord/driver"
)

func TestNames(t *testing.T) {
	n, err := newNames("prod/app")
	if err != nil {
		t.Fatal(err)
	}
	bucket := driver.Limit{Rate: 1, Per: time.Second, Burst: 1, Algorithm: driver.TokenBucket}
	for got, want := range map[string]string{
		n.queue("tickets"):         "prod/app/coord/lock/tickets/",
		n.queue("a/b"):             "prod/app/coord/lock/a%2Fb/",
		n.queue("a%2Fb"):           "prod/app/coord/lock/a%252Fb/",
		n.queue("é "):              "prod/app/coord/lock/%C3%A9%20/",
		n.entry("k", 7):            "prod/app/coord/lock/k/7",
		n.limit("tickets", bucket): "prod/app/coord/limit/tickets/tb:1:1000000",
	} {
		if got != want {
			t.Errorf("%q: want %q", got, want)
		}
	}
}

// No key's entries are among another's, and a queue tells its key.
func FuzzNames(f *testing.F) {
	f.Add("a", "a/b", "", "x")
	f.Add("a%2Fb", "a/b", "ns", "ns/x")
	f.Add("\xff", "é", "coord/lock", "p/q")
	f.Fuzz(func(t *testing.T, a, b, nsA, nsB string) {
		na, err := newNames(nsA)
		if err != nil {
			return // not a namespace
		}
		nb, err := newNames(nsB)
		if err != nil {
			return // not a namespace
		}
		la, lb := na.queue(a), nb.queue(b)
		if same := a == b && nsA == nsB; (la == lb) != same {
			t.Errorf("%q %q and %q %q: queues %q and %q", nsA, a, nsB, b, la, lb)
		}
		if la != lb && (strings.HasPrefix(la, lb) || strings.HasPrefix(lb, la)) {
			t.Errorf("one queue lies in the other: %q and %q", la, lb)
		}
		escaped := strings.TrimSuffix(strings.TrimPrefix(la, na.base+"lock/"), "/")
		if key, err := url.PathUnescape(escaped); err != nil || key != a {
			t.Errorf("%q reads as %q, %v", la, key, err)
		}
	})
}

// Whatever is stored is an entry that writes as it reads, or driver.ErrCorrupt.
func FuzzReadRecord(f *testing.F) {
	const queue = "coord/lock/k/"
	f.Add(queue+"0", heldValue("a/1/2/x"), int64(7))
	f.Add(queue+"12", releasedValue("a"), int64(7))
	f.Add(queue, heldValue("b"), int64(7))
	f.Add(queue+"a", heldValue("a"), int64(0))
	f.Add("else", "", int64(1))
	f.Fuzz(func(t *testing.T, name, value string, lease int64) {
		rec, err := readRecord(queue, &mvccpb.KeyValue{Key: []byte(name), Value: []byte(value), Lease: lease, CreateRevision: 3})
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) || rec != (record{}) {
				t.Errorf("%+v, %v", rec, err)
			}
			return
		}
		want := heldValue(rec.id)
		if rec.released {
			want = releasedValue(rec.id)
		}
		if value != want || name != rec.name || !strings.HasPrefix(name, queue) || name == queue || rec.lease != lease || lease == 0 || rec.create != 3 {
			t.Errorf("%q = %q, lease %d, reads as %+v", name, value, lease, rec)
		}
	})
}

func TestClassOf(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want int64
	}{
		{0, 64},
		{64 * time.Second, 64},
		{65 * time.Second, 128},
		{time.Hour, 4096},
		{366 * 24 * time.Hour, 64 << 19},
		{1<<63 - 1, maxClass},
	} {
		if got := classOf(tc.d); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.d, got, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", driver.MaxID+1)
	for _, r := range []driver.Request{
		{ID: "", TTL: time.Second},
		{ID: "a b", TTL: time.Second},
		{ID: long, TTL: time.Second},
		{ID: "é", TTL: time.Second},
		{ID: "a"},
		{ID: "a", TTL: -1},
		{ID: "a", TTL: maxTTL + 1},
	} {
		if err := check("k", r); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", maxKey+1)} {
		if err := check(key, driver.Request{ID: "a", TTL: time.Second}); !errors.Is(err, driver.ErrInvalid) {
			t.Error(fmt.Sprintf("key of %d bytes: ", len(key)), err)
		}
	}
}
