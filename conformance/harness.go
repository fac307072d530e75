package conformance

import (
	"fmt"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// Harness is how the suite gets at a store.
type Harness struct {
	// Open opens a fresh client of the same store at each call. The suite
	// closes it; what else Open starts it ends with tb.Cleanup. Required.
	Open func(tb TB) driver.Backend
	// Claims are what the store claims. They must be those of Info, so that
	// a claim can be neither dropped nor gained in passing.
	Claims driver.Claims
	// Faults breaks the store and the way to it. Without it the cases that
	// need a server's faults are unproven.
	Faults *Faults
	// WorkerURL opens the store in another process, through coord.Open. The
	// binary that runs the suite registers the scheme and calls [WorkerMain].
	// Without it the cases about crashed and frozen clients are unproven.
	WorkerURL string
	// Embedded says that the store is a part of its clients, such as files: there is no server
	// to pause, and no network to it. Cases about these are then unsupported. A store
	// of one process (driver.ScopeProcess) is embedded in any case.
	Embedded bool
	// Members are a store of several servers, one of which fails. Without it, the cases about one
	// member of several do not apply.
	Members *Members
	// FakeTime says that the suite runs in a bubble of testing/synctest, where time passes only while all goroutines wait.
	// When something happens is judged exactly there, and only there: elsewhere a busy machine would be judged.
	FakeTime bool
	// Client adds the cases that judge package coord itself, which takes no more of any store than other cases have seen.
	// They always run in fake time. The tests of coord run them in memory and on Redis.
	Client bool
	// Deviations are where the adapter knowingly does not keep the contract.
	Deviations []Deviation

	election    election                                    // nil functions are those of package coord
	severalKeys severalKeys                                 // nil: those of package coord
	condition   func(c *coord.Client, key string) condition // nil: that of package coord
	under       func(driver.Backend) driver.Backend         // between each client and its driver; nil: nothing
}

// Faults are hooks that break things. Each may be nil: the cases that need it
// are then unproven.
type Faults struct {
	// Link opens a client that reaches the store over a link of its own, so
	// that one client can be cut off while the others work.
	Link func(tb TB) (driver.Backend, Link)
	// Kill ends the store's server as a crash would, Restart starts it again
	// at the same address with what it has kept.
	Kill, Restart func(tb TB)
	// Wipe makes the store lose everything at once, as a flush does, or a crash
	// of a store that keeps nothing. It works on again when Wipe returns.
	Wipe func(tb TB)
	// Pause stops the server's process without ending it (SIGSTOP), Resume
	// lets it go on.
	Pause, Resume func(tb TB)
	// Refuse makes the store refuse what needs more space, as one that is full, or what writes new
	// keys: it goes on serving what it has. Accept ends that. A full disk, a withdrawn permission and a bound on
	// memory are such refusals. A store without any, as one in the process's memory, leaves both nil.
	Refuse, Accept func(tb TB)
	// Failover ends the server that leads, or that has the data, as a crash would, and
	// returns when another has taken over. The server comes back by tb.Cleanup.
	Failover func(tb TB)
	// Skew opens a client whose clock is ahead by so much, or behind if that is
	// negative, from its first call on. A client that never looks at its own clock
	// cannot be skewed: give an ordinary one.
	Skew func(tb TB, ahead time.Duration) driver.Backend
	// Collect removes the account of a limit, over or not, as the store does by itself once it is
	// over: by expiry or by a collector. The case about late debits runs with it, too, where it is there.
	Collect func(tb TB, key string, l driver.Limit)
}

// Hook names what a case needs of the harness.
type Hook string

// The hooks.
const (
	HookLink     Hook = "Faults.Link"
	HookRestart  Hook = "Faults.Kill and Faults.Restart"
	HookWipe     Hook = "Faults.Wipe"
	HookPause    Hook = "Faults.Pause and Faults.Resume"
	HookRefuse   Hook = "Faults.Refuse and Faults.Accept"
	HookFailover Hook = "Faults.Failover"
	HookSkew     Hook = "Faults.Skew"
	HookHang     Hook = "Members.Hang"
	HookCutOff   Hook = "Members.CutOff"
	HookSlow     Hook = "Members.Slow"
	HookEmpty    Hook = "Members.Empty"
	HookWorker   Hook = "Harness.WorkerURL"
	HookFakeTime Hook = "Harness.FakeTime"
)

// shared reports whether using the hook disturbs every client of the store.
func (hk Hook) shared() bool {
	return hk == HookRestart || hk == HookPause || hk == HookWipe || hk == HookRefuse || hk == HookFailover || hk.ofMembers()
}

// ofMembers reports whether the hook is one of Members.
func (hk Hook) ofMembers() bool {
	return hk == HookHang || hk == HookCutOff || hk == HookSlow || hk == HookEmpty
}

// pointless says why a hook can never be there, "" if it could.
func (h *Harness) pointless(hk Hook) string {
	switch {
	case hk == HookWorker && h.Claims.Has(driver.ScopeProcess):
		return "the store is of one process, and the case is about several"
	case (hk == HookLink || hk == HookPause) && (h.Embedded || h.Claims.Has(driver.ScopeProcess)):
		return "the store is embedded: there is no server, and no network to it"
	case hk.ofMembers() && h.Members == nil:
		return "the harness has no Members: the store is one of a single server"
	}
	return ""
}

// lacks says why a hook is missing, "" if it is there.
func (h *Harness) lacks(hk Hook) string {
	f := h.Faults
	if f == nil {
		f = &Faults{}
	}
	var there bool
	switch hk {
	case HookLink:
		there = f.Link != nil
	case HookRestart:
		there = f.Kill != nil && f.Restart != nil
	case HookWipe:
		there = f.Wipe != nil
	case HookPause:
		there = f.Pause != nil && f.Resume != nil
	case HookRefuse:
		there = f.Refuse != nil && f.Accept != nil
	case HookFailover:
		there = f.Failover != nil
	case HookSkew:
		there = f.Skew != nil
	case HookHang, HookCutOff, HookSlow, HookEmpty:
		there = h.Members != nil && h.Members.fault(hk) != nil
	case HookWorker:
		if h.WorkerURL != "" {
			return workerProblem()
		}
	case HookFakeTime:
		if !h.FakeTime {
			return "it needs fake time, which is for stores in the memory of the process"
		}
		there = true
	}
	if there {
		return ""
	}
	return fmt.Sprintf("the harness has no %s", hk)
}
