package processes

import (
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

const processes = 12

// Twelve processes that ask a limit of 2000 as fast as they can, alone, together in calls, and by
// leases: never are more than the bound admitted in any period, and in the first one, which is
// longer so that it can be looked at, the whole of it is had, save for what is told to be lost.
func TestBoundOverProcesses(t *testing.T) {
	strict := coord.Per(2000, 2*time.Second)
	bucket := coord.Limit{Rate: 2000, Per: 2 * time.Second, Burst: 200}
	fixed := coord.Limit{Rate: 2000, Per: 2 * time.Second, Algorithm: coord.FixedWindow}
	lease := &coord.PermitLease{Lessees: processes}
	stores := map[string]func(testing.TB) string{
		"redis": func(t testing.TB) string { return "redis://" + testserver.Redis(t).Addr },
		"etcd":  func(t testing.TB) string { return "etcd://" + testserver.Etcd(t).Addr },
	}
	for _, tt := range []struct {
		store, name string
		limit       coord.Limit
		lease       *coord.PermitLease
	}{
		{"redis", "together", strict, nil},
		{"redis", "leased", strict, lease},
		{"redis", "leased by who knows no others", strict, &coord.PermitLease{Lessees: 1}},
		{"redis", "leased bucket", bucket, lease},
		{"etcd", "leased", fixed, lease},
	} {
		t.Run(tt.store+" "+tt.name, func(t *testing.T) {
			j := job{URL: stores[tt.store](t), Key: "first", Limit: tt.limit, Lease: tt.lease, Goroutines: 4, For: time.Second}
			leased := 0
			if j.Limit.Per *= 10; tt.limit.Burst == 0 {
				leased = first(t, j)
			}
			j.Key, j.Limit, j.For = "on", tt.limit, 2*tt.limit.Per
			o := run(t, processes, j)
			life := time.Duration(0)
			if tt.lease != nil {
				life = 100 * time.Millisecond
			}
			check(t, tt.limit, life, o)
			t.Logf("%d admitted, %d of leases, %d wasted, %d returned; %d denied", len(o.Admitted), o.Leased, o.Wasted, o.Returned, o.Denied)
			// The sub-windows of the short period may be too short for a lease on a busy machine, which asks slowly,
			// and none of a lease may be used in time.
			if tt.lease != nil && leased+o.inLeases() == 0 {
				t.Error("nothing was leased")
			}
		})
	}
}

// first fills one period, accounts for every permit of it, and tells how many were in leases.
func first(t *testing.T, j job) (leased int) {
	t.Helper()
	o := run(t, processes, j)
	c, err := coord.Open(t.Context(), j.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Peek(t.Context(), j.Key, j.Limit)
	if err != nil {
		t.Fatal(err)
	}
	if !onePeriod(j.Limit, o, time.Now()) {
		t.Log("unproven: the first period was over before it was counted")
		return o.inLeases()
	}
	n := len(o.Admitted)
	t.Logf("%v, the first %v: %d admitted, %d of leases, %d wasted, %d returned, %d left", j.Limit, j.For, n, o.Leased, o.Wasted, o.Returned, r.Remaining)
	mostMissing := 0
	if j.Lease != nil { // a request that comes as a block ends may be among the spent, see coord.LeaseEnded
		mostMissing = processes * j.Goroutines
	}
	if missing := j.Limit.Rate - n - o.Wasted - r.Remaining; missing < 0 || missing > mostMissing {
		t.Errorf("%d admitted, %d wasted and %d left: want %d in all, of which up to %d may be missing", n, o.Wasted, r.Remaining, j.Limit.Rate, mostMissing)
	}
	if o.Denied > 0 && r.Remaining > o.Returned {
		t.Errorf("%d were denied, and %d permits are left, of which %d were given back", o.Denied, r.Remaining, o.Returned)
	}
	return o.inLeases()
}

// onePeriod reports whether nothing of what was admitted has left its period at now.
func onePeriod(l coord.Limit, o outcome, now time.Time) bool {
	if len(o.Admitted) == 0 {
		return false
	}
	began := slices.MinFunc(o.Admitted, func(a, b [2]int64) int { return int(a[0] - b[0]) })[0]
	if l.Algorithm == coord.FixedWindow {
		began -= began % l.Per.Nanoseconds()
	}
	return now.UnixNano()-began < l.Per.Nanoseconds()
}

// checkFixed counts what was certainly had in each window.
func checkFixed(t *testing.T, l coord.Limit, o outcome) {
	t.Helper()
	windows, most := map[int64]int{}, 0
	for _, a := range o.Admitted {
		if w := a[0] / l.Per.Nanoseconds(); w == a[1]/l.Per.Nanoseconds() {
			windows[w]++
			most = max(most, windows[w])
		}
	}
	t.Logf("at most %d in a window, of %d", most, l.Rate)
	if most > l.Rate {
		t.Errorf("%d permits in a window: want at most %d", most, l.Rate)
	}
}

// check counts what was certainly had in each period, of all that begin with a request.
func check(t *testing.T, l coord.Limit, life time.Duration, o outcome) {
	t.Helper()
	slices.SortFunc(o.Admitted, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	if l.Algorithm == coord.FixedWindow {
		checkFixed(t, l, o)
		return
	}
	for _, w := range []time.Duration{l.Per / 100, l.Per / 10, l.Per} {
		bound := l.Rate
		if l.Burst > 0 {
			bound = l.Burst + int(int64(l.Rate)*int64(w+life)/int64(l.Per))
		}
		most := 0
		for i, a := range o.Admitted {
			end, n := a[0]+w.Nanoseconds(), 0
			for _, b := range o.Admitted[i:] {
				if b[0] >= end {
					break
				}
				if b[1] < end {
					n++
				}
			}
			most = max(most, n)
		}
		if most > bound {
			t.Errorf("%d permits within %v: want at most %d", most, w, bound)
		}
		t.Logf("at most %d within %v, of %d", most, w, bound)
	}
}
