package etcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/coordgo/coord/driver"
)

// Most holds are short, and made by a client that made the one before. Such a hold has a name that only
// this client uses, and for one entry at a time: whatever the store has under it is that hold. So it is
// deleted without a condition, which costs a server less than a transaction, and what was deleted is
// looked at afterwards.
//
// That stands as long as no other entry can have the name while the deletion is under way. Hence the
// slot is taken from the entry until the store has answered; and if it does not answer, so that the deletion
// may come at any time, or the making of the entry may, none of the names used so far is used again.

// ownName gives the entry of p if it can be deleted so, and takes its slot. It is a hold that is not
// watched yet: of one that is, the store tells when somebody has broken it, and it is not deleted then.
func (b *backend) ownName(p place) (e *entry, slot int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e = b.entries[p]
	if e == nil || e.state != held || e.slot == noSlot || e.adopted || e.tail != "" || e.unguard != nil || !time.Now().Before(e.deadline) {
		return nil, noSlot
	}
	slot, e.slot = e.slot, noSlot
	e.guardAt = time.Time{} // that it goes now is no loss
	return e, slot
}

// unlockOwn deletes e.
func (b *backend) unlockOwn(ctx context.Context, e *entry, slot int) error {
	a, err := b.perform(ctx, step{place: b.names.line(e.key), del: &pb.DeleteRangeRequest{Key: []byte(e.name), PrevKv: true}})
	if err != nil && driver.Definite(err) {
		b.keepName(e, slot)
		return err
	}
	b.ungive(e.key, slot, err)
	if err != nil {
		return err
	}
	b.left(e, true)
	gone := a.del.PrevKvs
	if len(gone) != 1 || gone[0].CreateRevision != e.create || string(gone[0].Value) != heldValue(e.id) {
		return driver.ErrNotHeld
	}
	return nil
}

// keepName gives the slot back to an entry that was not deleted.
func (b *backend) keepName(e *entry, slot int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.state == dropped {
		b.giveSlot(e.key, slot)
		return
	}
	e.slot = slot
}
