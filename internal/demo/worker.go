package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coordgo/coord"
)

// WorkerCommand is the hidden command by which the program starts itself.
const WorkerCommand = "demo-worker"

// role is what a worker does.
type role string

const (
	seller  role = "seller"
	holder  role = "holder"
	limiter role = "limiter"
)

// worker is a worker process, seen from inside.
type worker struct {
	job
	client *coord.Client
	words  *bufio.Scanner
	out    *json.Encoder
}

// Work is a worker process: it does the job that its environment names and tells out
// what happens.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	w := &worker{words: bufio.NewScanner(in), out: json.NewEncoder(out)}
	text, ok := os.LookupEnv(envJob)
	if !ok {
		return fmt.Errorf("%w: %s is for the demonstration alone", coord.ErrInvalid, WorkerCommand)
	}
	if err := json.Unmarshal([]byte(text), &w.job); err != nil {
		return fmt.Errorf("%w: %s: %w", coord.ErrInvalid, envJob, err)
	}
	if err := w.work(ctx); err != nil {
		return w.out.Encode(event{Kind: failed, Error: err.Error(), Away: errors.Is(err, coord.ErrUnavailable)})
	}
	return nil
}

func (w *worker) work(ctx context.Context) (err error) {
	w.client, err = coord.Open(ctx, os.Getenv(envURL), coord.WithPrefix(w.Keys))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.client.Close()) }()
	if err := w.out.Encode(event{Kind: ready}); err != nil {
		return err
	}
	if !w.told(wordGo) {
		return nil // the stage has gone
	}
	switch w.Role {
	case seller:
		return w.sell(ctx)
	case holder:
		return w.hold(ctx)
	case limiter:
		return w.take(ctx)
	}
	return fmt.Errorf("%w: role %q", coord.ErrInvalid, w.Role)
}

// told waits for a word.
func (w *worker) told(word string) bool { return w.words.Scan() && w.words.Text() == word }

// hold takes the lock and does as it is told until its input ends.
func (w *worker) hold(ctx context.Context) error {
	const key = "resource"
	// One attempt first, so that the stage knows when this process waits.
	lock, err := w.client.TryLock(ctx, key, coord.TTL(w.TTL))
	if errors.Is(err, coord.ErrLocked) {
		if err := w.out.Encode(event{Kind: waiting}); err != nil {
			return err
		}
		lock, err = w.client.Lock(ctx, key, coord.TTL(w.TTL))
	}
	if err != nil {
		return err
	}
	if err := w.out.Encode(event{Kind: held, Token: lock.Token(), TTL: lock.TTL()}); err != nil {
		return err
	}
	for w.words.Scan() {
		e := event{Token: lock.Token()}
		switch w.words.Text() {
		case wordCheck:
			e.Kind, e.Lost = checked, errors.Is(lock.Err(), coord.ErrLost)
		case wordWrite:
			e.Kind = wrote // it writes without looking: that is what tokens are for
		default:
			return fmt.Errorf("%w: word %q", coord.ErrInvalid, w.words.Text())
		}
		if err := w.out.Encode(e); err != nil {
			return err
		}
	}
	if err := lock.Unlock(ctx); err != nil && !errors.Is(err, coord.ErrLost) {
		return err
	}
	return w.words.Err()
}

// take is one permit: the store granted it between Sent and Received, both in
// Unix nanoseconds on this machine's clock.
type take struct{ Sent, Received int64 }

// take asks for permits, as often as it may, for a while.
func (w *worker) take(ctx context.Context) error {
	e := event{Kind: done}
	for end := time.Now().Add(w.Last); time.Now().Before(end); {
		sent := time.Now()
		r, err := w.client.Allow(ctx, "supplier", w.Limit)
		received := time.Now()
		switch {
		case err != nil:
			return err
		case r.Allowed:
			e.Takes = append(e.Takes, take{sent.UnixNano(), received.UnixNano()})
		default:
			e.Denied++
			time.Sleep(min(r.RetryAfter, 5*time.Millisecond))
		}
	}
	return w.out.Encode(e)
}
