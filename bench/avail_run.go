package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// availRunner runs one subject through one plan of faults.
type availRunner struct {
	st    *store
	job   job
	d     time.Duration
	began time.Time

	mu  sync.Mutex // guards what follows, and the fields of processes
	now [availProcesses]*availProcess
	run availRun
}

// availProcess is a process that wants the lock or campaigns, in one of the places of a run. One that is killed
// is replaced by another in the same place.
type availProcess struct {
	*worker
	place   int
	stopped sync.Mutex // held while it is frozen: it is frozen once at a time
	frozen  []span     // when it stood still
	open    *heldSpan  // the hold or term that it is in
	gone    chan struct{}
}

// availability is what came of a run of length d under the faults of a seed.
func availability(ctx context.Context, sub availSubject, st *store, key string, d time.Duration, seed uint64) (figures, error) {
	r := &availRunner{st: st, d: d, job: job{
		Kind: sub.work.name, Store: st.name, Addr: st.addr, Subject: sub.name, Key: key, Patience: d + time.Minute,
	}}
	err := r.through(ctx, sub.plan(seed, d))
	r.end()
	if err != nil {
		return nil, err
	}
	return r.run.figures(), nil
}

func (r *availRunner) through(ctx context.Context, plan []fault) (err error) {
	server, err := os.FindProcess(r.st.pid)
	if err != nil {
		return err
	}
	var faults sync.WaitGroup
	errs := make(chan error, len(plan))
	jobs := make([]job, availProcesses)
	for i := range jobs {
		jobs[i] = r.job
	}
	ws, err := startWorkers(ctx, jobs)
	if err != nil {
		return err
	}
	r.began = time.Now()
	for i, w := range ws {
		r.put(i, w)
	}
	if err := let(ws); err != nil {
		return err
	}
	for _, f := range plan {
		if err = until(ctx, r.began.Add(f.At)); err != nil {
			break
		}
		f.Worker = r.victim(f)
		switch {
		case f.Resign:
			errs <- r.resign(f.Worker)
		case f.Kill:
			errs <- r.replace(ctx, f.Worker)
		case f.Worker == storeFault:
			faults.Go(func() { errs <- freeze(ctx, server, f.For) })
		default:
			faults.Go(func() { errs <- r.freezeProcess(ctx, f) })
		}
	}
	err = errors.Join(err, until(ctx, r.began.Add(r.d)))
	faults.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// put puts a process in a place, and reads what it tells until it ends.
func (r *availRunner) put(place int, w *worker) {
	p := &availProcess{worker: w, place: place, gone: make(chan struct{})}
	r.mu.Lock()
	r.now[place] = p
	r.mu.Unlock()
	go r.read(p)
}

func (r *availRunner) read(p *availProcess) {
	defer close(p.gone)
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			break
		}
		r.told(p, line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close(p, time.Since(r.began), true) // it did nothing after it was killed
}

func (r *availRunner) told(p *availProcess, line string) {
	nanos, err := strconv.ParseInt(line[1:len(line)-1], 10, 64)
	if err != nil {
		return // a reply, and no line of a hold
	}
	at := time.Unix(0, nanos).Sub(r.began)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch line[0] {
	case lineHeld:
		p.open = &heldSpan{span: span{from: at}, by: p}
	case lineStill:
		if p.open != nil {
			p.open.sure = at
		}
	case lineFailed:
		r.run.errors++
	case lineReleased, lineLost:
		r.close(p, at, line[0] == lineLost)
	}
}

// close ends the hold that p is in. The mutex is held.
func (r *availRunner) close(p *availProcess, at time.Duration, lost bool) {
	if h := p.open; h != nil && h.from >= 0 && h.from < r.d {
		h.to, h.lost = min(at, r.d), lost
		r.run.holds = append(r.run.holds, *h)
	}
	p.open = nil
}

// victim is the place that a fault hits. That of the leader is known by what the processes have told: one that is frozen,
// or was and has told nothing since, is not hit again as the leader.
func (r *availRunner) victim(f fault) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	place, since := f.Worker, time.Duration(-1)
	if f.Leader {
		for _, p := range r.now {
			if told := p.toldToLead(); told > since {
				place, since = p.place, told
			}
		}
	}
	return place
}

// toldToLead is when p told last that it leads: -1 if it does not, or was frozen since. The mutex is held.
func (p *availProcess) toldToLead() time.Duration {
	if p.open == nil {
		return -1
	}
	told := max(p.open.from, p.open.sure)
	if n := len(p.frozen); n > 0 && p.frozen[n-1].from > told {
		return -1
	}
	return told
}

// resign asks the process of a place to give leadership back, if it has it.
func (r *availRunner) resign(place int) error {
	r.mu.Lock()
	p := r.now[place]
	r.mu.Unlock()
	_, err := io.WriteString(p.in, "\"resign\"\n")
	return err
}

// replace kills the process of a place, and starts another there.
func (r *availRunner) replace(ctx context.Context, place int) error {
	r.mu.Lock()
	old := r.now[place]
	r.mu.Unlock()
	old.kill()
	ws, err := startWorkers(ctx, []job{r.job})
	if err != nil {
		return err
	}
	r.put(place, ws[0])
	return let(ws)
}

// kill ends p once all that it told has been read.
func (p *availProcess) kill() {
	killWorkers([]*worker{p.worker})
	<-p.gone
	endWorkers([]*worker{p.worker})
}

// freezeProcess stops the process of a place for a while.
func (r *availRunner) freezeProcess(ctx context.Context, f fault) error {
	r.mu.Lock()
	p := r.now[f.Worker]
	r.mu.Unlock()
	p.stopped.Lock()
	defer p.stopped.Unlock()
	r.mu.Lock()
	i := len(p.frozen)
	p.frozen = append(p.frozen, span{time.Since(r.began), r.d})
	r.mu.Unlock()
	err := freeze(ctx, p.cmd.Process, f.For)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.frozen[i].to = time.Since(r.began)
	return err
}

// freeze stops a process for d. One that has been killed meanwhile is fine.
func freeze(ctx context.Context, p *os.Process, d time.Duration) error {
	if err := signalTo(p, syscall.SIGSTOP); err != nil {
		return err
	}
	err := until(ctx, time.Now().Add(d))
	return errors.Join(err, signalTo(p, syscall.SIGCONT))
}

func signalTo(p *os.Process, sig os.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// end kills the processes. What happened is complete then.
func (r *availRunner) end() {
	r.run.took = min(time.Since(r.began), r.d)
	for _, p := range r.now {
		if p != nil {
			p.kill()
		}
	}
}

// until waits for a time.
func until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
