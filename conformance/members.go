package conformance

import (
	"time"

	"github.com/coordgo/coord/driver"
)

// Members are a store of several members, servers that fail one by one. It need not be the
// store of [Harness.Open]: Open may start it when it is first called.
type Members struct {
	// Open opens a fresh client of the whole store at each call.
	Open func(tb TB) driver.Backend
	// Count is how many members there are. They are numbered from 0.
	Count int
	// LockAt and LimitAt tell which member the lock, or the limit, of a key lives on. nil says
	// that any majority of the members serves every key.
	LockAt, LimitAt func(key string) int
	// Bound is how long a call waits, at most, for a member that does not answer, before it fails or
	// goes on at another member. The cases take leases of three times that.
	Bound time.Duration
	// Hang stops the process of a member (SIGSTOP). CutOff keeps what clients and other members
	// send from reaching it. Slow makes each of its answers late, by half of Bound or so.
	Hang, CutOff, Slow MemberFault
	// Empty restarts a member without its data.
	Empty MemberFault
}

// MemberFault breaks one member, until the function that it gives is called. That one returns when
// the member serves again, and may be nil. A fault that is nil is one that is not tried.
type MemberFault func(tb TB, member int) (end func())

// serves reports whether a key can be served while the failing member cannot. at is LockAt or LimitAt.
func serves(at func(string) int, key string, victim int) bool { return at == nil || at(key) != victim }

// fault is the one that a hook names.
func (m *Members) fault(hk Hook) MemberFault {
	switch hk {
	case HookHang:
		return m.Hang
	case HookCutOff:
		return m.CutOff
	case HookSlow:
		return m.Slow
	}
	return m.Empty
}
