package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// acquireRequest asks for one key, or for several of them, all or none.
type acquireRequest struct {
	Key       string   `json:"key,omitempty" doc:"The key, of 1 to 1024 bytes"`
	Keys      []string `json:"keys,omitempty" doc:"In place of key: up to 64 keys, all or none"`
	TTL       int64    `json:"ttl_ms,omitempty" doc:"How long the hold lasts without renewal; by default lock.ttl of the configuration, 30000"`
	Wait      int64    `json:"wait_ms,omitempty" doc:"How long to wait for the keys together; 0, the default, is one attempt"`
	Fair      bool     `json:"fair,omitempty" doc:"Wait in the order of all who do so"`
	Mode      string   `json:"mode,omitempty" doc:"exclusive (the default), read, write or permits" enum:"exclusive,read,write,permits"`
	Permits   int      `json:"permits,omitempty" doc:"How many permits a key has, of mode permits"`
	Weight    int      `json:"weight,omitempty" doc:"How many of the permits to hold; 1 by default"`
	Name      string   `json:"name,omitempty" doc:"Who holds it, for people: 1 to 64 printable bytes of ASCII without spaces, with the caller's name and a slash that come before it"`
	RequestID string   `json:"request_id,omitempty" doc:"16 to 128 bytes of chance, new for each hold: a repeated request finds the hold of the first"`

	window time.Duration // of a held stream: the most that an answer promises; 0: the TTL
}

// holdAnswer is what the holder may believe.
type holdAnswer struct {
	ID        string       `json:"id" doc:"Of the hold, to renew and release it"`
	Token     coord.Token  `json:"token,omitempty" doc:"Fencing token of the only key: a decimal number that is greater for each later holder"`
	Remaining int64        `json:"remaining_ms" doc:"You hold it until your clock, when you sent this request, plus this"`
	TTL       int64        `json:"ttl_ms" doc:"How long a renewal lasts at most"`
	Draining  bool         `json:"draining,omitempty" doc:"This server is ending and renews nothing: finish, release, and acquire at another"`
	Locks     []lockAnswer `json:"locks" doc:"Each key, in the order of bytes"`
}

type lockAnswer struct {
	Key   string      `json:"key"`
	Token coord.Token `json:"token" doc:"Fencing token"`
	Slot  int         `json:"slot" doc:"The lowest number that no other holder of the key has: 0, but with modes read and permits"`
}

// The bounds of the id of a request, in bytes. Two who choose the same id are one holder: a short one would not be of
// chance.
const (
	minRequestID = 16
	maxRequestID = 128
)

// requestKey is the id of a request, of that caller. Without an id it is zero.
type requestKey struct {
	c  *caller
	id string
}

// attempt is one acquisition. Requests with one id share it.
type attempt struct {
	request [sha256.Size]byte  // the sum of what was asked, if the request has an id
	cancel  context.CancelFunc // nil once it is done
	waiting int                // requests that wait for it, guarded by Server.mu
	done    chan struct{}
	hold    *hold // set before done is closed, as err is
	err     error
}

// plan is how the locks of a request are taken.
type plan struct {
	keys   []string
	locker coord.Locker
	opts   []coord.LockOption
	ttl    time.Duration // how long the hold lasts without renewal
	wait   time.Duration // 0: one attempt
}

func (s *Server) acquire(ctx context.Context, c *caller, q *acquireRequest) (*holdAnswer, error) {
	h, err := s.acquired(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return h.promise()
}

// acquired is the hold of a request.
func (s *Server) acquired(ctx context.Context, c *caller, q *acquireRequest) (*hold, error) {
	p, err := s.plan(c, q)
	if err != nil {
		return nil, err
	}
	request := requestKey{}
	if q.RequestID != "" {
		request = requestKey{c, q.RequestID}
	}
	a, err := s.join(ctx, c, q, request, p)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	if gone := s.leave(ctx, a, request); gone != nil {
		return nil, gone
	}
	return a.hold, a.err
}

// plan checks a request.
func (s *Server) plan(c *caller, q *acquireRequest) (p plan, err error) {
	p.keys = slices.Compact(slices.Sorted(slices.Values(q.Keys)))
	if q.Key != "" {
		p.keys = append(p.keys, q.Key)
	}
	switch {
	case len(p.keys) == 0 || q.Key != "" && len(p.keys) > 1 || len(p.keys) > coord.MaxDemands:
		return p, invalid(fmt.Sprintf("want key, or keys with 1 to %d of them", coord.MaxDemands))
	case q.Wait < 0 || q.Wait > s.cfg.MaxWait.Milliseconds():
		return p, invalid(fmt.Sprintf("wait_ms %d: want 0 to %d", q.Wait, s.cfg.MaxWait.Milliseconds()))
	case q.TTL < 0 || q.TTL > maxTTL.Milliseconds():
		return p, invalid(fmt.Sprintf("ttl_ms %d: want 1 to %d", q.TTL, maxTTL.Milliseconds()))
	case q.RequestID != "" && (len(q.RequestID) < minRequestID || len(q.RequestID) > maxRequestID):
		return p, invalid(fmt.Sprintf("request_id of %d bytes: want %d to %d, of chance", len(q.RequestID), minRequestID, maxRequestID))
	}
	for _, key := range p.keys {
		if err := c.may(config.Locks, key); err != nil {
			return p, err
		}
	}
	if p.locker, err = s.locker(q.Mode, q.Permits, q.Weight); err != nil {
		return p, err
	}
	p.wait, p.ttl = ms(q.Wait), ms(q.TTL)
	if p.ttl == 0 {
		p.ttl = s.client.Config().Lock.TTL
	}
	if p.ttl == 0 {
		p.ttl = coord.DefaultTTL
	}
	p.opts = append(p.opts, coord.TTL(p.ttl))
	if q.window > 0 {
		p.ttl = min(p.ttl, q.window) // the lease at the store is as long as that of others
	}
	if q.Fair {
		p.opts = append(p.opts, coord.Fair())
	}
	if q.Weight > 0 {
		p.opts = append(p.opts, coord.Weight(q.Weight))
	}
	if name := c.called(q.Name); name != "" {
		p.opts = append(p.opts, coord.HolderName(name))
	}
	return p, nil
}

// sum is equal for requests that ask for the same. Their waits do not count: a repeated one waits as the first one does.
func (q acquireRequest) sum() [sha256.Size]byte {
	q.Wait = 0
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // a value that always marshals
	}
	return sha256.Sum256(text)
}

// maxTTL bounds what a remote holder that has died keeps taken, and how long a server may have to wait for it.
const maxTTL = 24 * time.Hour

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// locker is how a key is held.
func (s *Server) locker(mode string, permits, weight int) (coord.Locker, error) {
	if mode != "permits" && (permits != 0 || weight != 0) {
		return nil, invalid("permits and weight: want mode permits")
	}
	switch mode {
	case "", "exclusive":
		return s.client, nil
	case "read":
		return s.client.ReadWrite().Read(), nil
	case "write":
		return s.client.ReadWrite().Write(), nil
	case "permits":
		if permits < 1 || weight < 0 {
			return nil, invalid("mode permits: want permits of 1 or more")
		}
		return s.client.Semaphore(permits), nil
	}
	return nil, invalid(fmt.Sprintf("mode %q: want exclusive, read, write or permits", mode))
}

// join gives the attempt that a request of this id has begun, or begins one.
func (s *Server) join(ctx context.Context, c *caller, q *acquireRequest, request requestKey, p plan) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.attempts[request]; a != nil {
		if a.request != q.sum() {
			return nil, errRequestID
		}
		a.waiting++
		return a, nil
	}
	switch {
	case s.draining.Load():
		return nil, errDraining
	case c.holds >= s.cfg.MaxHolds:
		return nil, errHolds
	}
	s.occupy(c, 1)
	trying, cancel := s.untilDraining(coord.WithOwner(context.WithoutCancel(ctx)))
	a := &attempt{cancel: cancel, waiting: 1, done: make(chan struct{})}
	if request.c != nil {
		a.request = q.sum()
		s.attempts[request] = a
	}
	go s.attempt(trying, a, c, request, p)
	return a, nil
}

// leave is the end of a request that waited for a. It is an error if ctx has ended and nothing is to be told.
func (s *Server) leave(ctx context.Context, a *attempt, request requestKey) error {
	s.mu.Lock()
	a.waiting--
	finished := a.hold != nil || a.err != nil
	if !finished && a.waiting == 0 {
		a.cancel()
		if s.attempts[request] == a {
			delete(s.attempts, request) // who repeats the request begins again
		}
	}
	s.mu.Unlock()
	if ctx.Err() == nil {
		return nil
	}
	if finished && a.hold != nil && request.c == nil {
		_, _ = a.hold.release(context.WithoutCancel(ctx)) // nobody can have heard of it
	}
	return context.Cause(ctx)
}

// attempt takes the locks of p.
func (s *Server) attempt(ctx context.Context, a *attempt, c *caller, request requestKey, p plan) {
	locks, err := s.takeAll(ctx, p)
	var unheard *hold
	s.mu.Lock()
	a.cancel()
	a.cancel = nil // it keeps the context of a request
	switch {
	case err != nil:
		if a.err = err; s.draining.Load() {
			a.err = errDraining
		}
		s.occupy(c, -1)
		if s.attempts[request] == a {
			delete(s.attempts, request)
		}
	default:
		a.hold = newHold(s, c, request, locks, p.ttl)
		s.holds[a.hold.id] = a.hold
		if a.waiting == 0 {
			unheard = a.hold
		}
	}
	s.mu.Unlock()
	close(a.done)
	if unheard != nil {
		_, _ = unheard.release(context.WithoutCancel(ctx))
	}
}

// takeAll takes the keys in the order of their bytes, so that callers do not wait in a circle; all or none.
func (s *Server) takeAll(ctx context.Context, p plan) (locks []*coord.Lock, err error) {
	take := p.locker.TryLock
	bound := callTime
	if p.wait > 0 {
		take, bound = p.locker.Lock, p.wait
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	defer func() {
		if thrown := recover(); thrown != nil {
			err = s.panicked(thrown)
		}
		if err != nil {
			_, _ = s.unlock(locks)
			locks = nil
		}
	}()
	for _, key := range p.keys {
		l, err := take(ctx, key, p.opts...)
		if err != nil {
			return locks, err
		}
		locks = append(locks, l)
	}
	return locks, nil
}

// idRequest names a hold or a reservation.
type idRequest struct {
	ID string `json:"id" doc:"Of the answer that gave it"`
}

func (s *Server) renew(_ context.Context, c *caller, q *idRequest) (*holdAnswer, error) {
	h, err := s.find(c, q.ID)
	if err != nil {
		return nil, err
	}
	return h.promise()
}

// releaseAnswer tells how a hold ended.
type releaseAnswer struct {
	ID    string `json:"id"`
	Freed bool   `json:"freed" doc:"The store has confirmed it; else the keys become free in the background, at the latest with their leases"`
}

func (s *Server) release(ctx context.Context, c *caller, q *idRequest) (*releaseAnswer, error) {
	h, err := s.find(c, q.ID)
	if err != nil {
		return nil, err
	}
	freed, err := h.release(ctx)
	if err != nil {
		return nil, err
	}
	return &releaseAnswer{h.id, freed}, nil
}

// find is the caller's hold of that id, also if it has ended not long ago.
func (s *Server) find(c *caller, id string) (*hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holds[id]; h != nil && h.c == c {
		return h, nil
	}
	return nil, errUnknown
}

// maxEnded is how many holds of a caller that have ended a server remembers, for requests that are repeated.
const maxEnded = 10_000

// forget counts a hold as ended, and drops the oldest of those that have.
func (s *Server) forget(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.occupy(h.c, -1)
	h.c.ended = append(h.c.ended, h)
	if len(h.c.ended) > maxEnded {
		old := h.c.ended[0]
		h.c.ended[0] = nil
		h.c.ended = h.c.ended[1:]
		delete(s.holds, old.id)
		if a := s.attempts[old.request]; a != nil && a.hold == old {
			delete(s.attempts, old.request)
		}
	}
}

// occupy counts a hold, or an attempt at one, that begins or ends. It is called with s.mu locked.
func (s *Server) occupy(c *caller, n int) {
	c.holds += n
	s.live += n
	s.meters.hold(int64(n))
	s.changed()
}
