package observe

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// Lock says which lock an event is about.
type Lock struct {
	// Backend is the store's name: "redis".
	Backend string
	Key     string
	// Mode is what was asked for: driver.Exclusive, or Read, Write or Permits of a shared key.
	Mode driver.Mode
	// Owner names the owner in ctx, as logs do; "" without one.
	Owner string
	// ID names the hold at the store, as Holder.ID does; "" before there is one.
	ID string
	// Token is the hold's fencing token; 0 before there is one.
	Token driver.Token
}

// WaitBegan is a Lock that cannot have its key at once.
type WaitBegan struct {
	Lock
	// HeldBy is the ID of the hold that this client has of the key, "" if another
	// client holds it.
	HeldBy string
}

// WaitEnded is the end of what WaitBegan began.
type WaitEnded struct {
	Lock
	Waited  time.Duration
	Outcome Outcome
	Err     error
}

// Acquired is a lock that was granted.
type Acquired struct {
	Lock
	// Waited since the call.
	Waited time.Duration
	Way    Way
	// TTL of the lease.
	TTL time.Duration
}

// Way is how a lock was had. It is also the text for metrics.
type Way string

const (
	// WayFree: nobody was in the way.
	WayFree Way = "free"
	// WayLocal: behind others of this client, and then at once.
	WayLocal Way = "local"
	// WayHanded: from another goroutine of this client, without asking the store.
	WayHanded Way = "handed"
	// WayPolled: by asking the store again.
	WayPolled Way = "polled"
	// WayQueued: in the store's own queue.
	WayQueued Way = "queued"
)

// Reentered is one handle more on a hold.
type Reentered struct {
	Lock
	// Waited since the call, where the owner's attempt was still on its way.
	Waited time.Duration
	// Depth is how many handles there are now.
	Depth int
}

// Refused is a Lock or TryLock that failed.
type Refused struct {
	Lock
	Waited  time.Duration
	Outcome Outcome
	Err     error
}

// Renewed is a lease that was made longer.
type Renewed struct {
	Lock
	// TTL of the lease.
	TTL time.Duration
	// Took is how long the store took to answer.
	Took time.Duration
}

// RenewFailed is a renewal that failed and will be tried again until Left is over.
type RenewFailed struct {
	Lock
	Took time.Duration
	// Left until the hold is lost.
	Left time.Duration
	Err  error
}

// Lost is a hold that ended before it was unlocked.
type Lost struct {
	Lock
	Held   time.Duration
	Reason Loss
	// Err is coord.ErrLost, and more.
	Err error
}

// Loss is why a hold was lost. It is also the text for metrics.
type Loss string

const (
	// LossExpired: the lease was not renewed in time.
	LossExpired Loss = "expired"
	// LossMaxHold: the hold reached its MaxHold.
	LossMaxHold Loss = "max_hold"
	// LossRevoked: the store said that the hold is gone; someone broke it, or the store lost it.
	LossRevoked Loss = "revoked"
	// LossClosed: the client was closed.
	LossClosed Loss = "closed"
)

// Released is a hold that was unlocked.
type Released struct {
	Lock
	// Held from the grant until the last Unlock of the hold.
	Held time.Duration
	// Took is how long the store took to confirm.
	Took time.Duration
	// HandedOver: the hold went to the next waiter of this client under its own ID, and the
	// store was not asked.
	HandedOver bool
	// Err is set if the store did not confirm: the key is being freed in the background.
	Err error
}
