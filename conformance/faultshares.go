package conformance

import (
	"context"
	"errors"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance/internal/history"
	"github.com/coordgo/coord/driver"
)

// shareUsages are the uses of shared locks that the fault loop goes through.
func shareUsages(*env) []usage {
	all := []usage{
		{name: "Read and Unlock", run: useRead},
		{name: "TryLock of permits", run: usePermits},
		{name: "Write behind a reader of another client", run: useWriteBehind},
		{name: "a writer that becomes a reader", run: useDowngrade},
		{name: "renewal of a reader", run: useShareRenewal},
		{name: "Holders", run: useHolders},
	}
	for i := range all {
		all[i].free = sharesFree
	}
	return all
}

// readWriteKey and semaphoreKey are the keys that package coord asks the store for.
func readWriteKey(key string) string { return key + "\x00r" }
func semaphoreKey(key string) string { return key + "\x00s" }

// sharesFree waits until the run's key can be taken whole, as a read/write lock and as a semaphore, and nobody is in the
// queues.
func sharesFree(f *faultRun) {
	for key, s := range map[string]driver.Share{readWriteKey(f.k): writer, semaphoreKey(f.k): permits(3, 3)} {
		f.freeFor(f.rival.Shared(), key, s, f.freeBy, "after the faults")
		f.free(f.rival, key, f.freeBy, "which is the queue of a shared key, after the faults")
	}
}

// sharedAs is Lock of one of the shared Lockers, with what the run allows.
func (f *faultRun) sharedAs(ctx context.Context, l coord.Locker, try bool, opts ...coord.LockOption) (lock *coord.Lock, err error) {
	opts = append([]coord.LockOption{coord.TTL(f.long)}, opts...)
	err = f.call("Lock of a shared key", func(bound context.Context) (err error) {
		at, _ := bound.Deadline()
		ctx, cancel := context.WithDeadline(ctx, at)
		defer cancel()
		if try {
			lock, err = l.TryLock(ctx, f.k, opts...)
		} else {
			lock, err = l.Lock(ctx, f.k, opts...)
		}
		return err
	})
	return lock, err
}

// excludes fails the run if a rival is granted s although a lock is held.
func (f *faultRun) excludes(l *coord.Lock, key string, s driver.Share) {
	if l.Err() != nil {
		return
	}
	r := f.share(s, f.long)
	_, err := f.rival.Shared().TryLock(f.within(soon), key, r)
	if err != nil {
		f.wantError(err, "TryLock by a rival beside a shared hold", driver.ErrLocked)
		return
	}
	if l.Err() == nil {
		f.Errorf("TryLock by a rival, of %s: saw a grant while the holder's Err is nil, want ErrLocked", history.ShareText(s))
	}
	f.leave(f.rival.Shared(), key, r)
}

func useRead(f *faultRun) {
	l, err := f.sharedAs(f.ctx, f.c.ReadWrite().Read(), false)
	if err == nil {
		f.excludes(l, readWriteKey(f.k), writer)
		_ = f.unlock(l) // that it failed is the fault's; what it left is looked at later
	}
}

func usePermits(f *faultRun) {
	l, err := f.sharedAs(f.ctx, f.c.Semaphore(3), true, coord.Weight(2))
	if err == nil {
		f.excludes(l, semaphoreKey(f.k), permits(2, 3))
		_ = f.unlock(l)
	}
}

func useWriteBehind(f *faultRun) {
	r, _ := f.enter(f.rival.Shared(), readWriteKey(f.k), reader, "a reader of a free key")
	ctx, cancel := context.WithTimeout(f.ctx, 2*hangFor)
	defer cancel()
	returned := make(chan struct{})
	result := async(func() error {
		defer close(returned)
		l, err := f.c.ReadWrite().Write().Lock(ctx, f.k, coord.TTL(f.long))
		if err != nil {
			f.meaningful("Lock by a writer", err)
			return err
		}
		f.excludes(l, readWriteKey(f.k), reader)
		return f.unlock(l)
	})
	f.until(soon, "a writer to ask the store, or to fail", func() bool {
		select {
		case <-returned:
			return true
		default:
			return f.in.returned("Shared.TryLock") > 0
		}
	})
	f.leave(f.rival.Shared(), readWriteKey(f.k), r)
	_ = recv(f.env, result, 2*hangFor+soon, "a writer to be granted, or to fail")
}

func useDowngrade(f *faultRun) {
	ctx := coord.WithOwner(f.ctx)
	rw := f.c.ReadWrite()
	w, err := f.sharedAs(ctx, rw.Write(), false)
	if err != nil {
		return
	}
	f.excludes(w, readWriteKey(f.k), reader)
	r, err := f.sharedAs(ctx, rw.Read(), false)
	if err != nil {
		f.Errorf("a writer that enters as a reader: saw %v, want no call on the store that could fail", err)
		_ = f.unlock(w)
		return
	}
	_ = f.inTime("Unlock by a writer that is a reader, too", unlockFor, func() error { return w.Unlock(f.ctx) })
	f.excludes(r, readWriteKey(f.k), writer)
	_ = f.unlock(r)
}

func useShareRenewal(f *faultRun) {
	l, err := f.sharedAs(f.ctx, f.c.ReadWrite().Read(), false, coord.TTL(f.ttl))
	if err != nil {
		return
	}
	first := l.Deadline()
	f.until(f.lapse(l.TTL()), "a renewal, or the loss", func() bool { return l.Deadline().After(first) || l.Err() != nil })
	f.excludes(l, readWriteKey(f.k), writer)
	_ = f.unlock(l)
}

func useHolders(f *faultRun) {
	r, _ := f.enter(f.rival.Shared(), semaphoreKey(f.k), permits(2, 3), "2 of 3 of a free key")
	var all []coord.Holder
	err := f.call("Holders", func(ctx context.Context) (err error) {
		all, err = f.c.Semaphore(3).Holders(ctx, f.k)
		return err
	})
	if err == nil && (len(all) != 1 || all[0].ID != r.ID) {
		f.Errorf("Holders: saw %d, want the one that holds", len(all))
	}
	if errors.Is(err, coord.ErrNotHeld) {
		f.Errorf("Holders: saw %v, want a list, or that the store failed", err)
	}
	f.leave(f.rival.Shared(), semaphoreKey(f.k), r)
}
