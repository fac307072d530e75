package conformance

import (
	"context"
	"errors"

	"github.com/coordgo/coord"
)

// shareUsages are the uses of shared locks that the fault loop goes through.
func shareUsages(*env) []usage {
	return []usage{
		{name: "Read and Unlock", of: readKind, run: useLock},
		{name: "TryLock of permits", of: permitKind, run: useTryLock},
		{name: "Write behind a reader of another client", of: writeKind, run: useContended},
		{name: "a writer that becomes a reader", of: writeKind, run: useDowngrade},
		{name: "renewal of a reader", of: readKind, run: useRenewal},
		{name: "Holders", of: permitKind, run: useHolders},
	}
}

func useDowngrade(f *faultRun) {
	ctx := coord.WithOwner(f.ctx)
	rw := f.c.ReadWrite()
	w, err := f.lockBy(ctx, rw.Write().Lock)
	if err != nil {
		return
	}
	f.holds(w)
	r, err := f.lockBy(ctx, rw.Read().Lock)
	if err != nil {
		f.Errorf("a writer that enters as a reader: saw %v, want no call on the store that could fail", err)
		_ = f.unlock(w)
		return
	}
	_ = f.inTime("Unlock by a writer that is a reader, too", unlockFor, func() error { return w.Unlock(f.ctx) })
	f.bars(r, writer)
	_ = f.unlock(r)
}

func useHolders(f *faultRun) {
	r := f.taken()
	var all []coord.Holder
	err := f.call("Holders", func(ctx context.Context) (err error) {
		all, err = f.c.Semaphore(2).Holders(ctx, f.k)
		return err
	})
	if err == nil && (len(all) != 1 || all[0].ID != r.ID) {
		f.Errorf("Holders: saw %d, want the one that holds", len(all))
	}
	if errors.Is(err, coord.ErrNotHeld) {
		f.Errorf("Holders: saw %v, want a list, or that the store failed", err)
	}
	f.freed(r)
}
