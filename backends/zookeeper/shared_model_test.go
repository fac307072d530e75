package zookeeper

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
	"github.com/coordgo/coord/internal/testserver"
)

// A random walk of several clients finds nothing that the record of holders, which decides on other stores, does not
// say. Headships and leases end with sessions here: the record's clock stands still, and a session that ends is taken
// out of it.
func TestSharedHoldsKeepToTheRecord(t *testing.T) {
	t.Parallel()
	srv := testserver.ZooKeeper(t, testserver.WithConfig("maxSessionTimeout=3600000"))
	walkShared(t, 800, func(int) string { return urlWith(t, srv.Addr, time.Hour) }) // no lease ends meanwhile
}

// The same where each client is at another server, which may be behind.
func TestNightlySharedHoldsKeepToTheRecordInAnEnsemble(t *testing.T) {
	t.Parallel()
	c := testserver.ZooKeeperCluster(t, testserver.WithConfig("syncLimit=30", "maxSessionTimeout=3600000"))
	walkShared(t, 400, func(i int) string { return urlWith(t, c.Nodes[i%3].Addr, time.Hour) }) // no lease ends meanwhile
}

type sharedWalk struct {
	t       *testing.T
	rand    *rand.Rand
	url     func(i int) string
	clients []*backend
	keys    []string
	records map[string]*holders.Record
	ids     map[string][]walkID // by key
	last    map[string]int64    // greatest token
	tokens  map[string]int64    // by id
	owners  map[string]*backend // by id
	broken  map[string]bool     // by id
	now     time.Time
	counts  map[string]int
}

// walkID is an id, and the client that has it.
type walkID struct {
	driver.Request
	client *backend
}

func walkShared(t *testing.T, steps int, url func(i int) string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &sharedWalk{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), url: url, keys: []string{"a/é", "b"},
		records: map[string]*holders.Record{}, ids: map[string][]walkID{}, last: map[string]int64{},
		tokens: map[string]int64{}, owners: map[string]*backend{}, broken: map[string]bool{}, now: time.Now(), counts: map[string]int{},
	}
	for i := range 3 {
		w.clients = append(w.clients, connect(t, url(i)))
	}
	for _, key := range w.keys {
		w.records[key] = &holders.Record{}
	}
	for i := 0; i < steps || steps >= 800 && w.lacks() != "" && i < 10*steps; i++ { // fewer steps may go without some
		w.step()
		if t.Failed() {
			t.Fatalf("in step %d", i)
		}
	}
	t.Logf("%v", w.counts)
	if lacking := w.lacks(); lacking != "" && steps >= 800 {
		t.Errorf("no %s in %d steps", lacking, 10*steps)
	}
}

// lacks gives something that has not come about, "" if everything has.
func (w *sharedWalk) lacks() string {
	for _, want := range []string{"try granted", "try refused", "try repeated", "renew held", "renew smaller", "unlock held", "break held", "break now held", "session ended", "head refused"} {
		if w.counts[want] == 0 {
			return want
		}
	}
	return ""
}

func (w *sharedWalk) step() {
	key := w.keys[w.rand.IntN(len(w.keys))]
	switch n := w.rand.IntN(100); {
	case n < 30:
		w.try(key, w.fresh(key))
	case n < 45:
		w.tryAgain(key)
	case n < 65:
		w.renew(key)
	case n < 90:
		w.unlock(key)
	case n < 92:
		w.breakHold(key)
	case n < 94:
		w.breakNow(key)
	case n < 96:
		w.endSession()
	default:
		w.compare(key)
	}
	w.compare(key)
}

// fresh makes an id, with a share of what the key is mostly used for.
func (w *sharedWalk) fresh(key string) walkID {
	share := reading
	switch n := w.rand.IntN(10); {
	case key == "b" && n < 9:
		of := 3 + w.rand.Int64N(4)
		share = permits(1+w.rand.Int64N(of), of)
	case n < 2:
		share = writing
	}
	share.Head = w.rand.IntN(8) == 0
	id := walkID{sharedRequest("w", share), w.clients[w.rand.IntN(len(w.clients))]}
	w.owners[id.ID] = id.client
	w.ids[key] = append(w.ids[key], id)
	if len(w.ids[key]) > 12 {
		w.ids[key] = slices.Delete(w.ids[key], 0, 1)
	}
	return id
}

// pick gives an id of a key, more often one that holds or is the head.
func (w *sharedWalk) pick(key string) (id walkID, ok bool) {
	ids := w.ids[key]
	for range 3 {
		if len(ids) == 0 {
			return walkID{}, false
		}
		id = ids[w.rand.IntN(len(ids))]
		if w.hold(key, id.ID) != nil || w.records[key].Head.ID == id.ID {
			break
		}
	}
	return id, true
}

// hold gives the hold of an id in the record.
func (w *sharedWalk) hold(key, id string) *holders.Hold {
	r := w.records[key]
	i := slices.IndexFunc(r.Holds, func(h holders.Hold) bool { return h.ID == id })
	if i < 0 {
		return nil
	}
	return &r.Holds[i]
}

func (w *sharedWalk) rules() holders.Rules { return holders.Rules{MaxHolders: maxHolders} }

func (w *sharedWalk) tryAgain(key string) {
	id, ok := w.pick(key)
	if !ok || w.broken[id.ID] { // the core uses no id again, and its client may not have seen yet that a broken one was freed
		return
	}
	w.try(key, id)
}

func (w *sharedWalk) try(key string, id walkID) {
	h := w.hold(key, id.ID)
	want, wantErr := w.records[key].TryLock(id.Request, w.now, w.rules())
	got, err := id.client.Shared().TryLock(w.t.Context(), key, id.Request)
	if w.isUnknown(key, id, err) {
		return
	}
	if !sameOutcome(err, wantErr) {
		w.t.Errorf("TryLock of %+v on %s: %v, want %v\nrecord %+v", id.Share, key, err, wantErr, w.records[key])
		return
	}
	switch {
	case err != nil && id.Share.Head:
		w.counts["head refused"]++
		return
	case err != nil:
		w.counts["try refused"]++
		return
	case h != nil:
		w.counts["try repeated"]++
		if got.Token != w.tokens[id.ID] {
			w.t.Errorf("token %d of a repeated attempt, want %d", got.Token, w.tokens[id.ID])
		}
	default:
		w.counts["try granted"]++
		if got.Token <= w.last[key] || got.TTL <= 0 || got.Since.IsZero() {
			w.t.Errorf("%+v after token %d", got, w.last[key])
		}
		w.last[key], w.tokens[id.ID] = got.Token, got.Token
	}
	if got.Slot != want.Slot || got.Of != want.Of {
		w.t.Errorf("slot %d of %d, want %d of %d\nrecord %+v", got.Slot, got.Of, want.Slot, want.Of, w.records[key])
	}
}

func (w *sharedWalk) renew(key string) {
	id, ok := w.pick(key)
	if !ok {
		return
	}
	h := w.hold(key, id.ID)
	r := id.Request
	r.Share.Head = false
	switch {
	case r.Share.Mode == driver.Write:
		r.Share = reading
	case r.Share.Mode == driver.Permits:
		r.Share.Weight = 1 + w.rand.Int64N(2)
	}
	if h != nil && !h.Broken && h.Share.Shrunk(r.Share) != h.Share {
		w.counts["renew smaller"]++
	}
	want, wantErr := w.records[key].Renew(r, w.now, w.rules())
	got, err := id.client.Shared().Renew(w.t.Context(), key, r)
	if w.isUnknown(key, id, err) {
		return
	}
	if !sameOutcome(err, wantErr) {
		w.t.Errorf("Renew to %+v on %s: %v, want %v\nrecord %+v", r.Share, key, err, wantErr, w.records[key])
	}
	if err != nil {
		return
	}
	w.counts["renew held"]++
	if got.Slot != want.Slot || got.Of != want.Of || got.Token != w.tokens[id.ID] {
		w.t.Errorf("renewal: %+v, want %+v and token %d", got, want, w.tokens[id.ID])
	}
}

func (w *sharedWalk) unlock(key string) {
	id, ok := w.pick(key)
	if !ok {
		return
	}
	if w.rand.IntN(5) == 0 {
		id.client = w.clients[w.rand.IntN(len(w.clients))]
	}
	wantErr := w.records[key].Unlock(id.ID, w.now, w.rules())
	err := id.client.Shared().Unlock(w.t.Context(), key, id.ID)
	if w.isUnknown(key, id, err) {
		return
	}
	if !sameOutcome(err, wantErr) {
		w.t.Errorf("Unlock on %s: %v, want %v\nrecord %+v", key, err, wantErr, w.records[key])
	} else if err == nil {
		w.counts["unlock held"]++
	}
}

func (w *sharedWalk) breakHold(key string) {
	id, ok := w.pick(key)
	if !ok {
		return
	}
	w.broken[id.ID] = true
	client := w.clients[w.rand.IntN(len(w.clients))]
	wantErr := w.records[key].Break(id.ID, w.now, w.rules())
	err := client.Shared().Break(w.t.Context(), key, id.ID)
	if w.isUnknown(key, id, err) {
		return
	}
	if !sameOutcome(err, wantErr) {
		w.t.Errorf("Break on %s: %v, want %v\nrecord %+v", key, err, wantErr, w.records[key])
	} else if err == nil {
		w.counts["break held"]++
	}
}

func (w *sharedWalk) breakNow(key string) {
	id, ok := w.pick(key)
	if !ok {
		return
	}
	client := w.clients[w.rand.IntN(len(w.clients))]
	wantErr := w.records[key].BreakNow(id.ID, w.now, w.rules())
	err := client.Shared().BreakNow(w.t.Context(), key, id.ID)
	if w.isUnknown(key, id, err) {
		return
	}
	if !sameOutcome(err, wantErr) {
		w.t.Errorf("BreakNow on %s: %v, want %v\nrecord %+v", key, err, wantErr, w.records[key])
	} else if err == nil {
		w.counts["break now held"]++
	}
}

// endSession ends one client. All that it had has gone with its session.
func (w *sharedWalk) endSession() {
	w.counts["session ended"]++
	i := w.rand.IntN(len(w.clients))
	gone := w.clients[i]
	endSession(gone)
	w.clients[i] = connect(w.t, w.url(i))
	for _, key := range w.keys {
		r := w.records[key]
		w.ids[key] = slices.DeleteFunc(w.ids[key], func(id walkID) bool { return id.client == gone })
		r.Holds = slices.DeleteFunc(r.Holds, func(h holders.Hold) bool { return w.owners[h.ID] == gone })
		if w.owners[r.Head.ID] == gone {
			r.Head = holders.Mark{}
		}
	}
}

// isUnknown ends what the id has if the outcome of a call is unknown, because its connection broke. What is broken
// stays.
func (w *sharedWalk) isUnknown(key string, id walkID, err error) bool {
	if err == nil || driver.Definite(err) {
		return false
	}
	w.t.Logf("%s: %v", id.ID, err)
	w.counts["unknown"]++
	if h := w.hold(key, id.ID); h != nil && h.Broken { // perhaps it is not
		_ = id.client.Shared().Break(w.t.Context(), key, id.ID)
		return true
	}
	eventually(w.t, "an outcome of Unlock", func() bool {
		err := id.client.Shared().Unlock(w.t.Context(), key, id.ID)
		return err == nil || errors.Is(err, driver.ErrNotHeld)
	})
	_ = w.records[key].Unlock(id.ID, w.now, w.rules()) // it may not be there
	return true
}

// compare compares what an operator sees.
func (w *sharedWalk) compare(key string) {
	want := w.records[key].Live(w.now)
	client := w.clients[w.rand.IntN(len(w.clients))]
	got, err := client.Shared().Holders(w.t.Context(), key)
	for n := 0; err != nil; n++ {
		if w.t.Logf("Holders: %v", err); n == 10 {
			w.t.Fatal("no answer")
		}
		eventually(w.t, "a connection", func() bool { return client.Ping(w.t.Context()) == nil })
		got, err = client.Shared().Holders(w.t.Context(), key)
	}
	show := func(hs []driver.Holder) string {
		var s string
		for _, h := range hs {
			s += fmt.Sprintf("%s %v %d of %d, slot %d, released %v; ", h.ID, h.Mode, h.Weight, h.Of, h.Slot, h.Released)
		}
		return s
	}
	if show(got) != show(want) {
		w.t.Errorf("holders of %s:\n%s\nwant\n%s", key, show(got), show(want))
	}
}

func sameOutcome(got, want error) bool {
	for _, target := range []error{driver.ErrLocked, driver.ErrNotHeld} {
		if errors.Is(want, target) {
			return errors.Is(got, target)
		}
	}
	return (got == nil) == (want == nil)
}
