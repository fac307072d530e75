package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
	"github.com/coordgo/coord/rules"
)

// hold sends more requests than a long window admits, and counts.
func (r *report) hold(ctx context.Context, p *program.Program, clients ...*coord.Client) error {
	l := &ledger{policies: map[string]int64{"held": int64(*bound)}}
	var mu sync.Mutex
	sent, ok, denied := 0, 0, 0
	err := l.both(clients, rules.Limit{Name: "held", Limit: coord.PerHour(*bound)}, func(url string) error {
		a, err := hey(ctx, url, *requests, *connections)
		mu.Lock()
		defer mu.Unlock()
		sent, ok, denied = sent+len(a.took), ok+a.status[200], denied+a.status[429]
		return err
	})
	if err = errors.Join(err, l.err()); err != nil {
		return err
	}
	r.Held = held{Requests: sent, Bound: *bound, Admitted: ok, Denied: denied, Read: len(l.admitted) + l.denied}
	p.Check(ok == *bound && len(l.admitted) == ok && ok+denied == sent && r.Held.Read == sent,
		"hey sent %d requests: %d were admitted of %d, %d denied", sent, ok, *bound, denied)
	return nil
}

// keepRate sends as many requests as can be sent, under a limit of a second.
func (r *report) keepRate(ctx context.Context, p *program.Program, clients ...*coord.Client) error {
	const rate, per = 200, time.Second
	l := &ledger{policies: map[string]int64{"rate": rate}}
	var mu sync.Mutex
	sent, ok := 0, 0
	err := l.both(clients, rules.Limit{Name: "rate", Limit: coord.Per(rate, per)}, func(url string) error {
		all, admitted, err := wrk(ctx, url, *connections, *during)
		mu.Lock()
		defer mu.Unlock()
		sent, ok = sent+all, ok+admitted
		return err
	})
	if err = errors.Join(err, l.err()); err != nil {
		return err
	}
	r.Rate = rated{Requests: sent, Rate: rate, Per: per, For: *during, Admitted: ok, Most: l.most(per), Read: len(l.admitted) + l.denied}
	p.Check(0 < r.Rate.Most && r.Rate.Most <= rate && ok <= len(l.admitted) && sent <= r.Rate.Read,
		"wrk sent %d requests in %v: %d were admitted, in any %v at most %d of %d", sent, *during, ok, per, r.Rate.Most, rate)
	p.Say("the fields of %d answers were read, and say what they should", r.Held.Read+r.Rate.Read)
	return nil
}

// both puts load on a server of each client, all at once.
func (l *ledger) both(clients []*coord.Client, limit rules.Limit, load func(url string) error) (err error) {
	var running sync.WaitGroup
	failed := make([]error, len(clients))
	for i, client := range clients {
		handler, err := behind(client, limit)
		if err != nil {
			return err
		}
		s, err := serve(l.before(handler))
		if err != nil {
			return err
		}
		running.Go(func() { failed[i] = errors.Join(load(s.url), s.end()) })
	}
	running.Wait()
	return errors.Join(failed...)
}
