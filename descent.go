package coord

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/internal/hold"
)

// A context names the entries under which it was made: it has a list of links, the innermost first. What a Lock under it
// enters again is found there (reentrant.go).

// entryKey is a key of a client, as the application gave it.
type entryKey struct {
	c     *Client
	space space
	key   string
}

// link is one place in the list.
type link struct {
	entryKey
	outer  *link
	lock   atomic.Pointer[Lock] // the entry; nil while Cond.Wait has given it up, and where there is none
	bound  *holdCtx             // the context that ends with the entry's hold, if it is one
	owner  *owner               // of WithOwner
	wall   bool                 // what is further out is not entered
	hides  bool                 // what is further out of this key is not entered, whatever client and space
	nobody bool                 // what is locked is not its owner's, for it is a Do's
}

type linkKey struct{}

// linkCtx is a context with one link more.
type linkCtx struct {
	context.Context
	link link
}

func (c *linkCtx) Value(key any) any {
	if _, ok := key.(linkKey); ok {
		return &c.link
	}
	return c.Context.Value(key)
}

func linkOf(ctx context.Context) *link {
	k, _ := ctx.Value(linkKey{}).(*link)
	return k
}

func withLink(ctx context.Context) *linkCtx {
	if ctx == nil {
		panic("cannot create context from nil parent")
	}
	c := &linkCtx{Context: ctx}
	c.link.outer = linkOf(ctx)
	return c
}

// Detach gives ctx without the locks that it was made under: a [Do] or Lock under it contends with them as a stranger does,
// and waits for them. ctx still ends with them, and [Held] still gives them.
func Detach(ctx context.Context) context.Context {
	c := withLink(ctx)
	c.link.wall = true
	return c
}

// Go runs fn in a new goroutine that contends with its caller: it waits for locks that the caller holds (see [Detach]).
func Go(ctx context.Context, fn func(context.Context)) {
	ctx = Detach(ctx)
	go fn(ctx)
}

// WithOwner is for one goroutine that takes locks by hand, with Lock and TryLock, and passes no context of theirs on:
// under the context that it gives, each enters the one before of the same key. Locks of outside are not entered (see
// [Detach]).
//
// Two goroutines that share the context enter each other's locks: they do not exclude each other. A [Do] needs no owner, and
// under one, too, calls of Do in two goroutines exclude each other.
func WithOwner(ctx context.Context) context.Context {
	c := withLink(ctx)
	c.link.wall, c.link.owner = true, &owner{n: owners.Add(1)}
	return c
}

// without gives ctx under which what it has of key is not entered.
func without(ctx context.Context, key string) context.Context {
	c := withLink(ctx)
	c.link.hides, c.link.key = true, key
	return c
}

// ofNobody gives ctx under which what is locked is not its owner's.
func ofNobody(ctx context.Context) context.Context {
	if ownerOf(ctx) == nil {
		return ctx
	}
	c := withLink(ctx)
	c.link.nobody = true
	return c
}

// entry finds what a Lock of key enters, nil if nothing. o is the owner whose the handle becomes, if any.
func (k *link) entry(key entryKey) (n *Lock, o *owner) {
	nobody := false
	for ; k != nil; k = k.outer {
		if n == nil && k.entryKey == key {
			n = k.lock.Load().live()
		}
		if k.hides && k.key == key.key {
			return n, nil
		}
		nobody = nobody || k.nobody
		if k.wall {
			o = k.owner
			break
		}
	}
	if o == nil {
		return n, nil
	}
	if m := o.of(key); m != nil && (n == nil || m.h == n.h && m.depth > n.depth) {
		n = m
	}
	if nobody {
		o = nil
	}
	return n, o
}

// each calls f with the entries of a client that a Lock could enter, until f reports false.
func (k *link) each(f func(entryKey, *Lock) bool) {
	for ; k != nil; k = k.outer {
		if l := k.lock.Load().live(); l != nil && !f(k.entryKey, l) {
			return
		}
		if k.wall {
			k.owner.each(f)
			return
		}
	}
}

// owner is who locks by hand.
type owner struct {
	n      uint64
	mu     sync.Mutex
	newest map[entryKey]*Lock // its newest handle of each key
}

var owners atomic.Uint64

func ownerOf(ctx context.Context) *owner {
	for k := linkOf(ctx); k != nil; k = k.outer {
		if k.wall {
			return k.owner
		}
	}
	return nil
}

// String names the owner in logs.
func (o *owner) String() string {
	if o == nil {
		return hold.NoOwner
	}
	return "owner-" + strconv.FormatUint(o.n, 10)
}

func (o *owner) of(key entryKey) *Lock {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newest[key].live()
}

func (o *owner) each(f func(entryKey, *Lock) bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, l := range o.newest {
		if l = l.live(); l != nil && !f(key, l) {
			return
		}
	}
}

// made notes that l is o's newest.
func (o *owner) made(key entryKey, l *Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil {
		o.newest = make(map[entryKey]*Lock)
	}
	o.newest[key], l.owner = l, o
}

// forget drops l, which was unlocked.
func (o *owner) forget(key entryKey, l *Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest[key] != l {
		return
	}
	if p := l.parent.live(); p != nil && p.owner == o {
		o.newest[key] = p
	} else {
		delete(o.newest, key)
	}
}
