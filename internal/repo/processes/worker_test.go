package processes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/etcd"
	_ "github.com/coordgo/coord/backends/redis"
)

// workerEnv makes a worker of this binary, and tells it what to do.
const workerEnv = "COORD_PROCESSES_WORKER"

// job is what each process does: with so many goroutines ask one limit, and ask again as
// soon as there may be a permit.
type job struct {
	URL, Key   string
	Limit      coord.Limit
	Lease      *coord.PermitLease
	Goroutines int
	For        time.Duration
}

// outcome is what a process saw. Times are the machine's, in Unix nanoseconds.
type outcome struct {
	Admitted [][2]int64 // asked, had
	Leased   int        // of them without the store
	Denied   int
	Wasted   int
	Returned int
	Err      string
}

// inLeases is how many permits leases had, whatever has become of them.
func (o *outcome) inLeases() int { return o.Leased + o.Wasted + o.Returned }

func TestMain(m *testing.M) {
	if text := os.Getenv(workerEnv); text != "" {
		if err := workerMain(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func workerMain(text string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	var o outcome
	var mu sync.Mutex
	opts := []coord.Option{
		coord.WithLogger(slog.New(slog.DiscardHandler)),
		coord.WithObserver(coord.Observer{
			Allowed: func(_ context.Context, e coord.Decision) {
				mu.Lock()
				defer mu.Unlock()
				if e.Leased {
					o.Leased++
				}
			},
			LeaseEnded: func(_ context.Context, e coord.LeaseEnded) {
				mu.Lock()
				defer mu.Unlock()
				o.Wasted += e.Wasted
				o.Returned += e.Returned
			},
		}),
	}
	if j.Lease != nil {
		opts = append(opts, coord.WithPermitLease(*j.Lease))
	}
	c, err := coord.Open(context.Background(), j.URL, opts...)
	if err != nil {
		return err
	}
	if _, err := c.Peek(context.Background(), j.Key, j.Limit); err != nil {
		return err
	}
	// The line says that the worker is ready; a byte, that all are.
	fmt.Fprintln(out, "ready")
	if _, err := in.Read(make([]byte, 1)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range j.Goroutines {
		wg.Go(func() {
			admitted, denied, err := j.ask(c)
			mu.Lock()
			defer mu.Unlock()
			o.Admitted = append(o.Admitted, admitted...)
			o.Denied += denied
			if err != nil {
				o.Err = err.Error()
			}
		})
	}
	wg.Wait()
	if err := c.Close(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(&o)
}

// ask asks until the time is up.
func (j *job) ask(c *coord.Client) (admitted [][2]int64, denied int, err error) {
	ctx := context.Background()
	for end := time.Now().Add(j.For); time.Now().Before(end); {
		sent := time.Now().UnixNano()
		r, err := c.Allow(ctx, j.Key, j.Limit)
		got := time.Now().UnixNano()
		switch {
		case err != nil:
			return admitted, denied, err
		case r.Allowed:
			admitted = append(admitted, [2]int64{sent, got})
		default:
			denied++
			time.Sleep(min(max(r.RetryAfter, 100*time.Microsecond), 5*time.Millisecond))
		}
	}
	return admitted, denied, nil
}

// run does the job in so many processes, which begin together.
func run(t *testing.T, processes int, j job) (sum outcome) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var all []process
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, process{cmd, in, bufio.NewReader(out)})
	}
	for _, p := range all {
		if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("a process says %q, %v", line, err)
		}
	}
	for _, p := range all {
		if _, err := p.in.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		var o outcome
		if err := json.NewDecoder(p.out).Decode(&o); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil || o.Err != "" {
			t.Fatalf("a process ended with %v, %s", err, o.Err)
		}
		sum.Admitted = append(sum.Admitted, o.Admitted...)
		sum.Leased += o.Leased
		sum.Denied += o.Denied
		sum.Wasted += o.Wasted
		sum.Returned += o.Returned
	}
	return sum
}
