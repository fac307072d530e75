package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver/call"
)

const (
	// askWithin bounds a look at the sentinels. It is several round trips around the world,
	// for a new connection takes about five, and it is what a lost connection to the master
	// costs while most sentinels are silent: well below a third of the usual leases.
	askWithin = time.Second
	// lookEvery is from one look to the next while nothing happens: so long a client that
	// no subscription reaches may go on with an old master. Sentinels tell each other of
	// changes as often, so that to look more often shows little more.
	lookEvery = 2 * time.Second
	// rememberEpoch is for how long an epoch counts that no sentinel names any more: five
	// times what they need to tell each other. After that, they have been set up again.
	rememberEpoch = 5 * lookEvery
)

// errClosedResolver ends dials of a resolver that is closed.
var errClosedResolver = errors.New("redis: the client is closed")

// resolver follows the master that sentinels watch. It asks all of them side by side, elects
// the master by [choose], and makes the connections to it. When there is another
// master, all connections to the old one are closed.
//
// go-redis has a client for sentinels, which believes the first that answers. One that is
// cut off together with an old master then makes a second master.
type resolver struct {
	options *redis.UniversalOptions
	peers   []*peer
	log     *slog.Logger
	calls   *call.Calls
	asap    chan struct{} // has room for one: next is to begin now

	mu    sync.Mutex
	now   *master   // nil: none is known
	named time.Time // when a sentinel last named the epoch of now, or a higher one
	next  *election // requested, not begun; or nil
	doubt *election // now is not to be relied on before this has ended; or nil
}

// master is a server as long as it is elected.
type master struct {
	view
	ctx    context.Context // ends when another is elected, and with the resolver
	retire context.CancelFunc
}

// election is one round of questions to all sentinels.
type election struct {
	done chan struct{} // closed when it has ended
	err  error         // why it elected nobody
}

func newResolver(o *redis.UniversalOptions, log *slog.Logger) *resolver {
	r := &resolver{options: o, log: log, calls: call.New(call.Options{ErrClosing: errClosedResolver}), asap: make(chan struct{}, 1)}
	for _, addr := range o.Addrs {
		r.peers = append(r.peers, &peer{addr: addr})
	}
	r.doubt = r.requestLocked()
	r.calls.Go(r.run)
	for _, p := range r.peers {
		r.calls.Go(func() { r.follow(p) })
	}
	return r
}

// close ends all connections, to sentinels and servers, and all goroutines. There may be no resolver.
func (r *resolver) close() {
	if r == nil {
		return
	}
	r.calls.Close()
	r.calls.Wait(closeWaits)
	for _, p := range r.peers {
		p.mu.Lock() // waits for the last question
		if p.client != nil {
			_ = p.client.Close()
		}
		p.mu.Unlock()
	}
}

// run looks when that is requested, and now and then.
func (r *resolver) run() {
	for !r.calls.Closed() {
		r.mu.Lock()
		e := r.requestLocked()
		r.next = nil // whoever requests one from now on may know what this one does not see
		r.mu.Unlock()
		select {
		case <-r.asap: // this is it
		default:
		}
		e.err = r.look()
		r.mu.Lock()
		if r.doubt == e {
			r.doubt = nil
		}
		r.mu.Unlock()
		close(e.done)
		select {
		case <-r.asap:
		case <-time.After(lookEvery):
		case <-r.calls.Life().Done():
		}
	}
}

// request makes run look again.
func (r *resolver) request() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requestLocked()
}

func (r *resolver) requestLocked() *election {
	if r.next == nil {
		r.next = &election{done: make(chan struct{})}
		signal(r.asap)
	}
	return r.next
}

// suspect requests a look, and lets nobody connect to m before that has ended. A connection
// to it has failed, or it is no master: if there is another already, m must not grant
// anything. Unless the sentinels elect another, m stays.
func (r *resolver) suspect(m *master) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m != nil && r.now == m && !r.calls.Closed() {
		r.doubt = r.requestLocked()
	}
}

// suspectNow is suspect of whichever master is known.
func (r *resolver) suspectNow() {
	r.mu.Lock()
	m := r.now
	r.mu.Unlock()
	r.suspect(m)
}

// master gives the present one. If it is in doubt, or none is known, it waits for a look, and while none is
// known and sentinels are silent, for another: they, or this machine, may only be slow.
func (r *resolver) master(ctx context.Context) (*master, error) {
	for {
		r.mu.Lock()
		m, e := r.now, r.doubt
		if m == nil && e == nil {
			e = r.requestLocked()
		}
		r.mu.Unlock()
		if e == nil {
			return m, nil
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.calls.Life().Done():
			return nil, errClosedResolver
		}
		r.mu.Lock()
		m = r.now
		r.mu.Unlock()
		if m != nil {
			return m, nil
		}
		if deadline, ok := ctx.Deadline(); !errors.Is(e.err, errSilent) || ok && time.Until(deadline) < askWithin {
			return nil, e.err
		}
	}
}

// look asks all sentinels and elects the master. A minority that is silent delays nothing, unless the
// others differ.
func (r *resolver) look() error {
	known, answers := r.known(), r.askAll()
	all := poll{configured: len(r.peers)}
	for left := len(r.peers) - 1; left >= 0; left-- {
		a := <-answers
		all.add(a)
		r.heard(a)
		if elected, ok := choose(all.views, all.configured, known, left > 0); ok {
			r.elect(elected)
			return nil
		}
	}
	return &undecided{name: r.options.MasterName, poll: all}
}

// askAll asks all sentinels side by side. The channel gets one answer of each.
func (r *resolver) askAll() <-chan sentinelAnswer {
	answers := make(chan sentinelAnswer, len(r.peers))
	for _, p := range r.peers {
		go func() { answers <- r.ask(p) }()
	}
	return answers
}

// known is the view that is in force, as far as it still counts.
func (r *resolver) known() view {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		return view{}
	}
	known := r.now.view
	if time.Since(r.named) > rememberEpoch {
		known.epoch = 0
	}
	return known
}

// heard notes that the epoch in force is still named.
func (r *resolver) heard(a sentinelAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.err == nil && r.now != nil && a.view.epoch >= r.now.epoch {
		r.named = time.Now()
	}
}

// undecided is the error of a look that elected nobody.
type undecided struct {
	name string
	poll poll
}

func (u *undecided) Error() string {
	return fmt.Sprintf("the sentinels do not agree on the master %q: %v", u.name, u.poll)
}

func (u *undecided) Unwrap() []error { return u.poll.errs }

// elect makes v the view in force, and retires the master before.
func (r *resolver) elect(v view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named = time.Now()
	old := r.now
	if old != nil && old.addr == v.addr {
		old.epoch = v.epoch
		return
	}
	m := &master{view: v}
	m.ctx, m.retire = context.WithCancel(r.calls.Life())
	r.now, r.doubt = m, nil
	if old != nil {
		old.retire()
		r.log.InfoContext(r.calls.Life(), "redis: the sentinels have elected another master", "master", v.addr, "before", old.addr, "epoch", v.epoch)
	}
}
