package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func limitOf(t testing.TB, s string) driver.Limit {
	t.Helper()
	l, err := must[driver.Limit](t)(driver.ParseLimit(s)).Normal()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(hung); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", hung, what)
		}
	}
}

// What each operation costs, counted on the way to the server.
func TestRequests(t *testing.T) {
	p, b := openTapped(t)
	ctx := t.Context()
	expect := func(what string, want ...int32) {
		t.Helper()
		if got := p.take(); !slices.Equal(got, want) {
			t.Errorf("%s: requests %v, want %v", what, got, want)
		}
	}
	r := request("a", testSession)
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	if err := b.Unlock(ctx, "k", r.ID); err != nil {
		t.Fatal(err)
	}
	p.take()

	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	expect("an uncontended lock", opMulti)
	withoutWatch := func() []int32 { // which a hold gets when it is a moment old
		return slices.DeleteFunc(p.take(), func(op int32) bool { return op == opGet })
	}
	must[driver.Grant](t)(b.TryLock(ctx, "k", r))
	if got := withoutWatch(); !slices.Equal(got, []int32{opMulti}) {
		t.Errorf("a repeated one: requests %v, want one multi", got)
	}
	other := request("b", testSession)
	if _, err := b.TryLock(ctx, "k", other); !errors.Is(err, driver.ErrLocked) {
		t.Errorf("a held key: %v", err)
	}
	if got := withoutWatch(); !slices.Equal(got, []int32{opMulti, opChildren, opDelete}) {
		t.Errorf("a refused lock: requests %v", got)
	}
	// Once it is old enough a hold is watched, by one more request.
	eventually(t, "the hold to be watched", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.watches) == 1
	})
	p.take()
	granted := queueUp(ctx, b, "k", other)
	expect("taking a place in the queue behind a hold of the same client", opMulti, opChildren)
	if err := b.Unlock(ctx, "k", r.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	expect("a release and the grant that follows", opDelete, opChildren)

	var holds []driver.Hold
	for i := range 150 {
		h := driver.Hold{Key: fmt.Sprint("many", i), Request: request("m", 20*time.Second)}
		must[driver.Grant](t)(b.TryLock(ctx, h.Key, h.Request))
		holds = append(holds, h)
	}
	eventually(t, "the holds to be watched", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.watches) == 151
	})
	p.take()
	for _, r := range b.RenewAll(ctx, holds) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	expect("renewing 150 holds", opMulti)

	l := limitOf(t, "3/1h")
	one := driver.Ask{Min: 1, N: 1}
	must[driver.TakenOne](t)(b.TakeOne(ctx, "l", l, one))
	p.take()
	must[driver.TakenOne](t)(b.TakeOne(ctx, "l", l, one))
	expect("a permit", opSet)
	must[driver.TakenOne](t)(b.TakeOne(ctx, "l", l, driver.Ask{}))
	expect("a look", opGet)
	forgetTime(b, time.Hour)
	must[driver.TakenOne](t)(b.TakeOne(ctx, "l", l, driver.Ask{}))
	expect("a look when the leader's time is not known, as after a sleep or a minute without a write", opSet, opGet)
	must[driver.TakenOne](t)(b.TakeOne(ctx, "l", l, one))
	p.take()
	if one := must[driver.TakenOne](t)(b.TakeOne(ctx, "l", l, one)); one.N != 0 {
		t.Errorf("a fourth of three: %+v", one)
	}
	expect("a denial", opGet)
	must[[]driver.Taken](t)(b.TakeAll(ctx, []driver.Demand{{Key: "m1", Limit: l, N: 1}, {Key: "m2", Limit: l, N: 1}}))
	p.take()
	must[[]driver.Taken](t)(b.TakeAll(ctx, []driver.Demand{{Key: "m1", Limit: l, N: 1}, {Key: "m2", Limit: l, N: 1}}))
	expect("permits of two limits", opMulti)

	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err := b.TryLock(gone, "k", request("c", testSession))
	if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("under a ctx that has ended: %v", err)
	}
	expect("under a ctx that has ended")
}

// A limit that a client meets for the first time is made at once if the one before was new, and else read first; after
// that a decision is one request, whatever the algorithm.
func TestRequestsOfColdLimits(t *testing.T) {
	t.Parallel()
	p, b := openTapped(t)
	l := limitOf(t, "1000000/1s burst=1000000") // as if unused in a microsecond
	take := func(b *backend, key string) {
		t.Helper()
		if one := must[driver.TakenOne](t)(b.TakeOne(t.Context(), key, l, driver.Ask{Min: 1, N: 1})); one.N != 1 {
			t.Fatalf("%+v", one)
		}
	}
	const keys = 20
	p.take()
	dirs := make(map[string]bool)
	for i := range keys {
		key := fmt.Sprint("k", i)
		dirs[path.Dir(b.limitPath(key, l))] = true
		take(b, key)
	}
	if got, want := len(p.take()), 1+keys+2*len(dirs); got != want {
		t.Errorf("%d requests for %d new limits in %d new directories, want %d", got, keys, len(dirs), want)
	}
	for i := range keys {
		take(b, fmt.Sprint("k", i))
	}
	if got := p.take(); len(got) != keys || slices.ContainsFunc(got, func(op int32) bool { return op != opSet }) {
		t.Errorf("known limits: requests %v, want a write for each", got)
	}
	other := connect(t, urlWith(t, p.addr(), calmSession))
	p.take()
	for i := range keys {
		take(other, fmt.Sprint("k", i))
	}
	if got, want := len(p.take()), 3*keys; got != want {
		t.Errorf("%d requests for %d limits of another client, want %d: two looks and a write for each", got, keys, want)
	}
	take(other, "new")
	p.take()
	for i := range keys {
		take(b, fmt.Sprint("n", i))
	}
	take(other, "newer")
	p.take()
	for i := range keys {
		take(other, fmt.Sprint("n", i))
	}
	if got, want := len(p.take()), 3*keys+1; got != want {
		t.Errorf("%d requests for %d limits of another client after a new one, want %d: one for the wrong guess", got, keys, want)
	}
	must[driver.TakenOne](t)(connect(t, urlWith(t, p.addr(), calmSession)).TakeOne(t.Context(), "k0", l, driver.Ask{}))
	if got := p.take(); got[len(got)-1] != opGet {
		t.Errorf("a look at a limit that was not met before: requests %v", got)
	}
}

// queueUp has a request wait in the queue, and gives what comes of it.
func queueUp(ctx context.Context, b *backend, key string, r driver.Request) (outcome <-chan error) {
	ended, waits := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := b.Lock(ctx, key, r, func() { close(waits) })
		ended <- err
	}()
	select {
	case <-waits:
	case err := <-ended:
		ended <- err
	}
	return ended
}

// A hold costs one goroutine, which waits for the event of its watch.
func TestGoroutinesOfHolds(t *testing.T) {
	_, b := open(t)
	before := runtime.NumGoroutine()
	const n = 200
	for i := range n {
		must[driver.Grant](t)(b.TryLock(t.Context(), fmt.Sprint("k", i), request("a", time.Minute)))
	}
	eventually(t, "the holds to be watched by one goroutine each", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.watches) == n && runtime.NumGoroutine() <= before+n+10
	})
}
