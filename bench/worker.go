package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// workerEnv makes this program a worker: a process that takes part in a workload.
const workerEnv = "COORD_BENCH_WORKER"

// job is what a worker is told.
type job struct {
	Kind         string // "locks", "wake", "herd" or "permits"
	Store, Addr  string
	Subject      string
	Key, Words   string
	Workers      int
	First        int   // number of the first goroutine; of a wake the side
	Most         int64 // of locks: how many may hold the key at once, 0 is one
	For, Section time.Duration
	Patience     time.Duration
	Rate         bench.Rate
}

// reply is what it answers.
type reply struct {
	Error     string
	PerWorker []int
	Took      time.Duration
	Wait      *bench.Hist    // of locks and wake
	Permits   []bench.Permit // of permits
}

// workerMain reads a job, says that it is ready, waits for the word to go, and replies.
func workerMain() int {
	in := bufio.NewReader(os.Stdin)
	var j job
	err := readLine(in, &j)
	var r *reply
	if err == nil {
		r, err = j.do(in, os.Stdout)
	}
	if err != nil {
		r = &reply{Error: err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "bench worker:", err)
		return 1
	}
	return 0
}

func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// do opens the subject, tries it once, and runs the job.
func (j *job) do(in *bufio.Reader, out io.Writer) (*reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), j.For+2*j.Patience+time.Minute)
	defer cancel()
	st := &store{name: j.Store, addr: j.Addr}
	words, err := mapWords(j.Words)
	if err != nil {
		return nil, err
	}
	sub, ok := subjectNamed(j.Store, j.Subject)
	if !ok {
		return nil, fmt.Errorf("no subject %s on %s", j.Subject, j.Store)
	}
	if j.Kind == "permits" {
		return j.permits(ctx, sub, st, in, out)
	}
	l, err := sub.locks(ctx, st)
	if err != nil {
		return nil, err
	}
	if err := tryLock(ctx, l, fmt.Sprintf("%s-warm-%d", j.Key, os.Getpid())); err != nil {
		return nil, err
	}
	if err := j.awaitGo(in, out); err != nil {
		return nil, err
	}
	// The process ends soon: what hangs, and would keep Close from returning, ends with it.
	switch j.Kind {
	case "locks":
		load := bench.LockLoad{
			Load: bench.Load{Workers: j.Workers, For: j.For, Patience: j.Patience},
			Key:  j.Key, Keys: 1, Section: j.Section, Most: j.Most, First: j.First,
		}
		s, err := bench.Locks(ctx, l, load, words)
		if err != nil {
			return nil, err
		}
		if j.Most > 0 {
			closing(l) // coord gives a place in the queue back in the background
		}
		return &reply{PerWorker: s.PerWorker, Took: s.Took, Wait: &s.Wait}, nil
	case "wake":
		h, err := bench.Wake(ctx, l, j.Key, j.First, time.Now().Add(j.For), words)
		return &reply{Wait: h}, err
	case "herd":
		return &reply{}, bench.Herd(ctx, l, j.Key, j.Workers, j.First, words)
	}
	return nil, fmt.Errorf("no job %q", j.Kind)
}

func (j *job) permits(ctx context.Context, sub subject, st *store, in *bufio.Reader, out io.Writer) (*reply, error) {
	l, err := sub.limits(ctx, st, j.Rate)
	if err != nil {
		return nil, err
	}
	if _, err := l.Allow(ctx, fmt.Sprintf("%s-warm-%d", j.Key, os.Getpid())); err != nil {
		return nil, err
	}
	if err := j.awaitGo(in, out); err != nil {
		return nil, err
	}
	had, err := bench.Saturate(ctx, l, j.Key, j.Workers, time.Now().Add(j.For))
	return &reply{Permits: had}, err
}

func (j *job) awaitGo(in *bufio.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, "\"ready\"\n"); err != nil {
		return err
	}
	var word string
	return readLine(in, &word)
}

// tryLock locks a key of its own: what is done once for each client is done.
func tryLock(ctx context.Context, l bench.Locker, key string) error {
	held, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	return held.Unlock(ctx)
}

// worker is a process that does a job.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startWorkers starts a process for each job, and waits until all are ready.
func startWorkers(ctx context.Context, jobs []job) (list []*worker, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			endWorkers(list)
		}
	}()
	for _, j := range jobs {
		w := &worker{cmd: exec.CommandContext(ctx, exe)}
		w.cmd.Env = append(os.Environ(), workerEnv+"=1")
		w.cmd.Stderr = os.Stderr
		w.cmd.SysProcAttr = workerAttr()
		if w.in, err = w.cmd.StdinPipe(); err != nil {
			return list, err
		}
		out, err := w.cmd.StdoutPipe()
		if err != nil {
			return list, err
		}
		w.out = bufio.NewReader(out)
		if err := w.cmd.Start(); err != nil {
			return list, err
		}
		list = append(list, w)
		if err := json.NewEncoder(w.in).Encode(j); err != nil {
			return list, err
		}
	}
	for _, w := range list {
		var answer json.RawMessage
		if err := readLine(w.out, &answer); err != nil {
			return list, fmt.Errorf("worker: %w", err)
		}
		if string(answer) != `"ready"` {
			var r reply
			return list, errors.Join(json.Unmarshal(answer, &r), errors.New("worker: "+r.Error))
		}
	}
	return list, nil
}

// let lets the workers begin.
func let(list []*worker) error {
	for _, w := range list {
		if _, err := io.WriteString(w.in, "\"go\"\n"); err != nil {
			return err
		}
	}
	return nil
}

// launch starts a process for each job, and lets them begin at once.
func launch(ctx context.Context, jobs []job) ([]*worker, error) {
	list, err := startWorkers(ctx, jobs)
	if err != nil {
		return nil, err
	}
	if err := let(list); err != nil {
		endWorkers(list)
		return nil, err
	}
	return list, nil
}

// replies waits for all workers, or until one fails or ctx ends, and ends them.
func replies(ctx context.Context, list []*worker) ([]reply, error) {
	defer endWorkers(list)
	stop := context.AfterFunc(ctx, func() { killWorkers(list) })
	defer stop()
	all := make([]reply, len(list))
	errs := make(chan error, len(list))
	for i, w := range list {
		go func() { errs <- w.reply(&all[i]) }()
	}
	var failed error
	for range list {
		if err := <-errs; err != nil && failed == nil {
			failed = err
			killWorkers(list)
		}
	}
	return all, failed
}

// reply reads what a worker answers.
func (w *worker) reply(r *reply) error {
	if err := readLine(w.out, r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// killWorkers ends what they do.
func killWorkers(list []*worker) {
	for _, w := range list {
		_ = w.cmd.Process.Kill() // it may have ended
	}
}

// endWorkers kills them: they have said all there is.
func endWorkers(list []*worker) {
	killWorkers(list)
	for _, w := range list {
		_ = w.cmd.Wait() // how does not matter
	}
}

// newWords makes words in a new file, which is there until remove is called.
func newWords() (path string, words *bench.Words, remove func(), err error) {
	dir, remove, err := sharedDir()
	if err != nil {
		return "", nil, nil, err
	}
	path = filepath.Join(dir, "words")
	if words, err = mapWords(path); err != nil {
		remove()
		return "", nil, nil, err
	}
	return path, words, remove, nil
}

// sharedDir is a new directory, in memory where there is such a place.
func sharedDir() (dir string, remove func(), err error) {
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err = os.MkdirTemp(parent, "coord-bench-")
	return dir, func() { os.RemoveAll(dir) }, err
}
