package memcached

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// enter probes the servers and writes the list to them. It fails if one of them refuses, or none answers.
//
// All servers are asked first, so a client that one of them refuses writes to none. Then the list is
// written in the order of the names: of two clients with different lists, which begin at the same
// time, the one that is first on the first server of both lists gets in.
func (b *backend) enter(ctx context.Context) error {
	if err := b.look(ctx); err != nil {
		return err
	}
	var failed []error
	for _, addr := range b.pools.addrs {
		p := b.pools.byAddr[addr]
		told := p.told.Load()
		if told == nil {
			continue // it is away
		}
		if b.info.Server == "" {
			b.info.Server = strings.TrimSpace("memcached " + told.version)
		}
		err := p.named(b.claim(ctx, p))
		if full(err) {
			b.log.WarnContext(ctx, "memcached: a server is full: it grants nothing new", "error", err)
			continue // what it has can be looked at, renewed and unlocked
		}
		if err == nil {
			continue
		}
		failed = append(failed, err)
		if refusal(err) || ctx.Err() != nil || len(failed) == len(b.pools.addrs) {
			return errors.Join(failed...)
		}
	}
	return nil
}

// look probes all servers at once and looks whose list they have.
func (b *backend) look(ctx context.Context) error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok && len(b.pools.addrs) > 1 {
		// A silent server leaves time to write the list to the others.
		within, cancel = context.WithTimeout(ctx, time.Until(end)/2)
	}
	defer cancel()
	errs := b.pools.each(func(p *pool) error {
		_, err := runOn(within, b, p, func(c *call) (struct{}, error) {
			err := c.probe()
			if err == nil {
				_, err = c.lookAtList()
			}
			return struct{}{}, err
		})
		return err
	})
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if ctx.Err() != nil || len(errs) == len(b.pools.addrs) || slices.ContainsFunc(errs, refusal) {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		b.log.WarnContext(ctx, "memcached: a server does not answer: calls on its keys fail until it does", "error", err)
	}
	return nil
}

// refusal reports whether a server has answered, and will not do.
func refusal(err error) bool { return answered(err) || errors.Is(err, errLogin) }

// claim writes the list to a server.
func (b *backend) claim(ctx context.Context, p *pool) error {
	_, err := runOn(ctx, b, p, func(c *call) (struct{}, error) { return struct{}{}, c.enter() })
	return err
}

// maintain refreshes the list on a server, and closes connections to it that are not needed, until ctx ends.
func (b *backend) maintain(ctx context.Context, p *pool) {
	tick := time.NewTicker(p.life / 3)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.prune(last)
			last = now
		}
		_, before := p.seen.get()
		// A server that is away is warned of by those whose calls fail.
		_ = b.claim(ctx, p)
		if _, other := p.seen.get(); other != nil && before == nil {
			b.log.ErrorContext(ctx, "memcached: nothing is granted until all clients have the same list of servers", "error", other)
		}
	}
}
