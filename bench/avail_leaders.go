package main

import (
	"bufio"
	"context"
	"io"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/coordgo/coord"
)

// availCandidate campaigns for one key in a process that may be frozen or killed at any time.
type availCandidate interface {
	// lead runs fn as the leader, in a term or in one after the other. The context of fn ends when the term is known
	// to be lost. Where fn returns before, the key is given back and lead returns.
	lead(ctx context.Context, key string, fn func(context.Context) error) error
}

func coordCandidate(ctx context.Context, s *store, ttl time.Duration) (availCandidate, error) {
	l, err := openAvailCoord(ctx, s, ttl)
	if err != nil {
		return nil, err
	}
	return l.(availCoord), nil
}

func (a availCoord) lead(ctx context.Context, key string, fn func(context.Context) error) error {
	return coord.Lead(ctx, a.Locker, key, fn, coord.TTL(a.ttl))
}

// availElection is the election of package concurrency of etcd, one term a call.
type availElection struct{ availSession }

func electionCandidate(_ context.Context, s *store, ttl time.Duration) (availCandidate, error) {
	c, err := newEtcd(s)
	return &availElection{availSession{c: c, ttl: ttl}}, err
}

// lead campaigns under the context of the session: Campaign does not notice that its session has ended, and would wait on.
func (a *availElection) lead(ctx context.Context, key string, fn func(context.Context) error) error {
	s, err := a.live()
	if err != nil {
		return err
	}
	e := concurrency.NewElection(s, key)
	if err := e.Campaign(s.Ctx(), "leader"); err != nil {
		return err
	}
	if fn(s.Ctx()) != nil {
		return nil // the session has ended, and the term with it
	}
	resigning, done := context.WithTimeout(ctx, availAttempt)
	defer done()
	return e.Resign(resigning)
}

// leadStep is how often a leader asks whether it leads still.
const leadStep = 20 * time.Millisecond

// campaigns campaigns for one key until the process is killed, and tells when it leads.
func (j *job) campaigns(ctx context.Context, sub availSubject, st *store, in *bufio.Reader, out io.Writer) error {
	c, err := sub.candidate(ctx, st, sub.ttl)
	if err != nil {
		return err
	}
	if err := j.awaitGo(in, out); err != nil {
		return err
	}
	resign := make(chan struct{}, 1)
	go resignations(in, resign)
	var broken error // it cannot tell
	for ctx.Err() == nil && broken == nil {
		err := c.lead(ctx, j.Key, func(term context.Context) error {
			select {
			case <-resign: // it was not for this term
			default:
			}
			var lost error
			lost, broken = leads(term, resign, out)
			return lost
		})
		if err != nil && broken == nil {
			time.Sleep(availPause)
			broken = tell(out, lineFailed, time.Now())
		}
	}
	return broken
}

// resignations passes on the words of its parent process, each of which asks the leader to resign.
func resignations(in *bufio.Reader, resign chan<- struct{}) {
	for word := ""; readLine(in, &word) == nil; {
		select {
		case resign <- struct{}{}:
		default:
		}
	}
}

// leads is a term: it works in steps until the term is lost, or until it is asked to resign. It asks before each step, and
// a term that is lost ends with the last step for which the answer was yes: how long a loss takes to be heard by a process
// that gets no processor says nothing about a library.
func leads(term context.Context, resign <-chan struct{}, out io.Writer) (lost, broken error) {
	line, sure := byte(lineHeld), time.Time{}
	for {
		// The moment comes before the question: the term was good until then.
		until := time.Now()
		if lost = term.Err(); lost != nil && sure.IsZero() {
			return lost, nil // it was lost before it began
		} else if lost != nil {
			return lost, tell(out, lineLost, sure)
		}
		if broken = tell(out, line, until); broken != nil || line == lineReleased {
			return nil, broken
		}
		line, sure = lineStill, until
		select {
		case <-time.After(leadStep):
		case <-term.Done():
		case <-resign:
			line = lineReleased
		}
	}
}
