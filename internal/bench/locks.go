package bench

import (
	"context"
	"fmt"
	"time"
)

// Locker is a lock of any library.
type Locker interface {
	// Lock waits for the key.
	Lock(ctx context.Context, key string) (Held, error)
}

// Held is a lock that is held.
type Held interface {
	Unlock(ctx context.Context) error
}

// LockLoad is a use of locks.
type LockLoad struct {
	Load
	Key     string        // of it, or before its number
	Keys    int           // 1: all contend; as many as workers: none does
	Section time.Duration // what a holder does
	// Most is how many may hold a key at once; 0 is one.
	Most int64
}

// LockSample is what a use of locks came to. An operation is Lock, the section and Unlock.
type LockSample struct {
	*Sample
	Wait     Hist    // from the call of Lock until it is held
	Moving   float64 // the share of holds of the first key that went to another worker than had it before
	Overlaps int     // how often more held a key than may
}

// Locks measures clients of one store, each of which has as many of the workers.
func Locks[L Locker](ctx context.Context, clients []L, load LockLoad) (*LockSample, error) {
	keys, registers := make([]string, load.Keys), make([]Register, load.Keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", load.Key, i)
	}
	waits := make([]Hist, load.Workers)
	sample, err := Run(ctx, load.Load, func(ctx context.Context, worker int) error {
		i := worker % load.Keys
		began := time.Now()
		held, err := clients[worker%len(clients)].Lock(ctx, keys[i])
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		waits[worker].Add(time.Since(began))
		load.inside(&registers[i], int64(worker+1))
		if err := held.Unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &LockSample{Sample: sample, Moving: registers[0].Moving()}
	for i := range waits {
		s.Wait.Merge(&waits[i])
	}
	for i := range registers {
		s.Overlaps += registers[i].Overlaps()
	}
	return s, nil
}

// inside is what a holder does.
func (l LockLoad) inside(r *Register, who int64) {
	if l.Most > 0 {
		r.EnterShared(1, l.Most)
		defer r.LeaveShared(1)
	} else {
		r.Enter(who)
		defer r.Leave(who)
	}
	if l.Section > 0 {
		time.Sleep(l.Section)
	}
}

// Jain is Jain's index of fairness of what each of several got: 1 if all got the same, 1/n
// if one of n got everything. Where nobody got anything nobody was preferred: 1.
func Jain(got []int) float64 {
	var sum, squares float64
	for _, g := range got {
		sum += float64(g)
		squares += float64(g) * float64(g)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}
