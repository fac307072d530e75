package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/observe"
)

// A worker is this binary, started again: another process with its own client of
// the store, which a case can kill and freeze. It obeys orders, one line of JSON
// each, on its standard input, and answers each with a line.

// workerEnv holds the URL of the store in a worker's environment.
const workerEnv = "COORD_CONFORMANCE_WORKER"

var workerReady atomic.Bool

// WorkerMain makes of this process a worker if the suite has started it as one; it
// then never returns. Otherwise it returns at once. Call it first thing in
// TestMain, or in main, of a binary that runs the suite with Harness.WorkerURL:
//
//	func TestMain(m *testing.M) {
//		conformance.WorkerMain()
//		os.Exit(m.Run())
//	}
func WorkerMain() {
	workerReady.Store(true)
	url, ok := os.LookupEnv(workerEnv)
	if !ok {
		return
	}
	if err := work(url, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// order is what a worker is told to do, answer what came of it.
type order struct {
	Do      string        `json:"do"`             // lock, try, unlock, state, drain, add
	Kind    string        `json:"kind,omitempty"` // of a lock; "" is an exclusive one
	Key     string        `json:"key,omitempty"`
	TTL     time.Duration `json:"ttl,omitempty"`
	MinHold time.Duration `json:"min_hold,omitempty"`
	Limit   driver.Limit  `json:"limit,omitzero"`
	File    string        `json:"file,omitempty"`    // with a number, to be added to
	Times   int           `json:"times,omitempty"`   // so often
	Lessees int           `json:"lessees,omitempty"` // who drain a limit, and take permits in advance
}

type answer struct {
	Token   coord.Token `json:"token,omitempty"`
	Lost    bool        `json:"lost,omitempty"`    // the holder knows that it lost
	Done    bool        `json:"done,omitempty"`    // and its contexts have ended
	Granted int         `json:"granted,omitempty"` // permits
	Wasted  int         `json:"wasted,omitempty"`  // permits that were taken in advance and lost
	Leases  int         `json:"leases,omitempty"`  // that were taken
	Mute    int         `json:"mute,omitempty"`    // takes that were not answered
	Err     string      `json:"err,omitempty"`
}

// work obeys until its input ends.
func work(url string, in io.Reader, out io.Writer) error {
	c, err := openWorker(url)
	if err != nil {
		return err
	}
	var lock *coord.Lock
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return c.Close()
		} else if err != nil {
			return err
		}
		a, err := obey(c, &lock, url, o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
}

// openWorker opens the store. On a busy machine it may not connect at first.
func openWorker(url string, opts ...coord.Option) (*coord.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	for {
		c, err := coord.Open(ctx, url, opts...)
		if !errors.Is(err, coord.ErrUnavailable) || ctx.Err() != nil {
			return c, err
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// patience is how long an order may take. A lock may have to wait for a lease to lapse.
func (o order) patience() time.Duration { return watchdog + 2*o.TTL }

func obey(c *coord.Client, lock **coord.Lock, url string, o order) (a answer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.patience())
	defer cancel()
	switch {
	case o.Do == "lock" || o.Do == "try":
		l, err := o.take(ctx, c)
		if err != nil {
			return a, err
		}
		*lock = l
		return answer{Token: l.Token()}, nil
	case o.Do == "add":
		return a, addUnderLock(c, o)
	case o.Do == "drain" && o.Lessees > 0:
		return drainInAdvance(ctx, url, o)
	case o.Do == "drain":
		return drain(ctx, c, o)
	case *lock == nil:
		return a, errors.New("no lock")
	case o.Do == "unlock":
		return a, (*lock).Unlock(ctx)
	case o.Do == "state":
		// Err first: it is what a holder that was frozen asks before it writes.
		a = answer{Token: (*lock).Token(), Lost: errors.Is((*lock).Err(), coord.ErrLost)}
		select {
		case <-(*lock).Done():
			a.Done = true
		default:
		}
		return a, nil
	}
	return a, fmt.Errorf("unknown order %q", o.Do)
}

// take takes a lock of the kind that the order names.
func (o order) take(ctx context.Context, c *coord.Client) (*coord.Lock, error) {
	locker := coord.Locker(c)
	for _, k := range []*kind{readKind, writeKind, permitKind} {
		if k.name == o.Kind {
			locker = k.locker(c)
		}
	}
	opts := []coord.LockOption{coord.TTL(o.TTL)}
	if o.MinHold > 0 {
		opts = append(opts, coord.MinHold(o.MinHold))
	}
	if o.Do == "try" {
		return locker.TryLock(ctx, o.Key, opts...)
	}
	return locker.Lock(ctx, o.Key, opts...)
}

// drain asks a limit until it denies.
func drain(ctx context.Context, c *coord.Client, o order) (a answer, err error) {
	for {
		r, err := c.Allow(ctx, o.Key, o.Limit)
		switch {
		case errors.Is(err, coord.ErrUnavailable) && ctx.Err() == nil: // a busy machine may not answer in time
			if errors.Is(err, coord.ErrUnknownOutcome) {
				a.Mute++
			}
		case err != nil, !r.Allowed:
			return a, err
		default:
			a.Granted++
		}
	}
}

// drainInAdvance is drain by a client that takes permits in advance. It gives back what it has left.
func drainInAdvance(ctx context.Context, url string, o order) (a answer, err error) {
	var mu sync.Mutex
	wasted, leases, mute := 0, 0, 0
	c, err := openWorker(url, coord.WithPermitLease(coord.PermitLease{For: 10 * time.Second, Lessees: o.Lessees}),
		coord.WithObserver(observe.Observer{LeaseEnded: func(_ context.Context, l observe.LeaseEnded) {
			mu.Lock()
			defer mu.Unlock()
			wasted, leases = wasted+l.Wasted, leases+1
		}, StoreCalled: func(_ context.Context, call observe.StoreCall) {
			mu.Lock()
			defer mu.Unlock()
			if (call.Op == "take" || call.Op == "takeall") && call.Err != nil && !driver.Definite(call.Err) {
				mute++
			}
		}}))
	if err != nil {
		return a, err
	}
	a, err = drain(ctx, c, o)
	err = errors.Join(err, c.Close())
	mu.Lock()
	defer mu.Unlock()
	a.Wasted, a.Leases, a.Mute = wasted, leases, mute
	return a, err
}

// addUnderLock reads the number in a file and writes the next, so many times: what only
// the lock keeps others out of.
func addUnderLock(c *coord.Client, o order) error {
	ctx, cancel := context.WithTimeout(context.Background(), watchdog+o.patience())
	defer cancel()
	for range o.Times {
		err := coord.Do(ctx, c, o.Key, func(context.Context) error {
			text, err := os.ReadFile(o.File)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(text))
			if err != nil {
				return err
			}
			return os.WriteFile(o.File, []byte(strconv.Itoa(n+1)), 0o600)
		}, coord.TTL(o.TTL))
		if err != nil {
			return err
		}
	}
	return nil
}

// worker is one such process, seen from the case.
type worker struct {
	e       *env
	cmd     *exec.Cmd
	enc     *json.Encoder
	in      io.Closer
	answers chan answer
	exited  chan struct{}

	patience time.Duration // for the answer to the last order
}

// startWorker starts a worker; it ends with the case.
func (e *env) startWorker() *worker {
	exe, err := os.Executable()
	e.noError(err, "path of this binary")
	w := &worker{e: e, cmd: exec.Command(exe), answers: make(chan answer), exited: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+e.r.suite.Harness.WorkerURL)
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	e.noError(err, "worker's input")
	out, err := w.cmd.StdoutPipe()
	e.noError(err, "worker's output")
	e.noError(w.cmd.Start(), "start of a worker")
	w.enc, w.in = json.NewEncoder(in), in
	go w.read(out)
	e.Cleanup(w.kill)
	return w
}

// read hands on the answers until the process ends, and reaps it.
func (w *worker) read(out io.Reader) {
	defer close(w.exited)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			a.Err = fmt.Sprintf("unreadable answer %q", lines.Bytes())
		}
		select {
		case w.answers <- a:
		case <-w.e.ctx.Done():
		}
	}
	// How it ended is no matter: it was killed, or its input ended.
	_ = w.cmd.Wait()
}

// send gives an order without waiting for the answer.
func (w *worker) send(o order) {
	w.patience = 2*watchdog + o.patience()
	w.e.noError(w.enc.Encode(o), "order to a worker")
}

// do gives an order and ends the case if the worker cannot obey.
func (w *worker) do(o order) answer {
	w.send(o)
	return w.answer(o.Do)
}

// try gives an order that the worker may fail to obey.
func (w *worker) try(o order) answer {
	w.send(o)
	return recv(w.e, w.answers, w.patience, "a worker's answer to "+o.Do)
}

func (w *worker) answer(what string) answer {
	a := recv(w.e, w.answers, w.patience, "a worker's answer to "+what)
	if a.Err != "" {
		w.e.Fatalf("worker's %s: saw %s, want no error", what, a.Err)
	}
	return a
}

// kill ends the process as kill -9 does, frozen or not, and waits for its end.
func (w *worker) kill() {
	// The process may have ended already.
	_ = w.cmd.Process.Kill()
	<-w.exited
}

// leave lets the worker end by itself.
func (w *worker) leave() {
	w.e.noError(w.in.Close(), "end of a worker's input")
	recv(w.e, w.exited, watchdog, "a worker's end")
}
