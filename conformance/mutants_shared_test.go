package conformance_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

type (
	record   = holders.Record
	lockStep = func(r *record, q driver.Request, now time.Time) (driver.Grant, error)
)

// Bugs of keys that several hold: who is let in, and what is counted.
var sharedMutants = slices.Concat(sharedBoundMutants, sharedLeaseMutants, sharedQueueMutants, sharedSeenMutants)

var sharedBoundMutants = []mutant{
	{
		name: "share claimed and not there", bug: "shared is claimed, and the method is missing", sound: "sharing",
		new: on(func(s store) driver.Backend { return unshared{s} }), killers: []string{"LOCK-301"},
	}, {
		name: "holders of one client", bug: "the record is kept in the client, and not in the store", sound: "sharing",
		new: sharing(sharedBug{own: true}), killers: []string{"LOCK-301", "LOCK-351", "LOCK-355"},
	}, {
		name: "writer beside readers", bug: "a writer looks for another writer alone", sound: "sharing",
		new: sharing(sharedBug{tryLock: hiding(func(q driver.Request, h *holders.Hold) bool {
			return q.Share.Mode == driver.Write && h.Share.Mode == driver.Read
		})}), killers: []string{"LOCK-301", "LOCK-313", "LOCK-321", "LOCK-336"},
	}, {
		name: "reader beside a writer", bug: "readers count readers, and do not look for a writer", sound: "sharing",
		new: sharing(sharedBug{tryLock: hiding(func(q driver.Request, h *holders.Hold) bool {
			return q.Share.Mode == driver.Read && h.Share.Mode == driver.Write
		})}), killers: []string{"LOCK-301", "LOCK-321", "LOCK-336"},
	}, {
		name: "one permit more", bug: "it is tested whether there is room, and not whether there is room after the grant", sound: "sharing",
		new: sharing(sharedBug{tryLock: bounded(1)}), killers: []string{"LOCK-303", "LOCK-321", "LOCK-331"},
	}, {
		name: "one permit less", bug: "< for <=: the last permit is never granted", sound: "sharing",
		new: sharing(sharedBug{tryLock: bounded(-1)}), killers: []string{"LOCK-303", "LOCK-321"},
	}, {
		name: "count, then take", bug: "the record is written without comparing what was read (kazoo 213)", sound: "sharing",
		new: sharing(sharedBug{twoSteps: true}), killers: []string{"LOCK-321"},
	}, {
		name: "holders counted, not weights", bug: "each holder counts as one, whatever it takes", sound: "sharing",
		new: sharing(sharedBug{tryLock: weighed(func(int64) int64 { return 1 })}), killers: []string{"LOCK-303", "LOCK-331"},
	}, {
		name: "weights of 32 bits", bug: "weights are added up as 32-bit integers", sound: "sharing",
		new: sharing(sharedBug{tryLock: weighed(func(w int64) int64 { return w % (1 << 31) })}), killers: []string{"LOCK-303"},
	}, {
		name: "bound of the first client", bug: "the capacity is stored by whoever comes first, and never changed (Redisson 4678)", sound: "sharing",
		new: func() harness { return sharing(sharedBug{tryLock: firstBound()})() }, killers: []string{"LOCK-304"},
	}, {
		name: "bound of the request alone", bug: "the live holds' own bounds are not looked at", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			for i := range r.Holds {
				r.Holds[i].Share.Of = q.Share.Of
			}
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-304"},
	}, {
		name: "holders without a bound", bug: "a record of holders grows for ever", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			return r.TryLock(q, now, holders.Rules{MaxHolders: math.MaxInt})
		}}), killers: []string{"LOCK-314"},
	}, {
		name: "key cut at NUL", bug: "the record's name ends where a C string does", sound: "sharing",
		new: sharing(sharedBug{name: func(key string) string {
			name, _, _ := strings.Cut(key, "\x00")
			return name
		}}), killers: []string{"LOCK-320", "LOCK-343"},
	},
}

// hiding has TryLock not see some of the holds.
func hiding(unseen func(q driver.Request, h *holders.Hold) bool) lockStep {
	return func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
		var hidden []holders.Hold
		r.Holds = slices.DeleteFunc(slices.Clone(r.Holds), func(h holders.Hold) bool {
			if unseen(q, &h) {
				hidden = append(hidden, h)
				return true
			}
			return false
		})
		g, err := r.TryLock(q, now, sharedRules)
		r.Holds = append(hidden, r.Holds...)
		return g, err
	}
}

// bounded asks with a bound that is off by so much.
func bounded(off int64) lockStep {
	return func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
		if q.Share.Mode == driver.Permits {
			q.Share.Of += off
		}
		g, err := r.TryLock(q, now, sharedRules)
		g.Of -= off
		return g, err
	}
}

// weighed counts another weight than was asked for.
func weighed(weigh func(int64) int64) lockStep {
	return func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
		if q.Share.Mode == driver.Permits {
			q.Share.Weight = weigh(q.Share.Weight)
		}
		return r.TryLock(q, now, sharedRules)
	}
}

func firstBound() lockStep {
	bounds := make(map[*record]int64)
	return func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
		if q.Share.Mode == driver.Permits {
			if bounds[r] == 0 {
				bounds[r] = q.Share.Of
			}
			q.Share.Of = bounds[r]
		}
		return r.TryLock(q, now, sharedRules)
	}
}

var sharedLeaseMutants = []mutant{
	{
		name: "dead holders counted", bug: "the permits of a holder that died are never free again (Redisson 2045)", sound: "sharing",
		new: sharing(sharedBug{tryLock: immortal}), killers: []string{"LOCK-306"},
	}, {
		name: "dead holders pruned at a release", bug: "leases that have ended are looked for when somebody unlocks, and not when somebody asks (Redisson 4100)", sound: "sharing",
		new: sharing(sharedBug{tryLock: immortal, unlock: func(r *record, id string, now time.Time) error {
			for i := range r.Holds {
				r.Holds[i].Until = min(r.Holds[i].Until, now.UnixMicro()+r.Holds[i].TTL)
			}
			return r.Unlock(id, now, sharedRules)
		}}), killers: []string{"LOCK-306"},
	}, {
		name: "live holders pruned by the TTL of who asks", bug: "who asks for a short lease removes all holds that are older than that (the semaphore of a ZSET)", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			r.Holds = slices.DeleteFunc(r.Holds, func(h holders.Hold) bool {
				return h.ID != q.ID && h.Until-h.TTL < now.Add(-q.TTL).UnixMicro()
			})
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-306"},
	}, {
		name: "record that ends with the first lease", bug: "all holders are one key of the store, which expires as a whole", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			if slices.ContainsFunc(r.Holds, func(h holders.Hold) bool { return h.Until <= now.UnixMicro() }) {
				r.Holds = nil
			}
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-306"},
	}, {
		name: "renewal of one renews all", bug: "the expiry of the record is prolonged, and not that of a hold: the dead live as long as anybody", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.Renew(q, now, sharedRules)
			for i := range r.Holds {
				r.Holds[i].TTL = max(r.Holds[i].TTL, q.TTL.Microseconds())
				r.Holds[i].Until = max(r.Holds[i].Until, now.Add(q.TTL).UnixMicro())
			}
			return g, err
		}}), killers: []string{"LOCK-306"},
	}, {
		name: "lease of a share half as long as it says", bug: "the store is asked for less than is reported", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			asked := q.TTL
			q.TTL /= 2
			g, err := r.TryLock(q, now, sharedRules)
			g.TTL = max(asked, g.TTL)
			return g, err
		}}), killers: []string{"LOCK-306", "LOCK-337"},
	}, {
		name: "renewal of a share that re-creates", bug: "a renewal is written as a take: it brings back what was released", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-312", "LOCK-339"},
	}, {
		name: "renewal that raises", bug: "a renewal writes the share that it was sent with, also when that is late", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.Renew(q, now, sharedRules)
			for i := range r.Holds {
				if h := &r.Holds[i]; h.ID == q.ID {
					h.Share = q.Share
				}
			}
			return g, err
		}}), killers: []string{"LOCK-312", "LOCK-313"},
	}, {
		name: "weight forgotten on renewal", bug: "a renewal writes a line without the weight, which is 1 then", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			if q.Share.Mode == driver.Permits {
				q.Share.Weight = 1
			}
			return r.Renew(q, now, sharedRules)
		}}), killers: []string{"LOCK-312", "LOCK-318"},
	}, {
		name: "renewal of a share that shortens", bug: "a renewal with a shorter TTL takes back what was promised", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.Renew(q, now, sharedRules)
			for i := range r.Holds {
				if h := &r.Holds[i]; h.ID == q.ID {
					h.Until = now.Add(q.TTL).UnixMicro()
				}
			}
			return g, err
		}}), killers: []string{"LOCK-312"},
	}, {
		name: "repeated take counted twice", bug: "an attempt that is sent again adds its weight again", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.TryLock(q, now, sharedRules)
			for i := range r.Holds {
				if h := &r.Holds[i]; err == nil && h.ID == q.ID && i < len(r.Holds)-1 {
					h.Share.Weight += q.Share.Weight
				}
			}
			return g, err
		}}), killers: []string{"LOCK-311"},
	}, {
		name: "repeated take refused by its own hold", bug: "the id is not looked for before there is found to be no room", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			other := q
			other.ID, other.Share.Head = q.ID+"x", false
			before := *r
			before.Holds = slices.Clone(r.Holds)
			if _, err := before.TryLock(other, now, sharedRules); err != nil && !q.Share.Head {
				return driver.Grant{}, err
			}
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-311"}, // a history may do without a repeated take
	}, {
		name: "release of a lapsed id frees its slot", bug: "the slot is released whose number the id had, whoever has it now", sound: "sharing",
		new: func() harness { return sharing(bySlot())() }, killers: []string{"LOCK-306"},
	}, {
		name: "release of whoever is first", bug: "a release lowers a count, and compares no id", sound: "sharing",
		new: sharing(sharedBug{unlock: func(r *record, id string, now time.Time) error {
			if len(r.Holds) > 0 {
				id = r.Holds[0].ID
			}
			return r.Unlock(id, now, sharedRules)
		}}), killers: []string{"LOCK-301", "LOCK-306", "LOCK-334", "LOCK-335", "LOCK-342"},
	}, {
		name: "token of the slot", bug: "who follows in a slot gets the token of the holder before", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.TryLock(q, now, sharedRules)
			g.Token = int64(g.Slot) + 1
			return g, err
		}}), killers: []string{"LOCK-307", "LOCK-308", "LOCK-321", "LOCK-332"},
	}, {
		name: "token that readers share", bug: "a reader beside readers gets their token", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.TryLock(q, now, sharedRules)
			if n := len(r.Holds); err == nil && n > 1 && q.Share.Mode == driver.Read {
				r.Holds[n-1].Token = r.Holds[0].Token
				g.Token = r.Holds[0].Token
			}
			return g, err
		}}), killers: []string{"LOCK-307", "LOCK-308", "LOCK-321", "LOCK-332"},
	}, {
		name: "token that ends with the last holder", bug: "the count is in the record, which goes with the last hold", sound: "sharing",
		new: sharing(sharedBug{unlock: func(r *record, id string, now time.Time) error {
			err := r.Unlock(id, now, sharedRules)
			if len(r.Holds) == 0 {
				r.Token = 0
			}
			return err
		}}), killers: []string{"LOCK-307", "LOCK-332"},
	}, {
		name: "slot by position", bug: "the slot is the position in the list of holders, which moves", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.TryLock(q, now, sharedRules)
			if err == nil {
				g.Slot = slices.IndexFunc(r.Holds, func(h holders.Hold) bool { return h.ID == q.ID })
			}
			return g, err
		}}), killers: []string{"LOCK-308", "LOCK-321", "LOCK-331"},
	}, {
		name: "batch that knows one hold of a key", bug: "the answers of a batch are matched by key", sound: "sharing",
		new: sharing(sharedBug{batch: func(l sharedLocker, holds []driver.Hold) []driver.Renewal {
			byKey := make(map[string]driver.Renewal)
			for _, h := range holds {
				g, err := l.Renew(context.Background(), h.Key, h.Request)
				byKey[h.Key] = driver.Renewal{Grant: g, Err: err}
			}
			out := make([]driver.Renewal, len(holds))
			for i, h := range holds {
				out[i] = byKey[h.Key]
			}
			return out
		}}), killers: []string{"LOCK-318", "LOCK-344"},
	},
}

// immortal counts leases that have ended.
func immortal(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
	for i := range r.Holds {
		h := &r.Holds[i]
		if h.ID != q.ID && h.Until <= now.UnixMicro() {
			h.Until, h.TTL = now.Add(time.Hour).UnixMicro(), time.Hour.Microseconds()
		}
	}
	return r.TryLock(q, now, sharedRules)
}

// bySlot remembers the slots of ids that are over.
func bySlot() sharedBug {
	slots := make(map[string]int)
	return sharedBug{
		tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			g, err := r.TryLock(q, now, sharedRules)
			if err == nil {
				slots[q.ID] = g.Slot
			}
			return g, err
		},
		unlock: func(r *record, id string, now time.Time) error {
			err := r.Unlock(id, now, sharedRules)
			slot, known := slots[id]
			if err != nil && known {
				r.Holds = slices.DeleteFunc(r.Holds, func(h holders.Hold) bool { return h.Slot == slot })
			}
			return err
		},
	}
}

var sharedQueueMutants = []mutant{
	{
		name: "head that is ignored", bug: "newcomers take what becomes free, and who needs more waits for ever (Redisson 5379)", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			q.Share.Head = false
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-305", "LOCK-313", "LOCK-333"},
	}, {
		name: "head without an end", bug: "the mark of a head that died stays", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			if r.Head.ID != "" {
				r.Head.Until = now.Add(driver.HeadFor).UnixMicro()
			}
			return r.TryLock(q, now, sharedRules)
		}}), killers: []string{"LOCK-310"},
	}, {
		name: "place of a dead first that stays", bug: "the place at the head of the queue has a lease of its own that is long", sound: "sharing",
		new: sharing(sharedBug{places: func(d time.Duration) time.Duration { return d + time.Hour }}), killers: []string{"LOCK-347"},
	}, {
		name: "head that stays after its grant", bug: "the mark is left to its time, so that newcomers wait for nobody", sound: "sharing",
		new: sharing(sharedBug{tryLock: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			head := r.Head
			g, err := r.TryLock(q, now, sharedRules)
			if err == nil && head.ID == q.ID {
				r.Head = head
			}
			return g, err
		}}), killers: []string{"LOCK-305"},
	}, {
		name: "head that cannot give up", bug: "Unlock looks for a hold, and leaves the mark (Curator 462)", sound: "sharing",
		new: sharing(sharedBug{unlock: func(r *record, id string, now time.Time) error {
			head := r.Head
			r.Head = holders.Mark{}
			err := r.Unlock(id, now, sharedRules)
			r.Head = head
			return err
		}}), killers: []string{"LOCK-305", "LOCK-313", "LOCK-319"},
	}, {
		name: "head that keeps its holders from renewing", bug: "a mark of another id refuses whoever asks, holders too", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			if r.Head.ID != "" && r.Head.ID != q.ID && now.UnixMicro() < r.Head.Until {
				return driver.Grant{}, driver.ErrNotHeld
			}
			return r.Renew(q, now, sharedRules)
		}}), killers: []string{"LOCK-305", "LOCK-313"},
	}, {
		name: "downgrade in two steps", bug: "a writer that becomes a reader is released and asks again (Curator 276)", sound: "sharing",
		new: sharing(sharedBug{renew: func(r *record, q driver.Request, now time.Time) (driver.Grant, error) {
			i := slices.IndexFunc(r.Holds, func(h holders.Hold) bool { return h.ID == q.ID })
			if i < 0 || r.Holds[i].Share.Mode == q.Share.Mode {
				return r.Renew(q, now, sharedRules)
			}
			if err := r.Unlock(q.ID, now, sharedRules); err != nil {
				return driver.Grant{}, err
			}
			if g, err := r.TryLock(q, now, sharedRules); err == nil {
				return g, nil
			}
			return driver.Grant{}, driver.ErrNotHeld
		}}), killers: []string{"LOCK-313", "LOCK-339"},
	}, {
		name: "change that is not pushed", bug: "who listens for changes is told that it listens, and nothing more", sound: "sharing",
		new: sharing(sharedBug{mute: true}), killers: []string{"LOCK-319"},
	},
}

var sharedSeenMutants = []mutant{
	{
		name: "dead holder listed", bug: "Holders reads lines, and not whether they have ended", sound: "sharing",
		new: sharing(sharedBug{live: func(r *record, now time.Time) []driver.Holder {
			var all []driver.Holder
			for _, h := range r.Holds {
				seen := driver.NewHolder(h.ID, h.Token, max(1, time.UnixMicro(h.Until).Sub(now)))
				seen.Mode, seen.Weight, seen.Of, seen.Slot, seen.Released = h.Share.Mode, h.Share.Weight, h.Share.Of, h.Slot, h.Broken
				all = append(all, seen)
			}
			return all
		}}), killers: []string{"LOCK-306"},
	}, {
		name: "one holder listed", bug: "Holders shows the last one, as Inspect does", sound: "sharing",
		new: sharing(sharedBug{live: func(r *record, now time.Time) []driver.Holder {
			all := r.Live(now)
			return all[max(0, len(all)-1):]
		}}), killers: []string{"LOCK-314", "LOCK-316"},
	}, {
		name: "broken share freed at once", bug: "the next one is granted while the broken holder still works", sound: "sharing",
		new: sharing(sharedBug{breaks: func(r *record, id string, now time.Time) error {
			return r.Unlock(id, now, sharedRules)
		}}), killers: []string{"LOCK-317"},
	}, {
		name: "broken share renewed", bug: "it says that the hold is revoked, and the holder renews on", sound: "sharing",
		new: sharing(sharedBug{breaks: func(r *record, id string, _ time.Time) error {
			if !slices.ContainsFunc(r.Holds, func(h holders.Hold) bool { return h.ID == id }) {
				return driver.ErrNotHeld
			}
			return nil
		}}), killers: []string{"LOCK-317", "LOCK-341"},
	}, {
		name: "broken share that is kept", bug: "BreakNow finds the holds that were not broken alone", sound: "sharing",
		new: sharing(sharedBug{breaksNow: func(r *record, id string, now time.Time) error {
			return r.Unlock(id, now, sharedRules)
		}}), killers: []string{"LOCK-348"},
	}, {
		name: "broken shares freed together", bug: "BreakNow ends all holds that were broken, and all that were not", sound: "sharing",
		new: sharing(sharedBug{breaksNow: func(r *record, id string, now time.Time) error {
			if err := r.BreakNow(id, now, sharedRules); err != nil {
				return err
			}
			r.Holds = nil
			return nil
		}}), killers: []string{"LOCK-348"},
	},
}

type unshared struct{ store }

func (unshared) Shared() driver.SharedLocker { return driver.Unimplemented{} }
