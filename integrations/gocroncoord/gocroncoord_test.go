package gocroncoord

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runs notes which process ran the job.
type runs struct {
	mu  sync.Mutex
	ran []string
}

func (r *runs) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran = append(r.ran, name)
}

func (r *runs) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ran := r.ran
	r.ran = nil
	return ran
}

// every starts a scheduler with one job, which runs each minute.
func every(t *testing.T, job any, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("report")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func shutdown(t *testing.T, schedulers ...gocron.Scheduler) {
	t.Helper()
	for _, s := range schedulers {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// Two processes, whose clocks differ by ten seconds, have one job. Each tick runs once, by MinHold, and twice
// without it.
func TestOneRunOfATick(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []coord.LockOption
		want int
	}{
		"MinHold":         {[]coord.LockOption{coord.MinHold(30 * time.Second)}, 10},
		"without MinHold": {nil, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r runs
				store := memory.NewStore()
				start := func(name string) gocron.Scheduler {
					locker := Locker{coordtest.NewOn(t, store).Client, tc.opts}
					return every(t, func() { r.note(name) }, gocron.WithDistributedLocker(locker))
				}
				a := start("a")
				time.Sleep(10 * time.Second)
				b := start("b")
				time.Sleep(10*time.Minute + 5*time.Second)
				shutdown(t, a, b)
				if ran := r.take(); len(ran) != tc.want {
					t.Errorf("%d runs in ten minutes, want %d: %v", len(ran), tc.want, ran)
				}
				time.Sleep(time.Minute) // MinHold
			})
		})
	}
}

// A job that runs for nine leases keeps its lock: the other process skips its runs until the job has ended.
func TestJobOutlivesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r runs
		var once sync.Once
		store := memory.NewStore()
		locker := func() gocron.SchedulerOption {
			return gocron.WithDistributedLocker(Locker{Client: coordtest.NewOn(t, store).Client})
		}
		a := every(t, func() {
			once.Do(func() {
				r.note("a begins")
				time.Sleep(9 * coord.DefaultTTL)
				r.note("a has ended")
			})
		}, locker())
		time.Sleep(10 * time.Second)
		b := every(t, func() { r.note("b") }, locker())
		time.Sleep(6 * time.Minute)
		synctest.Wait() // gocron does not let time pass in Shutdown while a job runs
		shutdown(t, a, b)
		if ran := r.take(); !slices.Equal(ran, []string{"a begins", "a has ended", "b"}) {
			t.Errorf("%v: want b after a has ended, and not before", ran)
		}
	})
}

// A lost lock ends the context of a guarded job.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := coordtest.New(t)
		ended := make(chan error, 1)
		job := Guarded(client.Client, "report", func(ctx context.Context) error {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		})
		s := every(t, job)
		time.Sleep(90 * time.Second)
		client.Lose(coord.Key("job", "report"))
		if err := <-ended; !errors.Is(err, coord.ErrLost) {
			t.Errorf("the job ended because of %v", err)
		}
		synctest.Wait()
		shutdown(t, s)
	})
}

// One process leads, and its scheduler runs the job, all runs of it. When its term is lost, either one leads next.
// When it has gone, the other one does.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r runs
		store := memory.NewStore()
		clients, stops := map[string]*coordtest.Client{}, map[string]func(){}
		start := func(name string) {
			var e Elector
			client := coordtest.NewOn(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.Campaign(ctx, client.Client, "scheduler") }()
			synctest.Wait()
			s := every(t, func() { r.note(name) }, gocron.WithDistributedElector(&e))
			clients[name], stops[name] = client, func() {
				shutdown(t, s)
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("the campaign ended with %v", err)
				}
			}
		}
		leader := func() (name string) {
			t.Helper()
			time.Sleep(5 * time.Minute)
			ran := r.take()
			if len(ran) != 5 || len(slices.Compact(slices.Clone(ran))) != 1 {
				t.Fatalf("five minutes: ran by %v: want five times by the one that leads", ran)
			}
			return ran[0]
		}
		start("a")
		start("b")
		time.Sleep(time.Second) // each look is a second after a run
		if who := leader(); who != "a" {
			t.Errorf("%s led: a campaigned first", who)
		}
		clients["a"].Lose("scheduler")
		was := leader()
		stops[was]()
		delete(stops, was)
		if who := leader(); who == was {
			t.Errorf("%s leads, and has ended its campaign", who)
		}
		for _, stop := range stops {
			stop()
		}
	})
}
