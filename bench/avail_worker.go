package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// The lines that a worker writes: a letter and the wall clock in nanoseconds.
const (
	lineHeld     = 'h' // it holds the lock
	lineReleased = 'r' // it believed in its hold until now
	lineLost     = 'l' // it found now that the lock is lost
	lineFailed   = 'f' // a call of Lock or Campaign failed
	lineStill    = 's' // it believed until now, and goes on
)

const (
	sectionMin   = 20 * time.Millisecond // a holder works for 20 to 80 ms
	sectionMax   = 80 * time.Millisecond
	availPause   = 20 * time.Millisecond // after a call that failed
	availAttempt = 10 * time.Second      // the bound of a call of Lock
)

// available locks one key, or campaigns for it, again and again until it is killed, and tells what it holds.
func (j *job) available(ctx context.Context, st *store, in *bufio.Reader, out io.Writer) error {
	sub, ok := availSubjectNamed(j.Kind, j.Store, j.Subject)
	if !ok {
		return fmt.Errorf("no subject %s on %s", j.Subject, j.Store)
	}
	if sub.candidate != nil {
		return j.campaigns(ctx, sub, st, in, out)
	}
	l, err := sub.open(ctx, st, sub.ttl)
	if err != nil {
		return err
	}
	if err := j.awaitGo(in, out); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := holdOnce(ctx, l, j.Key, out); err != nil {
			return err
		}
	}
	return nil
}

// holdOnce takes the lock, works under it, and gives it back. It fails only when it cannot write.
func holdOnce(ctx context.Context, l availLock, key string, out io.Writer) error {
	attempt, cancel := context.WithTimeout(ctx, availAttempt)
	held, err := l.lock(attempt, key)
	cancel()
	if err != nil {
		time.Sleep(availPause)
		return tell(out, lineFailed, time.Now())
	}
	if err := tell(out, lineHeld, time.Now()); err != nil {
		return err
	}
	time.Sleep(sectionMin + rand.N(sectionMax-sectionMin))
	// The moment comes before the question: the hold was good until then.
	until, line := time.Now(), byte(lineReleased)
	if held.err() != nil {
		line = lineLost
	}
	if err := tell(out, line, until); err != nil {
		return err
	}
	freeing, done := context.WithTimeout(ctx, availAttempt)
	defer done()
	_ = held.unlock(freeing) // of a lost lock it fails, and the lease ends the others
	return nil
}

func tell(out io.Writer, line byte, at time.Time) error {
	_, err := fmt.Fprintf(out, "%c%d\n", line, at.UnixNano())
	return err
}
